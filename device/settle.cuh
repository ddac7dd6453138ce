// What the host waits for on the device: that all which the PE's kernels have sent is applied, and, in a barrier among PEs that
// reach each other's memory, that all of them have come so far. One kernel for both; the host waits for a word of its own.
#pragma once
#include "device/wait.cuh"

namespace gravel {

constexpr int settle_threads = 128;

/// As gravel_quiet, each part by a warp of its own: what they wait for has nothing to do with each other. Thread scope: block.
__device__ __forceinline__ void quiet_by_block(const gravel_t& g) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) flush_peers(g, lane_group::converged_warp(threadIdx.x, settle_threads));
  else if (lane == 0 && warp == 1) g.direct.flush_all();
  else if (lane == 0 && warp == 2) g.block.flush_all();
  else if (lane == 0 && warp == 3) wait_for_gets(g.counters->gets, [] {});
  __syncthreads();
}

/// `told` becomes `number` when all is done. Barriers are numbered, alike at all PEs, and later ones have higher numbers.
/// Launched with one block.
///
///   this PE                                      every other PE
///   its messages are applied (quiet)
///   its word at each PE = number  [S1] release   sees all words at that number  [S1] acquire
///
/// Invariant: no word goes beyond k before all words were k at that PE, since its host waits for `told` between two barriers.
template <bool BARRIER>
__global__ void __launch_bounds__(settle_threads) settle(gravel_t g, peer_barrier all, uint64_t number, uint64_t* told) {
  const uint32_t rank = threadIdx.x;
  uint64_t* const theirs = BARRIER && rank < all.n ? all.theirs[rank] : nullptr;  // loaded meanwhile
  quiet_by_block(g);
  if (threadIdx.x >= 32) return;
  if constexpr (BARRIER) {
    if (rank < all.n) {
      store_release(theirs, number);                                                      // [S1]
      for (relax wait; load_acquire(&all.mine[rank * 8]) < number; wait.attentively()) {  // [S1]
      }
    }
    __syncwarp();
  }
  // What the host does next on this GPU comes behind it; it reads nothing else that this kernel has seen.
  if (threadIdx.x == 0) store_relaxed(told, number);  // [S2]
}

}  // namespace gravel
