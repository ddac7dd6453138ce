// Rendezvous of all blocks of all PEs, for a kernel that stays for all levels of a search.
//
// Problem. Between two levels every block must know what all blocks have found. A launch for each level, or a barrier
// of a grid followed by one of the PEs, takes longer than a small level.
// Solution. Every block stores one word at every PE, and polls the words of all blocks in the memory of its own PE.
//
// Protocol of rendezvous k:
//   block                                                      every block of every PE
//   what it has written, at any PE
//   its report and k, in its word of table k % 2 at every PE   sees k in the words of all blocks  [W8] acquire
//     [W8] release
//
// Invariants. A block may be one rendezvous ahead of a block that still polls, but not two: so there are two tables.
// Numbers continue from one kernel to the next. All blocks see the same reports, and so decide alike. All blocks of all
// PEs run at the same time: cooperative launches of the same number of blocks.
//
// Model: test/models/level_rendezvous.pml.
#pragma once
#include <algorithm>
#include <vector>

#include "device/watched_wait.cuh"
#include "host/device_array.hpp"
#include "host/mapped_sender.cuh"
#include "host/pe/collectives.hpp"

namespace gravel::detail {

/// What a block reports to all others. Both numbers have 28 bits.
struct level_report {
  static constexpr uint32_t most = (1u << 28) - 1;
  uint32_t found;  ///< up to 2^26
  uint32_t work;   ///< up to `most`, which stands for more than can be counted
};
/// The sums of all blocks' reports.
struct level_totals {
  uint64_t found, work;
};

/// The memory of the rendezvous, as kernels see it. Plain data.
struct level_rendezvous {
  uint64_t* words;   ///< symmetric [2][PE][block]: a report, and above it the 8 lowest bits of the rendezvous' number
  uint32_t* number;  ///< of the last rendezvous; for the next kernel
  uint32_t blocks;   ///< of the grid, the same at all PEs
};

/// A block's part in the rendezvous. Make it in shared memory. Thread scope of all calls: block, converged.
struct level_block {
  mapped_sender others;
  level_totals totals[2];  ///< of rendezvous k in k % 2; the other one is 0 when it begins
  uint32_t number;         ///< of the last rendezvous

  GRAVEL_DEVICE void begin(const gravel_t& g, const level_rendezvous& m) {
    if (threadIdx.x == 0) {
      number = *m.number;
      totals[0] = totals[1] = {0, 0};
    }
    others.begin(g);
  }
  /// Reports to all blocks, waits for their reports, and returns the sums. `found_of`: [PEs * blocks] in shared memory,
  /// gets what each block has found. `wrote`: false if the block has written nothing that others read.
  GRAVEL_DEVICE level_totals rendezvous(const gravel_t& g, const level_rendezvous& m, level_report mine,
                                        uint32_t* found_of, bool wrote = true) {
    __syncthreads();
    const uint32_t k = number + 1, all = g.n_pes * m.blocks;
    uint64_t* const table = m.words + uint64_t{k % 2} * all;
    if (threadIdx.x < 32) {
      if (threadIdx.x < g.n_pes && wrote) {
        if (g.n_pes > 1) thread_fence();
        else thread_fence<scope::device>();
      }
      for (uint32_t pe = threadIdx.x; pe < g.n_pes; pe += 32)
        store_behind_fence(others.at(&table[g.my_pe * m.blocks + blockIdx.x], static_cast<int>(pe)),
                           uint64_t{k} << 56 | uint64_t{mine.found} << 28 | mine.work);  // [W8]
    }
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t of_warp = threadIdx.x - lane; of_warp < all; of_warp += blockDim.x) {
      level_report theirs{0, 0};
      if (of_warp + lane < all) {
        theirs = wait_for(g, &table[of_warp + lane], k);
        found_of[of_warp + lane] = theirs.found;
      }
      constexpr uint32_t low = 14;  // a sum of 32 reports has more than 32 bits
      const uint32_t found = __reduce_add_sync(~0u, theirs.found),
                     work_low = __reduce_add_sync(~0u, theirs.work & ((1u << low) - 1)),
                     work_high = __reduce_add_sync(~0u, theirs.work >> low);
      if (lane == 0) {
        atomicAdd_block(&totals[k % 2].found, uint64_t{found});
        atomicAdd_block(&totals[k % 2].work, (uint64_t{work_high} << low) + work_low);
      }
    }
    if (threadIdx.x == 0) totals[(k + 1) % 2] = {0, 0};  // all have read it: they have passed the barrier above
    __syncthreads();
    if (threadIdx.x == 0) number = k;  // read again behind the next barrier
    return totals[k % 2];
  }
  /// The last call of the kernel.
  GRAVEL_DEVICE void end(const level_rendezvous& m) const {
    if (blockIdx.x == 0 && threadIdx.x == 0) *m.number = number;
  }

 private:
  /// Thread scope: lane.
  GRAVEL_DEVICE static level_report wait_for(const gravel_t& g, const uint64_t* word, uint32_t k) {
    constexpr int polls = GRAVEL_ON_GPU ? 64 : 1;  // of a round without a pause: a level may be short
    uint64_t seen = 0;
    for (watched_wait wait;;) {
      bool came = false;
      for (int i = 0; i < polls && !came; ++i) came = load_relaxed(word) >> 56 == (k & 0xff);
      if (came) break;
      wait.attentively(g, [] { return wait_subject{.what = awaited::grid}; });
    }
    if (g.n_pes > 1) seen = load_acquire(word);  // [W8]
    else seen = load_acquire<scope::device>(word);
    return {static_cast<uint32_t>(seen >> 28) & level_report::most, static_cast<uint32_t>(seen) & level_report::most};
  }
};

/// The host's side. The constructor and release() are collective.
class level_rendezvous_memory {
 public:
  level_rendezvous_memory() = default;
  /// `blocks`: the most of each grid; all PEs take the least of their numbers.
  explicit level_rendezvous_memory(uint32_t blocks) : number_(std::vector<uint32_t>(1)) {
    view_.blocks = static_cast<uint32_t>(gravel_min_all(uint64_t{blocks}));
    const uint64_t bytes = uint64_t{2} * static_cast<uint64_t>(gravel_n_pes()) * view_.blocks * sizeof(uint64_t);
    view_.words = gravel_malloc<uint64_t>(bytes);
    view_.number = number_.data();
  }
  void release() {
    if (view_.words) gravel_free(view_.words);
    view_ = {};
  }
  const level_rendezvous& view() const { return view_; }

 private:
  device_array<uint32_t> number_;
  level_rendezvous view_{};
};

}  // namespace gravel::detail
