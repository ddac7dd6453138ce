// The get window: counts the gets of one set of producers (kernels, or host threads) that are under way.
//
// Problem. The number of gets under way is limited, and a lane must be able to wait for all gets that were issued
// before.
//
//   lane that gets                                          receiver of the reply
//   end = tickets += n                                      writes the value where it belongs
//   waits until end <= done[0] + done[1] + limit   [G1]     done[parity] += 1              [G1] release
//   parity = epoch & 1; issued[parity] += n
//   sends, with `parity` in the message, which the reply returns
//
// Limit. Lanes send in the order of their tickets, so never more than `limit` gets are sent and not done. A ticket
// waits only for gets of lower tickets, which were sent or may be sent, so some lane can always advance.
//
// Wait. Counts cannot distinguish gets, and while others get all the time, done == issued may never be seen. So gets
// are counted in two classes, by the parity of the epoch. New gets join the class of the epoch. The other class drains,
// except for the few lanes that read the epoch before it changed. A lane that waits and sees that the other class is
// empty raises the epoch. If a get was counted at some moment in epoch e, then epoch e + 3 proves that it is done. If
// the get has the parity of e, its class was seen empty in epoch e + 1. If it has the other parity (its lane was late),
// its class was seen empty in epoch e + 2. "Seen empty" in epoch e itself proves nothing for it, since that may have
// been before the get was counted.
//
// Invariants. All words only grow. done[p] <= issued[p]. A lane raises the epoch from k only if it saw class k + 1
// empty in epoch k. It reads `done` before `issued`; otherwise a get issued in between could hide one that is missing.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

struct get_window {
  alignas(64) uint64_t tickets;  ///< gets that were begun
  uint64_t issued[2];            ///< by parity: gets that may be sent
  uint64_t epoch;
  alignas(64) uint64_t done[2];  ///< by parity: gets that are done (for host threads: as far as they know)

  /// The ticket below which the next `n` gets lie. The caller must call count() when may_send() is true.
  GRAVEL_BOTH uint64_t claim(uint64_t n) { return fetch_add<scope::device>(&tickets, n) + n; }
  GRAVEL_BOTH bool may_send(uint64_t end, uint64_t limit) const {
    return end <= load_acquire<scope::device>(&done[0]) + load_acquire<scope::device>(&done[1]) + limit;  // [G1]
  }
  /// Returns how many gets are done, of all that there were.
  GRAVEL_BOTH uint64_t n_done() const {
    return load_relaxed<scope::device>(&done[0]) + load_relaxed<scope::device>(&done[1]);
  }
  /// Counts `n` gets that are about to be sent.
  /// @return their parity
  GRAVEL_BOTH uint32_t count(uint64_t n) {
    const auto parity = static_cast<uint32_t>(load_relaxed<scope::device>(&epoch) & 1);
    fetch_add<scope::device>(&issued[parity], n);
    return parity;
  }

  GRAVEL_BOTH bool all_done() const {
    if (load_relaxed<scope::device>(&tickets) == 0) return true;  // true in most programs
    const uint64_t even = load_acquire<scope::device>(&done[0]), odd = load_acquire<scope::device>(&done[1]);  // [G1]
    return even >= load_acquire<scope::device>(&issued[0]) && odd >= load_acquire<scope::device>(&issued[1]);
  }
  /// The epoch that proves that all gets counted so far are done.
  GRAVEL_BOTH uint64_t epoch_after() const {
    full_fence();  // a lane that sees a later epoch sees what was counted before; pairs with reached()
    return load_acquire<scope::device>(&epoch) + 3;
  }
  /// True if the epoch is at least `wanted`. Raises it as far as possible.
  GRAVEL_BOTH bool reached(uint64_t wanted) {
    for (;;) {
      const uint64_t now = load_acquire<scope::device>(&epoch);
      if (now >= wanted) return true;
      full_fence();
      const uint32_t other = (now + 1) & 1;
      const uint64_t answered = load_acquire<scope::device>(&done[other]);  // [G1]
      if (answered < load_acquire<scope::device>(&issued[other])) return false;
      raise_to(&epoch, now + 1);
    }
  }
};
static_assert(sizeof(get_window) == 128);

/// Waits until all gets that were counted before are done. Calls `update` before each poll. Thread scope: lane.
template <class Update>
GRAVEL_BOTH void wait_for_gets(get_window& gets, Update update) {
  update();
  if (gets.all_done()) return;
  const uint64_t wanted = gets.epoch_after();
  for (relax wait; !gets.reached(wanted); wait()) update();
}

}  // namespace gravel::detail
