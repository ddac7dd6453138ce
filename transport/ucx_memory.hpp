// Registration of memory that puts read from or write into.
#pragma once
#include <cstddef>
#include <vector>

#include "transport/ucx_context.hpp"

namespace gravel::detail {

/// Registers existing host memory (anonymous, or mapped from a memfd) for puts, local and remote. Does not own it: the
/// memory must stay mapped as long as this object and all workers that used it exist. May be used by all threads.
class ucx_memory {
 public:
  /// Throws gravel::error if UCX cannot register the memory (usually the limit on locked memory).
  ucx_memory(ucx_context& context, void* address, size_t bytes);
  /// Registers the first `bytes` of a memfd, which are mapped at `mapped` and must be all zeros yet. Processes of this
  /// machine put into them without help of this one, if UCX lets them share the memory.
  ucx_memory(ucx_context& context, int file, void* mapped, size_t bytes);
  ~ucx_memory();
  ucx_memory(const ucx_memory&) = delete;
  ucx_memory& operator=(const ucx_memory&) = delete;

  /// The key that a peer needs to put into this memory: send it there and make a ucx_remote_memory of it.
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
