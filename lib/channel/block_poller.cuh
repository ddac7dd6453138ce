// Block poller: one warp of a block polls the channels of a task graph, for the other warps of the block too.
//
// Problem. Polling is not free: it loads the words of all channels, and it uses the multiprocessor's issue slots, which
// the working warps of the block need.
// Solution. A combining lock with hand-off, in shared memory. The warp that holds the lock is the poller. A warp that
// finds the lock taken counts itself as waiting. A poller that finds tasks claims some for the waiting warps too. It
// leaves these tickets, the hand-offs, when it releases the lock. The lock is free again when all hand-offs are taken.
//
// Protocol
//   a warp that wants a batch: try_acquire()                the poller
//   free -> polling                      [K10] acquire      reads how many warps wait
//   or, if there are hand-offs,                             claims tickets for itself and for some of these warps
//   handoffs -= 1, readers += 1          [K10] acquire      writes which tickets it leaves for them
//     reads which ticket is its own; waiting -= 1           release(): polling -> handoffs        [K11] release
//     readers -= 1                       [K11] release
//   or neither: waiting += 1, once, and it calls again
//
// Invariants
// - All hand-offs are taken. A warp stays counted in `waiting` until it becomes the poller or takes a hand-off, and it
//   can do neither while another warp polls. A warp that has taken a hand-off is a reader until it is no longer
//   counted, and there is no poller while there are readers. So all warps that a poller has counted come for its
//   hand-offs, if there are at most as many hand-offs as waiting warps.
// - The words that describe the hand-offs are not written while a warp reads them, since there is no poller then.
//
// Hint. The poller also writes where it has seen many tasks (`hint`). Other warps may claim tasks of that channel
// without the lock. The hint may be out of date and may change at any time. So a warp reads it once, and what it claims
// belongs to the channel that it has read.
//
// The model is test/models/block_poller.pml; test/unit/block_poller_test.cpp runs it under seeded schedules.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The lock. Initially all words are zero. Thread scope of all calls: one lane of each warp.
struct block_poller {
  uint32_t state;            ///< one of the values below, or handoffs * one_handoff + readers * one_reader
  uint32_t waiting;          ///< warps that wait for a turn; it only grows while a warp polls
  uint32_t handoff_channel;  ///< the channel of the hand-offs
  uint32_t hint;  ///< 1 + a channel that held many more tasks than were taken, or 0; any warp may write it at any time
  uint64_t handoff_first;  ///< the first ticket of the hand-offs

  // Values of `state`. Bits 0 and 1: polling, ended. Bits 2 to 15: hand-offs that are left. Bits 16 to 31: readers, the
  // warps that are reading which hand-off is their own. A warp can acquire the lock only if all bits are 0.
  static constexpr uint32_t free = 0, polling = 1, ended = 2, one_handoff = 1 << 2, one_reader = 1 << 16,
                            handoff_mask = one_reader - one_handoff;
  /// Number of hand-offs that are left in a value of `state`.
  GRAVEL_BOTH static constexpr uint32_t handoffs_in(uint32_t word) { return (word & handoff_mask) / one_handoff; }

  enum class turn : uint32_t {
    none,         ///< another warp polls: count_as_waiting() once, and try again
    polls,        ///< the caller is the poller now, and must call release() or end()
    has_handoff,  ///< the caller has got the ticket of the answer
    ended         ///< no tasks are left
  };
  struct answer {
    turn kind;
    uint32_t channel;  ///< has_handoff: of the ticket
    uint64_t ticket;
  };

  /// Tries to become the poller or to take a hand-off. `counted`: the caller has called count_as_waiting(); unless the
  /// answer is `none`, it is no longer counted afterwards.
  GRAVEL_BOTH answer try_acquire(bool counted) {
    const uint32_t now = load_relaxed<scope::shared>(&state), handoffs = handoffs_in(now);
    if (now == free && compare_swap_acquire<scope::shared>(&state, now, +polling)) {  // [K10]
      if (counted) fetch_add<scope::shared>(&waiting, ~0u);
      return {turn::polls, 0, 0};
    }
    if (handoffs != 0 && compare_swap_acquire<scope::shared>(&state, now, now - one_handoff + one_reader)) {  // [K10]
      const answer mine{turn::has_handoff, load_relaxed<scope::shared>(&handoff_channel),
                        load_relaxed<scope::shared>(&handoff_first) + handoffs - 1};
      if (counted) fetch_add<scope::shared>(&waiting, ~0u);
      fetch_add_release<scope::shared>(&state, 0u - one_reader);  // [K11]
      return mine;
    }
    return {now == ended ? turn::ended : turn::none, 0, 0};
  }
  /// Counts the caller as waiting, until try_acquire() answers something other than `none`.
  GRAVEL_BOTH void count_as_waiting() { fetch_add<scope::shared>(&waiting, 1u); }

  // ---- the poller only

  /// Number of warps that wait: the poller may leave this many hand-offs.
  GRAVEL_BOTH uint32_t waiting_warps() const { return load_relaxed<scope::shared>(&waiting); }
  /// Releases the lock. Leaves `handoffs` tickets of a channel, from `first` on, to the warps that wait.
  GRAVEL_BOTH void release(uint32_t handoffs = 0, uint32_t channel = 0, uint64_t first = 0) {
    if (handoffs != 0) {
      store_relaxed<scope::shared>(&handoff_channel, channel);
      store_relaxed<scope::shared>(&handoff_first, first);
    }
    store_release<scope::shared>(&state, handoffs * one_handoff);  // [K11]
  }
  /// Releases the lock and reports to all warps of the block that no tasks are left.
  GRAVEL_BOTH void end() { store_release<scope::shared>(&state, +ended); }
};

}  // namespace gravel::detail
