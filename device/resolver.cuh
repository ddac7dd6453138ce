// The resolver kernel: applies messages that arrive at a GPU, and runs device handlers, many at once.
//
// Problem. The resolver needs multiprocessors while messages arrive, and must not keep them for ever. But a kernel of
// gravel_launch may wait for what only the resolver can do. A resolver that ended while such a kernel runs might never
// get its multiprocessors back.
// Solution. The lifetime of the kernel is bounded. Block 0 ends the kernel when nothing has arrived for a while, or
// when the quantum is over, unless the host has acquired a residency lease. Block 0 acknowledges the lease when all
// blocks of the resolver are resident. The host starts a kernel of gravel_launch only after it has seen the
// acknowledgement ([H1]).
#pragma once
#include "device/resolver_landing.cuh"
#include "device/resolver_rings.cuh"
#include "device/settle_orders.cuh"

namespace gravel::detail {

#if GRAVEL_CUDA

template <class Handlers>
__global__ void __launch_bounds__(resolver_threads, 1)
    resolver(gravel_t g, landing ring, peer_rings peers, resolver_state* state, resolver_control* control,
             resolver_limits limits) {
  if (threadIdx.x == 0) {
    fetch_add<scope::device>(&state->resident, 1u);
    releases_of_block().begin();
  }
  const uint32_t warp = blockIdx.x * resolver_warps + threadIdx.x / 32;
  outbox_of_warp().begin(g, peers.deferred ? peers.deferred + warp : nullptr, threadIdx.x % 32);
  __syncthreads();
  if (blockIdx.x < gridDim.x - peers.blocks) {
    serve_landing<Handlers>(g, ring, peers, state, control, limits);
  } else if (peers.orders && warp == gridDim.x * resolver_warps - 2) {  // the last warp of a block releases chunks
    serve_orders(peers.orders, state, control);
    if (threadIdx.x % 32 == 0) releases_of_block().leave();
  } else {
    serve_rings<Handlers>(g, peers, state);
  }
  __syncwarp();
  if (outbox_of_warp().end(threadIdx.x % 32)) store_relaxed<scope::device>(&state->left_over, 1u);
  __syncthreads();
  // The last block that leaves reports how far the kernel has come. If something has arrived since, the host starts
  // another kernel.
  if (threadIdx.x == 0) {
    __threadfence();
    if (fetch_add_release<scope::device>(&state->leaving, 1u) != gridDim.x - 1) return;
    __threadfence();
    // Handlers in a warp that left late may have sent to a warp that had left.
    const ring_line* const own = peers.own < peers.n ? g.peers[g.my_pe].line : nullptr;
    const bool sent = own && load_relaxed<scope::device>(&own->tickets) != load_relaxed<scope::device>(&own->applied);
    store_relaxed(&control->left_over, uint64_t{sent || load_relaxed<scope::device>(&state->left_over)});
    store_release(&control->taken, load_acquire<scope::device>(&state->finished));
  }
}

#endif  // GRAVEL_CUDA

}  // namespace gravel::detail
