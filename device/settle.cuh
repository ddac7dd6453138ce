// Settle: the kernel that ends a quiet, a barrier or quiescence for a host thread.
//
// The host waits for one of these events on the device:
//   quiet        everything that the PE's kernels have sent is applied
//   barrier      among PEs that reach each other's memory: all PEs have come so far, each after a quiet
//   quiescence   among the same PEs: no message is under way and no handler runs
// One kernel serves all three. The host waits for a word of its own. While the resolver is resident, one of its warps
// does the same for quiet and barrier, without a launch (device/settle_orders.cuh).
#pragma once
#include "device/wait.cuh"
#include "lib/base/service_rings.hpp"

namespace gravel::detail {

enum class settling : uint8_t { quiet, barrier, quiescence };

/// Parameters of a kernel that ends a quiet or a barrier. It is plain data, and little: the time of a launch grows with
/// it.
struct rendezvous_view {
  gravel_t g;              ///< of kernels
  peer_rendezvous all;     ///< the other PEs; of a quiet: none
  const ring_line* lines;  ///< [n_lines] lines of the rings from this PE; all words of a ring that does not exist are 0
  uint32_t n_lines;        ///< at most max_peers: a node of more PEs has no rings
};
/// Parameters of a kernel that ends quiescence.
struct settle_view : rendezvous_view {
  static constexpr uint32_t most_services = 32;
  queue of_handlers;    ///< holds what handlers on the device send when no ring has room
  uint32_t n_services;  ///< services that are open
  struct {
    const service_block* blocks;
    uint32_t n;
  } service[most_services];
};

constexpr int settle_threads = 128;

/// As seems_applied() of wait.cuh, for a kernel of its own: addresses come with the launch, since what such a kernel
/// reads first takes long. Thread scope: warp.
__device__ __forceinline__ bool seems_applied(const rendezvous_view& v) {
  // Each lane reads the words of every 32nd ring, and all read the words of the queues.
  bool all_applied = true;
  for (uint32_t rank = threadIdx.x % 32; rank < v.n_lines; rank += 32) {
    const uint64_t tickets = load_acquire_later(&v.lines[rank].tickets),
                   below = load_acquire_later(&v.lines[rank].applied_below);
    all_applied &= below >= tickets;
  }
  return queues_seem_applied(v.g, [] {}) && all_applied;
}

/// As gravel_quiet, with one warp for each of its parts, which do not depend on each other. After it the threads of the
/// first warp have called thread_fence(). Thread scope: block.
__device__ __forceinline__ void quiet_by_block(const rendezvous_view& v) {
  const gravel_t& g = v.g;
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  bool some = false;
  if (warp == 0) {
    some = !seems_applied(v);
    thread_fence();
  }
  if (!__syncthreads_or(some)) return;
  if (warp == 0) flush_peers(g, lane_group::converged_warp(threadIdx.x, settle_threads));
  else if (lane == 0 && warp == 1) g.direct.flush_all();
  else if (lane == 0 && warp == 2) g.block.flush_all();
  else if (lane == 0 && warp == 3) wait_for_gets(g.counters->gets, [] {});
  __syncthreads();
  thread_fence();
}

/// Returns this thread's part of the sum of all tickets that were taken on this device so far, in rings, queues, and
/// rings of services. None of these counts ever falls. Thread scope: all threads of a block.
__device__ __forceinline__ uint64_t part_of_tickets(const settle_view& v) {
  const uint32_t rank = threadIdx.x;
  static_assert(max_peers <= settle_threads);
  uint64_t sum = 0;
  if (rank < v.all.n && v.g.peers[rank].ring.slots) sum = load_relaxed<scope::device>(&v.g.peers[rank].line->tickets);
  if (rank == settle_threads - 1)
    for (const queue* q : {&v.g.direct, &v.g.block, &v.of_handlers})
      sum += load_relaxed<scope::device>(&q->state->tickets);
  for (uint32_t s = 0; s < v.n_services; ++s)
    for (uint32_t i = rank; i < v.service[s].n; i += settle_threads) sum += v.service[s].blocks[i].tickets();
  return sum;
}

/// Waits until everything that has a ticket by now is applied. Thread scope: block.
__device__ __forceinline__ void apply_all(const settle_view& v) {
  quiet_by_block(v);
  if (threadIdx.x == 0) v.of_handlers.flush_all();
  if (threadIdx.x >= 32 && threadIdx.x < 64)
    for (uint32_t s = 0; s < v.n_services; ++s)
      for (uint32_t i = threadIdx.x % 32; i < v.service[s].n; i += 32) {
        const service_block& block = v.service[s].blocks[i];
        // The count of applied messages is read first. If it equals the number of tickets read after it, then at that
        // moment all of them were applied.
        for (relax wait;; wait()) {
          const uint64_t applied = block.applied();
          if (applied == block.tickets()) break;
        }
      }
  __syncthreads();
}

/// Returns when nothing is under way between the PEs' devices, nor on any of them.
///
/// Protocol. Rounds, with the same numbers at all PEs:
///
///   this PE                                               every other PE
///   has it taken tickets since the round before?
///   all that has a ticket is applied (apply_all)
///   its word at each PE = this round, and whether [S3] release   sees all words of this round  [S3] acquire
///
/// until in some round no PE has taken a ticket since the round before.
///
/// Why it is correct. Consider the last two rounds. When the first of them was complete everywhere, all tickets ever
/// taken were for messages that had been applied. What handlers and service blocks send has its tickets before their
/// own messages are done. So none of them ran, and nothing is left that could send.
///
/// A PE may be one round ahead of another that has not yet read its word, but not two. So there are two words, for even
/// and odd rounds. They keep their numbers from one call to the next. Thread scope: block.
__device__ __forceinline__ void wait_for_end(const settle_view& v) {
  const uint32_t rank = threadIdx.x;
  const bool takes_part = rank < v.all.n;
  const auto& own = v.all.mine[v.g.my_pe].round;
  const uint64_t last = (own[0] > own[1] ? own[0] : own[1]) / 2;
  uint64_t tickets = ~uint64_t{0};  // more than any part
  relax between;
  for (uint64_t round = last + 1;; ++round, between.attentively()) {
    const uint64_t before = tickets;
    tickets = part_of_tickets(v);
    const bool sent = __syncthreads_or(tickets != before) != 0;
    apply_all(v);
    uint64_t seen = 0;
    if (takes_part) {
      store_release(&v.all.theirs[rank]->round[round % 2], 2 * round + sent);  // [S3]
      for (relax wait; (seen = load_acquire(&v.all.mine[rank].round[round % 2])) / 2 < round;
           wait.attentively()) {  // [S3]
      }
    }
    if (!__syncthreads_or(seen % 2 != 0)) return;
  }
}

/// This PE's part in a barrier, when its messages are applied and the warp has called thread_fence(). `theirs`: this
/// PE's words at the PE whose rank is the lane's number, if there is one. Thread scope: warp.
///
/// Protocol of a barrier. Barriers have the same numbers at all PEs, and later ones have higher numbers.
///
///   this PE                                      every other PE
///   its messages are applied (quiet)
///   its word at each PE = number  [S1] release   sees all words at that number  [S1] acquire
///
/// Invariant. No word goes beyond k before all words were k at that PE, since its host waits for the end of a barrier
/// before it begins the next one.
__device__ __forceinline__ void sync_peers(const peer_rendezvous& all, peer_words* theirs, uint64_t number) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < all.n) store_behind_fence(&theirs->barrier, number);  // [S1]
  for (uint32_t rank = lane + 32; rank < all.n; rank += 32)
    store_behind_fence(&all.theirs[rank]->barrier, number);  // [S1]
  for (uint32_t rank = lane; rank < all.n; rank += 32)
    for (relax wait; load_acquire_later(&all.mine[rank].barrier) < number; wait.closely()) {  // [S1]
    }
  __syncwarp();
}

/// Sets `*reported` to `number` when the event has happened. Launched with one block.
template <settling WHAT>
__global__ void __launch_bounds__(settle_threads)
    settle(const __grid_constant__ std::conditional_t<WHAT == settling::quiescence, settle_view, rendezvous_view> v,
           uint64_t number, uint64_t* reported) {
  if constexpr (WHAT == settling::quiescence) {
    wait_for_end(v);
  } else {
    peer_words* theirs = nullptr;
    if constexpr (WHAT == settling::barrier)
      if (threadIdx.x < v.all.n && threadIdx.x < 32) theirs = v.all.theirs[threadIdx.x];  // while the quiet waits
    quiet_by_block(v);
    if (threadIdx.x >= 32) return;
    if constexpr (WHAT == settling::barrier) sync_peers(v.all, theirs, number);
  }
  // Nothing is acquired here from the other PEs, since this kernel reads nothing more: a fence of system scope takes
  // more than a microsecond. What the host does next on this GPU is ordered after this kernel.
  if (threadIdx.x == 0) store_relaxed(reported, number);  // [S2]
}

}  // namespace gravel::detail
