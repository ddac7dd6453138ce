// Who of a block's warps looks at the channels of a task graph, and what it has taken for those that wait meanwhile. In
// shared memory.
//
//   a warp that wants a batch: asks                             who looks
//   state: nobody -> somebody            [K10] acquire          reads how many wait
//   or, if something is left,                                   takes for itself, and for some of these
//   state: left -= 1, reading += 1       [K10] acquire          writes what is left for them
//     reads which is its own; waiting -= 1                      state: somebody -> left          [K11] release
//     state: reading -= 1                [K11] release
//   or neither: waiting += 1, once, and asks again
//
// Nothing stays behind. Who is counted in `waiting` goes only with a turn or with something that is left, which nobody
// gets while somebody looks, nor is there one who has got it and is still counted: he is reading until then, and nobody
// looks meanwhile. So of those that a poller has counted, all come for what it leaves, if that is no more than they
// are. Nor is what they read written meanwhile.
//
// Beside that, who looks tells in `hint` where it has seen many that need no look: others claim from that channel by
// themselves. It is no more than a hint, and the next moment another one: who follows it reads it once, and what it
// claims is of the channel that it has read.
//
// The model is test/models/block_poller.pml; test/unit/block_poller_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// All zeros to begin with. Thread scope of all: lane; one of each warp.
struct block_poller {
  uint32_t state;  ///< nobody, somebody, all_done; or how many are left and how many read which is theirs, while which
                   ///< nobody looks
  uint32_t waiting;  ///< warps that want to look; while somebody does, it only grows
  uint32_t channel;  ///< of what is left
  uint32_t hint;   ///< a channel + 1 in which there was much more than what was taken; 0: none that is known. Any warp
                   ///< may write it at any time
  uint64_t first;  ///< ticket of what is left
  static constexpr uint32_t nobody = 0, somebody = 1, all_done = 2, one_left = 4, one_reads = 1 << 16;

  enum class turn : uint32_t { none, polls, given, ended };
  struct answer {
    turn is;
    uint32_t channel;
    uint64_t ticket;
  };

  /// `counted`: by wait(). Whoever gets something else than `none` is not any more.
  GRAVEL_BOTH answer ask(bool counted) {
    const uint32_t now = load_relaxed<scope::shared>(&state), left = now % one_reads / one_left;
    if (now == nobody && compare_swap_acquire<scope::shared>(&state, now, +somebody)) {  // [K10]
      if (counted) fetch_add<scope::shared>(&waiting, ~0u);
      return {turn::polls, 0, 0};
    }
    if (left != 0 && compare_swap_acquire<scope::shared>(&state, now, now - one_left + one_reads)) {  // [K10]
      const answer mine{turn::given, load_relaxed<scope::shared>(&channel),
                        load_relaxed<scope::shared>(&first) + left - 1};
      if (counted) fetch_add<scope::shared>(&waiting, ~0u);
      fetch_add_release<scope::shared>(&state, 0u - one_reads);  // [K11]
      return mine;
    }
    return {now == all_done ? turn::ended : turn::none, 0, 0};
  }
  GRAVEL_BOTH void wait() { fetch_add<scope::shared>(&waiting, 1u); }

  /// For who looks: how many others there are to whom it may leave something.
  GRAVEL_BOTH uint32_t others() const { return load_relaxed<scope::shared>(&waiting); }
  /// Who looks leaves tickets from `first_` on to `left` of the others.
  GRAVEL_BOTH void leave(uint32_t left = 0, uint32_t channel_ = 0, uint64_t first_ = 0) {
    if (left != 0) store_relaxed<scope::shared>(&channel, channel_), store_relaxed<scope::shared>(&first, first_);
    store_release<scope::shared>(&state, left * one_left);  // [K11]
  }
  /// The same, when all is done: so the others need not see that for themselves.
  GRAVEL_BOTH void end() { store_release<scope::shared>(&state, +all_done); }
};

}  // namespace gravel::detail
