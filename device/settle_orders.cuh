// Orders: a quiet or a barrier for a host thread, by a warp of the resolver.
//
// Problem. A barrier by a kernel of its own (device/settle.cuh) takes the time of a launch, which is longer than what
// the kernel does.
// Solution. While a residency lease is in force, the host writes an order into pinned memory, and one warp of the
// resolver, which polls there, obeys it. The warp serves no rings. Without a lease the host launches the kernel.
//
// Protocol. An order is one word, since each word that is read over PCIe takes more than a microsecond. The host gives
// one order at a time, and only under a lease that the resolver has acknowledged ([H1]), which stays in force until the
// answer.
//
//   host                        the warp
//   control->order = n          [Q1] release   sees n                  [Q1] acquire
//   sees n                      [Q2] acquire   control->answered = n   [Q2] release
//
// Invariant: control->order == control->answered whenever a resolver kernel begins or ends. The model is
// test/models/lease.pml.
#pragma once
#include "device/resolver_state.cuh"
#include "device/settle.cuh"

namespace gravel::detail {

#if GRAVEL_CUDA

/// Waits until all that the PE's kernels have sent is applied, and, unless `barrier` is 0, for all PEs in the barrier
/// of that number. `v`: a copy of `*at`, so that addresses lie in registers. Thread scope: warp.
__device__ __forceinline__ void obey(const rendezvous_view& v, const rendezvous_view* at, peer_words* theirs,
                                     uint64_t barrier) {
  const bool applied = __all_sync(~0u, seems_applied(v)) != 0;
  thread_fence();
  if (!applied) {
    finish_sends(at->g, lane_group::converged_warp(threadIdx.x, resolver_threads));
    __syncwarp();
    thread_fence();
  }
  if (barrier) sync_peers(v.all, theirs, barrier);
}

/// Obeys orders until block 0 of the resolver sets `stop`. `at`: in device memory. Thread scope: warp.
__device__ __forceinline__ void serve_orders(const rendezvous_view* at, const resolver_state* state,
                                             resolver_control* control) {
  const uint32_t lane = threadIdx.x % 32;
  const rendezvous_view v = *at;
  peer_words* const theirs = lane < v.all.n ? v.all.theirs[lane] : nullptr;
  uint64_t answered = load_relaxed(&control->answered);
  for (;;) {
    const bool stops = __any_sync(~0u, load_relaxed<scope::device>(&state->stop) != 0) != 0;
    uint64_t order = 0;
    if (lane == 0) order = load_acquire(&control->order);  // [Q1]
    order = __shfl_sync(~0u, order, 0);
    if (order == answered) {
      if (stops) return;
      continue;
    }
    obey(v, at, theirs, settle_order::barrier_of(order));
    answered = order;
    // Nothing is acquired here from the other PEs: this warp reads nothing of them, and what the host starts next on
    // this GPU begins without lines in its caches.
    if (lane == 0) store_relaxed(&control->answered, order);  // [Q2]
  }
}

#endif  // GRAVEL_CUDA

}  // namespace gravel::detail
