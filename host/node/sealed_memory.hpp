// Memory that processes of a machine share: a memfd whose size nobody can change while others have it mapped. It has no
// name in any file system, so nothing is left behind however a process ends.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// Makes a zeroed memfd of a size that nobody can change. `name`: shown in /proc. `what`: names it in errors. Throws
/// gravel::error that says what did not fit.
owned_descriptor make_sealed(const char* name, const std::string& what, uint64_t bytes);
/// Throws gravel::error if the descriptor is not a memfd of this size that nobody can change.
void check_sealed(int descriptor, const std::string& what, uint64_t bytes);

/// Mapped while the object exists. `what`: names it in errors. `flags`: additional flags for mmap.
class sealed_memory {
 public:
  /// Makes zeroed memory; a page uses memory once it is touched. `name`: shown in /proc. Throws gravel::error that says
  /// what did not fit.
  sealed_memory(const char* name, const std::string& what, uint64_t bytes, int flags = 0);
  /// Maps memory of another process. Throws gravel::error if it has another size, or if its size may still change.
  sealed_memory(owned_descriptor theirs, const std::string& what, uint64_t bytes, int flags = 0);
  sealed_memory(sealed_memory&&) noexcept;
  sealed_memory& operator=(sealed_memory&&) = delete;
  ~sealed_memory();

  char* at() const { return at_; }
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return file_.get(); }
  /// The memory stays mapped.
  void close_descriptor() { file_.reset(); }
  bool holds(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(at_) < bytes_;
  }

 private:
  void map(const std::string& what, int flags);

  uint64_t bytes_;
  owned_descriptor file_;
  char* at_ = nullptr;
};

}  // namespace gravel::detail
