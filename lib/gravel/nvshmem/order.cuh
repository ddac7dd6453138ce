// Order and completion.
#pragma once
#include <gravel/nvshmem/job.cuh>

namespace gravel::detail::nvshmem {

/// Waits for what the caller's PE has sent, in a kernel. If kernels reach the memory of all PEs, NVSHMEM's calls are
/// loads, stores and atomics, which a fence waits for. Senders that gather send messages, and gravel_quiet waits for
/// them too: it reads the counts of queues and rings, which takes as long as the fence.
GRAVEL_BOTH void quiet_of_kernel() {
#if !defined(NVSHMEM_GATHER)
  if (handle().all_mapped && handle().self_in_place) {
    thread_fence();
    return;
  }
#endif
  gravel_quiet(handle());
}

}  // namespace gravel::detail::nvshmem

GRAVEL_BOTH void nvshmem_quiet() {
#if GRAVEL_ON_GPU
  gravel::detail::nvshmem::quiet_of_kernel();
#else
  if (gravel::detail::nvshmem::in_kernel()) gravel::detail::nvshmem::quiet_of_kernel();
  else gravel_quiet();
#endif
}
GRAVEL_BOTH void nvshmem_fence() {
  if (gravel::detail::nvshmem::in_kernel()) gravel::detail::nvshmem::quiet_of_kernel();
  else gravel_fence(gravel::detail::nvshmem::handle());
}

// A call returns when its source may be reused: there is nothing to wait for.
GRAVEL_BOTH void nvshmemx_flush() {}
GRAVEL_DEVICE void nvshmemx_flush_warp() { gravel::detail::nvshmem::sync(gravel::detail::nvshmem::warp_scope{}); }
GRAVEL_DEVICE void nvshmemx_flush_block() { gravel::detail::nvshmem::sync(gravel::detail::nvshmem::block_scope{}); }
