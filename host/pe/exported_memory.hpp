// Memory of one process that others of its machine map, for the route `peer` on the CPU backend. It is a memfd: it has no name in
// any file system, and others open it by the number of this process and of its descriptor, so that nothing has to be sent.
#pragma once
#include <cstdint>
#include <string>

namespace gravel {

/// Zeroed memory of this process, mapped for as long as it lives.
class exported_memory {
 public:
  /// Pages cost memory when they are touched. Throws gravel::error, which says what did not fit.
  exported_memory(uint64_t bytes, const char* what);
  ~exported_memory();
  exported_memory(exported_memory&&) noexcept;
  exported_memory& operator=(exported_memory&&) = delete;

  void* at() const { return at_; }
  bool holds(const void* address) const { return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(at_) < bytes_; }
  /// What attach() needs, in any process of the same user on this machine.
  std::string describe() const;

 private:
  uint64_t bytes_;
  int descriptor_;
  void* at_;
};

/// Another process's memory.
class attached_memory {
 public:
  /// `described`: what that process's exported_memory::describe() said. Throws gravel::error if it cannot be mapped.
  explicit attached_memory(const std::string& described);
  ~attached_memory();
  attached_memory(attached_memory&&) noexcept;
  attached_memory& operator=(attached_memory&&) = delete;

  void* at() const { return at_; }

 private:
  uint64_t bytes_;
  void* at_;
};

}  // namespace gravel
