// What the host waits for on the device: that all which the PE's kernels have sent is applied; among PEs that reach
// each other's memory also that all of them have come so far (barrier), and that nothing is under way any more
// (quiescence). One kernel for all of it; the host waits for a word of its own.
#pragma once
#include "device/wait.cuh"
#include "lib/base/service_rings.hpp"

namespace gravel::detail {

enum class settling : uint8_t { quiet, barrier, quiescence };

/// What a kernel looks at that ends a quiet or a barrier. Plain data, and little: the time of a launch grows with it.
struct rendezvous_view {
  gravel_t g;              ///< of kernels
  peer_rendezvous all;     ///< of a quiet: nobody
  const ring_line* lines;  ///< [n_lines] of the rings from this PE; of one that is not there all words are 0
  uint32_t n_lines;        ///< at most max_peers: a node of more PEs has no rings
};
/// And one that looks for quiescence.
struct settle_view : rendezvous_view {
  static constexpr uint32_t most_services = 32;
  queue of_handlers;    ///< in which what handlers on the device send waits when no ring has room for it
  uint32_t n_services;  ///< that are open
  struct {
    const service_block* blocks;
    uint32_t n;
  } service[most_services];
};

constexpr int settle_threads = 128;

/// As seems_applied, but what a kernel of its own reads first takes long: no address is loaded. Thread scope: the first
/// warp.
__device__ __forceinline__ bool seems_applied(const rendezvous_view& v) {
  const uint32_t lane = threadIdx.x;
  static_assert(max_peers <= 32);  // each lane looks at one ring, and all at the same of the others' words
  const ring_line* const line = lane < v.n_lines ? &v.lines[lane] : nullptr;
  const uint64_t tickets = line ? load_acquire_later(&line->tickets) : 0,
                 below = line ? load_acquire_later(&line->applied_below) : 0;
  return queues_seem_applied(v.g) && below >= tickets;
}

/// As gravel_quiet, each part by a warp of its own: what they wait for has nothing to do with each other. The threads
/// of the first warp have called thread_fence() behind it. Thread scope: block.
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

/// Tickets that were taken on this device so far, in rings, queues, and rings of services: this thread's part of the
/// sum. None of these counts ever falls. Thread scope: all threads of a block.
__device__ __forceinline__ uint64_t part_of_tickets(const settle_view& v) {
  const uint32_t rank = threadIdx.x;
  uint64_t sum = 0;
  if (rank < v.all.n && v.g.peers[rank].ring.slots) sum = load_relaxed<scope::device>(&v.g.peers[rank].line->tickets);
  if (rank == max_peers)
    for (const queue* q : {&v.g.direct, &v.g.block, &v.of_handlers})
      sum += load_relaxed<scope::device>(&q->state->tickets);
  for (uint32_t s = 0; s < v.n_services; ++s)
    for (uint32_t i = rank; i < v.service[s].n; i += settle_threads) sum += v.service[s].blocks[i].tickets();
  return sum;
}

/// Waits until all that has a ticket by now is applied. Thread scope: block.
__device__ __forceinline__ void apply_all(const settle_view& v) {
  quiet_by_block(v);
  if (threadIdx.x == 0) v.of_handlers.flush_all();
  if (threadIdx.x >= 32 && threadIdx.x < 64)
    for (uint32_t s = 0; s < v.n_services; ++s)
      for (uint32_t i = threadIdx.x % 32; i < v.service[s].n; i += 32) {
        const service_block& block = v.service[s].blocks[i];
        // What is applied first: if it is the number of tickets that are read behind it, then at that moment all of
        // them were applied.
        for (relax wait;; wait()) {
          const uint64_t applied = block.applied();
          if (applied == block.tickets()) break;
        }
      }
  __syncthreads();
}

/// Returns when nothing is under way between any of the PEs' devices, nor in one. Rounds, numbered alike at all PEs:
///
///   this PE                                               every other PE
///   has it taken tickets since the round before?
///   all that has a ticket is applied (apply_all)
///   its word at each PE = this round, and whether [S3] release   sees all words of this round  [S3] acquire
///
/// until in some round nobody has taken a ticket since the round before. Between the two, then, when the first was
/// complete everywhere, all tickets that were ever taken were of messages that were applied; what handlers and service blocks
/// send has its tickets before theirs are done, so none of them ran, and nothing is left that could send.
///
/// A PE may be one round ahead of another that has not yet read its word, but not two: so there are two words, for even
/// and odd rounds. They keep their numbers from one call to the next. Thread scope: block.
__device__ __forceinline__ void wait_for_end(const settle_view& v) {
  const uint32_t rank = threadIdx.x;
  const bool meets = rank < v.all.n;
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
    if (meets) {
      store_release(&v.all.theirs[rank]->round[round % 2], 2 * round + sent);  // [S3]
      for (relax wait; (seen = load_acquire(&v.all.mine[rank].round[round % 2])) / 2 < round;
           wait.attentively()) {  // [S3]
      }
    }
    if (!__syncthreads_or(seen % 2 != 0)) return;
  }
}

/// `told` becomes `number` when all is done. Barriers are numbered, alike at all PEs, and later ones have higher
/// numbers. Launched with one block.
///
///   this PE                                      every other PE
///   its messages are applied (quiet)
///   its word at each PE = number  [S1] release   sees all words at that number  [S1] acquire
///
/// Invariant: no word goes beyond k before all words were k at that PE, since its host waits for `told` between two
/// barriers.
template <settling WHAT>
__global__ void __launch_bounds__(settle_threads)
    settle(const __grid_constant__ std::conditional_t<WHAT == settling::quiescence, settle_view, rendezvous_view> v,
           uint64_t number, uint64_t* told) {
  if constexpr (WHAT == settling::quiescence) {
    wait_for_end(v);
  } else {
    const uint32_t rank = threadIdx.x;
    const bool meets = WHAT == settling::barrier && rank < v.all.n;
    peer_words* const theirs = meets ? v.all.theirs[rank] : nullptr;  // loaded meanwhile
    quiet_by_block(v);
    if (rank >= 32) return;
    if (meets) {
      store_behind_fence(&theirs->barrier, number);                                                   // [S1]
      for (relax wait; load_acquire_later(&v.all.mine[rank].barrier) < number; wait.attentively()) {  // [S1]
      }
    }
    __syncwarp();
  }
  // Nothing is acquired here from the other PEs, as this kernel reads nothing more: a fence of system scope takes more
  // than a microsecond. What the host does next on this GPU comes behind this kernel.
  if (threadIdx.x == 0) store_relaxed(told, number);  // [S2]
}

}  // namespace gravel::detail
