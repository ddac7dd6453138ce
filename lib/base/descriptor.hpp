#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace gravel::detail {

/// A file descriptor that is closed when its owner ends, or receives another one.
class owned_descriptor {
 public:
  owned_descriptor() = default;
  explicit owned_descriptor(int number) : number_(number) {}
  owned_descriptor(owned_descriptor&& other) noexcept : number_(other.release()) {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~owned_descriptor() { reset(); }

  /// The descriptor; negative: there is none.
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) close(release());
  }

 private:
  int number_ = -1;
};

/// Opens those of the descriptors 0 to 2 that are closed, on /dev/null. Otherwise a file, socket or memory of Gravel
/// could get such a number, and output to standard output or error would end up there.
inline void open_standard_descriptors() {
  for (int fd = open("/dev/null", O_RDWR | O_CLOEXEC); fd >= 0; fd = open("/dev/null", O_RDWR | O_CLOEXEC))
    if (fd > 2) {
      close(fd);
      return;
    } else {
      fcntl(fd, F_SETFD, 0);
    }
}

}  // namespace gravel::detail
