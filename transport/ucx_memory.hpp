// Registration of memory: what a put reads from here, and what others' puts write into.
#pragma once
#include <cstddef>
#include <vector>

#include "transport/ucx_context.hpp"

namespace gravel::detail {

/// Registers existing host memory (anonymous, or mapped from a memfd) for puts, local and remote. Does not
/// own it: the memory must stay mapped for as long as this object and all workers that used it live. May be
/// used by all threads.
class ucx_memory {
 public:
  /// Throws gravel::error if UCX cannot register the memory (usually the limit on locked memory).
  ucx_memory(ucx_context& context, void* address, size_t bytes);
  /// The same of the first `bytes` of a memfd, all zeros yet, which are mapped at `mapped`. Processes of this machine
  /// put into them without help of this one, if UCX lets them share it.
  ucx_memory(ucx_context& context, int file, void* mapped, size_t bytes);
  ~ucx_memory();
  ucx_memory(const ucx_memory&) = delete;
  ucx_memory& operator=(const ucx_memory&) = delete;

  /// What a peer needs to put into this memory: send it there and make a ucx_remote_memory of it.
  std::vector<std::byte> packed_key() const;

  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }
  ucp_mem_h handle() const { return handle_; }
  bool contains(const void* start, size_t bytes) const;

 private:
  ucx_context& context_;
  void* address_;  ///< where peers put: `mapped`, or UCX's own mapping
  size_t bytes_;
  ucp_mem_h handle_ = nullptr;

  void register_here();
  bool share(int file);
};

}  // namespace gravel::detail
