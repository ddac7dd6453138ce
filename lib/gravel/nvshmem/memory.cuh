// Symmetric memory.
#pragma once
#include <gravel/nvshmem/job.cuh>

namespace gravel::detail::nvshmem {

/// Where memory does not suffice, or cannot be aligned so, the call says so and returns nullptr, at all PEs.
inline void* allocate(uint64_t bytes, uint64_t alignment) {
  try {
    return gravel_malloc_aligned(bytes, alignment);
  } catch (const error& e) {
    warn(e.what());
    return nullptr;
  }
}

/// The address at which kernels of this PE reach the symmetric object of another PE, for a host thread.
inline void* address_for_kernels(const void* address, int pe) {
#if GRAVEL_CUDA
  const gravel_t& g = process().state.kernels;
  check_handle(process().host, "nvshmem_ptr");
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(address) - g.heap);
  if (offset >= g.heap_bytes || static_cast<uint32_t>(pe) >= g.n_pes) return nullptr;
  if (static_cast<uint32_t>(pe) == g.my_pe) return const_cast<void*>(address);
  if (!g.peers) return nullptr;
  peer_link link;
  copy_from_device(&link, g.peers + pe, sizeof(link));
  return link.heap ? link.heap + offset : nullptr;
#else
  return gravel_ptr(process().state.kernels, const_cast<void*>(address), pe);
#endif
}

}  // namespace gravel::detail::nvshmem

inline void* nvshmem_malloc(size_t size) { return gravel::detail::nvshmem::allocate(size, 1); }
inline void* nvshmem_calloc(size_t count, size_t size) { return gravel::detail::nvshmem::allocate(count * size, 1); }
inline void* nvshmem_align(size_t alignment, size_t size) { return gravel::detail::nvshmem::allocate(size, alignment); }
inline void nvshmem_free(void* ptr) { gravel_free(ptr); }

/// On the host, too: the address is one for kernels and for CUDA's copies.
GRAVEL_BOTH void* nvshmem_ptr(const void* ptr, int pe) {
#if GRAVEL_ON_GPU
  return gravel_ptr(gravel::detail::nvshmem::handle(), const_cast<void*>(ptr), pe);
#else
  return gravel::detail::nvshmem::address_for_kernels(ptr, pe);
#endif
}
/// There is no multicast memory: always nullptr.
GRAVEL_BOTH void* nvshmemx_mc_ptr(nvshmem_team_t, const void*) { return nullptr; }

// Any memory that the device reads may be a source: nothing is to be registered.
inline int nvshmemx_buffer_register(void*, size_t) { return 0; }
inline int nvshmemx_buffer_unregister(void*) { return 0; }
inline void nvshmemx_buffer_unregister_all() {}

inline void* nvshmemx_buffer_register_symmetric(void* buffer, size_t size, int) {
  return gravel_register(buffer, size);
}
/// The address is Gravel's choice.
inline void* nvshmemx_buffer_register_symmetric_at_preferred_address(void* buffer, size_t size, void*, int) {
  return gravel_register(buffer, size);
}
inline int nvshmemx_buffer_unregister_symmetric(void* symmetric, size_t) {
  gravel_unregister(symmetric);
  return 0;
}

typedef enum {
  NVSHMEMX_SMEM_RECOMMENDED = 0,
  NVSHMEMX_SMEM_MINIMUM = 1,
  NVSHMEMX_SMEM_BARRIERS_ONLY = 2,
  NVSHMEMX_SMEM_AMOUNT_MAX = INT_MAX
} nvshmemx_smem_amount_t;
// Calls need no shared memory of the program.
GRAVEL_BOTH int nvshmemx_ask_smem(nvshmemx_smem_amount_t) { return 0; }
GRAVEL_DEVICE void nvshmemx_give_smem(void*, size_t) {}
GRAVEL_DEVICE void nvshmemx_release_smem() {}
