// Rendezvous of a team's threads at the beginning of its calls on a GPU, in programs that are compiled with
// -DGRAVEL_CHECK=1 (device/team_check.cuh).
//
// Protocol. Each thread sets its bit and counts itself. The thread that completes the team clears all bits, and the
// others wait until their own bit is clear. A thread that arrives at the next call sets its bit again, but only after
// all have arrived at this one: so no waiting thread can miss that its bit was clear.
//
// The word of a warp may be in use by another mask or another call. Then the lanes are not checked. Different calls are
// legal for disjoint masks; otherwise the lanes that wait report which lanes are missing.
#pragma once
#include <cstdio>

#include "device/handle.cuh"
#include "lib/base/mix.hpp"
#include "lib/base/relax.hpp"
#include "lib/base/team_call.hpp"

namespace gravel::detail {

/// Words in the block's shared memory, which begins with whatever was there.
struct team_board {
  /// The block that has cleared the other words: number of its grid << 32 | its own number << 1 | are they cleared?
  uint64_t owner;
  uint64_t block;        ///< call and arguments << 32 | threads that have arrived
  uint64_t warp[32];     ///< call and arguments << 32 | lanes that have arrived
  uint32_t arrived[32];  ///< a bit for each thread that has arrived at the block's call
};

__device__ inline team_board& board_of_block() {
  __shared__ team_board board;
  const uint32_t number = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  uint64_t grid;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
  const uint64_t mine = grid << 32 | uint64_t{number & 0x7fffffffu} << 1;
  for (relax wait;; wait()) {
    const uint64_t seen = load_acquire<scope::shared>(&board.owner);
    if (seen == (mine | 1)) return board;
    if (seen == mine || !compare_swap_acquire<scope::shared>(&board.owner, seen, mine)) continue;
    board.block = 0;
    for (uint32_t w = 0; w < 32; ++w) {
      board.warp[w] = 0;
      board.arrived[w] = 0;
    }
    store_release<scope::shared>(&board.owner, mine | 1);
  }
}

/// Waits until is_over(). Returns false after GRAVEL_CHECK_S seconds.
template <class F>
__device__ bool wait_for_team(F is_over) {
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (relax wait; !is_over(); wait()) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begin > uint64_t{GRAVEL_CHECK_S} * 1'000'000'000) return false;
  }
  return true;
}

__device__ inline void report_team_fault(const gravel_t& g, message_fault fault, team_call call, uint64_t block,
                                         uint32_t thread, uint32_t n) {
  if (g.error) return report_error(g, fault, op::none, static_cast<uint32_t>(call), block, uint64_t{n} << 32 | thread);
#define GRAVEL_TEAM_CALL_TEXT(name, text, ...) text,
  const char* const names[] = {GRAVEL_TEAM_CALLS(GRAVEL_TEAM_CALL_TEXT)};
#undef GRAVEL_TEAM_CALL_TEXT
  printf("Gravel: %s in block %llu: %u threads that must make the call are missing; the first of them is thread %u\n",
         names[static_cast<int>(call)], static_cast<unsigned long long>(block), n, thread);
}

/// Reports missing threads. `missing`: the lanes of warp `warp` that have not arrived; `n`: the threads of the team
/// that have not.
__device__ inline void report_missing(const gravel_t& g, team_call call, uint32_t warp, uint32_t missing, uint32_t n) {
  const uint64_t block = blockIdx.x + uint64_t{gridDim.x} * (blockIdx.y + uint64_t{gridDim.y} * blockIdx.z);
  const uint32_t first = warp * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(missing)) - 1);
  report_team_fault(g, message_fault::missing_lanes, call, block, first, n);
}

