// Barriers.
#pragma once
#include <gravel/nvshmem/job.cuh>

GRAVEL_BOTH void nvshmem_barrier_all() {
#if GRAVEL_ON_GPU
  gravel::detail::thread_fence();
  gravel::detail::inner::rendezvous(gravel::detail::nvshmem::handle(), gravel::detail::other_call::barrier_block);
#else
  gravel_barrier_all();
#endif
}
GRAVEL_DEVICE void nvshmemx_barrier_all_block() { gravel_barrier_block(gravel::detail::nvshmem::handle()); }
