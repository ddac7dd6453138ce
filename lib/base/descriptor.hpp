#pragma once
#include <unistd.h>

#include <utility>

namespace gravel {

/// A file descriptor that is closed when its owner ends, or has another one.
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

  /// Negative: there is none.
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) close(release());
  }

 private:
  int number_ = -1;
};

}  // namespace gravel
