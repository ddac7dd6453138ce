// Order and completion.
#pragma once
#include <gravel/nvshmem/job.cuh>

GRAVEL_BOTH void nvshmem_quiet() {
#if GRAVEL_ON_GPU
  gravel_quiet(gravel::detail::nvshmem::handle());
#else
  if (gravel::detail::nvshmem::in_kernel()) gravel_quiet(gravel::detail::nvshmem::handle());
  else gravel_quiet();
#endif
}
GRAVEL_BOTH void nvshmem_fence() { gravel_fence(gravel::detail::nvshmem::handle()); }

// A call returns when its source may be reused: there is nothing to wait for.
GRAVEL_BOTH void nvshmemx_flush() {}
GRAVEL_DEVICE void nvshmemx_flush_warp() { gravel::detail::nvshmem::sync(gravel::detail::nvshmem::warp_scope{}); }
GRAVEL_DEVICE void nvshmemx_flush_block() { gravel::detail::nvshmem::sync(gravel::detail::nvshmem::block_scope{}); }
