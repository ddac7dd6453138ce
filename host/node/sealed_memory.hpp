// Memory that processes of a machine share: a memfd whose size nobody may change under the others' mappings. It has no
// name in any file system: nothing is left behind after any kind of death.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/descriptor.hpp"

namespace gravel::detail {

/// Mapped as long as it lives. `what`: for errors. `flags`: of mmap, besides.
class sealed_memory {
 public:
  /// Zeroed; pages cost memory when they are touched. `name`: in /proc. Throws gravel::error, which says what did not
  /// fit.
  sealed_memory(const char* name, const std::string& what, uint64_t bytes, int flags = 0);
  /// Another process's. Throws gravel::error if it has another size, or may still change it.
  sealed_memory(owned_descriptor theirs, const std::string& what, uint64_t bytes, int flags = 0);
  sealed_memory(sealed_memory&&) noexcept;
  sealed_memory& operator=(sealed_memory&&) = delete;
  ~sealed_memory();

  char* at() const { return at_; }
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return file_.get(); }
  /// It stays mapped.
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
