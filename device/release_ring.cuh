// Release ring: returns the chunks that warps of the resolver have applied to the sources that filled them.
//
// Problem. All operations of a chunk must have been performed before the chunk is done. This takes a fence of system
// scope, which waits until all updates that are under way have arrived.
// Solution. One warp of each block runs the fence for all other warps, which apply their next chunks meanwhile. One
// fence covers all chunks that have been applied by then.
//
// Protocol. This is a ring (lib/base/ring.hpp) in the block's shared memory.
//
//   warps that apply                                    the warp that releases
//   ticket = tickets++; wait until its slot is free     the longest sequence of tickets that arrived  [P1] acquire
//     [P2] acquire                                      a fence of system scope
//   write the chunk's done word, and its value          write into each done word                     [P2] of its ring
//   published = ticket + 1   [P1] release               done = tickets so far                         [P2] release
//
// Why one warp can fence for another: the releasing warp has acquired what the applying warp has released, and a fence
// covers all that was seen before it (test/jobs/litmus.cu checks this).
#pragma once
#include "device/simt.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

class alignas(16) release_ring {
 public:
  /// Makes the ring empty. Thread scope: one lane; the block synchronizes behind it.
  GRAVEL_DEVICE void begin() {
    tickets_ = done_ = 0;
    left_ = 0;
    for (slot& s : slot_) s.published = 0;
  }

  /// Posts a chunk that has been applied: the chunk of `of` with this ticket. It is done some time later. The warp has
  /// synchronized before the call. Thread scope: lane, divergent.
  GRAVEL_DEVICE void post(const peer_ring& of, uint64_t ticket, bool is_own) {
    const uint64_t mine = fetch_add<scope::shared>(&tickets_, uint64_t{1});
    for (relax wait; !slot_is_free(mine, load_acquire<scope::shared>(&done_), slots); wait()) {  // [P2]
    }
    slot& s = slot_[mine % slots];
    s.of = of.words();
    s.ticket = ticket;
    s.is_own = is_own;
    ring<scope::shared>::publish(&s.published, mine);  // [P1]
  }
  /// Each warp that posts calls this once, after its last post(). Thread scope: one lane.
  GRAVEL_DEVICE void leave() { fetch_add_release<scope::shared>(&left_, 1u); }

  /// Releases chunks until `warps` warps have left. `applied`: counts the chunks of the own ring; nullptr if there is
  /// none. Thread scope: a warp, converged.
  GRAVEL_DEVICE void serve(uint32_t warps, uint64_t* applied) {
    const uint32_t lane = threadIdx.x % 32;
    uint64_t next = 0;
    for (relax wait;;) {
      const bool no_more = load_acquire<scope::shared>(&left_) == warps;
      const slot& s = slot_[(next + lane) % slots];
      const uint32_t missing = __ballot_sync(~0u, !ring<scope::shared>::arrived(&s.published, next + lane));  // [P1]
      const uint32_t n = missing ? static_cast<uint32_t>(__ffs(static_cast<int>(missing))) - 1 : 32;
      if (n == 0) {
        if (__all_sync(~0u, no_more)) return;
        wait();
        continue;
      }
      wait.reset();
      const bool is_mine = lane < n;
      const slot copy = s;
      thread_fence();
      if (is_mine) copy.of.mark_behind_fence(copy.ticket);
      const uint32_t own = __ballot_sync(~0u, is_mine && copy.is_own);
      next += n;
      if (lane != 0) continue;
      if (own) fetch_add_release<scope::device>(applied, static_cast<uint64_t>(__popc(own)));
      store_release<scope::shared>(&done_, next);  // [P2]
    }
  }

 private:
  static constexpr uint32_t slots = 64;  ///< more than 32, so that some slots are filled while others are released
  struct slot {
    uint64_t published;
    done_words<> of;
    uint64_t ticket;
    bool is_own;
  };
  uint64_t tickets_, done_;
  uint32_t left_;
  slot slot_[slots];
};

}  // namespace gravel::detail