__device__ inline bool sync_block(const gravel_t& g, team_call call, uint32_t tag) {
  team_board& board = board_of_block();
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z, warps = (threads + 31) / 32;
  const uint32_t number = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), bit = 1u << number % 32;
  atomicOr_block(&board.arrived[number / 32], bit);
  thread_fence<scope::block>();
  for (uint64_t seen = load_relaxed<scope::shared>(&board.block);;) {
    const auto come = static_cast<uint32_t>(seen);
    if (come != 0 && seen >> 32 != tag) {
      report_team_fault(g, message_fault::other_team_call, call,
                        blockIdx.x + uint64_t{gridDim.x} * (blockIdx.y + uint64_t{gridDim.y} * blockIdx.z), number,
                        threads - come);
      return false;
    }
    const bool is_last = come + 1 == threads;
    const uint64_t found =
        swap_acquire<scope::shared>(&board.block, seen, is_last ? 0 : uint64_t{tag} << 32 | (come + 1));
    if (found != seen) {
      seen = found;
      continue;
    }
    if (is_last)
      for (uint32_t w = 0; w < warps; ++w) store_release<scope::shared>(&board.arrived[w], 0u);
    break;
  }
  if (!wait_for_team([&] { return (load_acquire<scope::shared>(&board.arrived[number / 32]) & bit) == 0; })) {
    const uint32_t n = threads - static_cast<uint32_t>(load_relaxed<scope::shared>(&board.block));
    for (uint32_t w = 0; w < warps; ++w) {
      const uint32_t all = threads - w * 32 >= 32 ? ~0u : (1u << (threads - w * 32)) - 1;
      const uint32_t missing = all & ~load_relaxed<scope::shared>(&board.arrived[w]);
      if (!missing) continue;
      report_missing(g, call, w, missing, n);
      break;
    }
    return false;
  }
  __syncwarp(threads - number / 32 * 32 >= 32 ? ~0u : (1u << (threads - number / 32 * 32)) - 1);
  return true;
}

__device__ inline bool sync_warp(const gravel_t& g, team_call call, uint32_t lanes, uint32_t tag) {
  team_board& board = board_of_block();
  const uint32_t number = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), bit = 1u << number % 32;
  const uint32_t left = blockDim.x * blockDim.y * blockDim.z - number / 32 * 32;
  lanes &= left >= 32 ? ~0u : (1u << left) - 1;
  uint64_t* const word = &board.warp[number / 32];
  if (!(lanes & bit)) {
    report_missing(g, call, number / 32, bit, 1);
    return false;
  }
  for (uint64_t seen = load_relaxed<scope::shared>(word);;) {
    const auto come = static_cast<uint32_t>(seen);
    if (come != 0 && seen >> 32 != tag) return true;
    const bool is_last = (come | bit) == lanes;
    const uint64_t found = swap_acquire<scope::shared>(word, seen, is_last ? 0 : uint64_t{tag} << 32 | come | bit);
    if (found == seen) break;
    seen = found;
  }
  const auto is_over = [&] {
    const uint64_t now = load_acquire<scope::shared>(word);
    return now >> 32 != tag || (static_cast<uint32_t>(now) & bit) == 0;
  };
  if (!wait_for_team(is_over)) {
    const uint32_t missing = lanes & ~static_cast<uint32_t>(load_relaxed<scope::shared>(word));
    if (missing) report_missing(g, call, number / 32, missing, static_cast<uint32_t>(__popc(missing)));
    return missing == 0;
  }
  __syncwarp(lanes);
  return true;
}

/// Rendezvous of `lanes` of the calling warp; 0: of the block. Not inlined, since it is called in many places. Thread
/// scope: lane.
__device__ GRAVEL_NOINLINE inline bool sync_team_of(uint32_t n_pes, device_counters* counters, device_error* error,
                                                    team_call call, uint32_t lanes, uint64_t arguments) {
  gravel_t g{};
  g.n_pes = n_pes;
  g.counters = counters;
  g.error = error;
  const auto tag =
      static_cast<uint32_t>(mix(arguments + static_cast<uint64_t>(call) + (uint64_t{lanes} << 8)) >> 32) | 1;
  return lanes ? sync_warp(g, call, lanes, tag) : sync_block(g, call, tag);
}
__device__ inline bool sync_team(const gravel_t& g, team_call call, uint32_t lanes, uint64_t arguments) {
  return sync_team_of(g.n_pes, g.counters, g.error, call, lanes, arguments);
}

}  // namespace gravel::detail
