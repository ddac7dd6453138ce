// The gets of one set of producers (kernels, or host threads) that are under way: how many there may be, and the wait
// for all that were issued before.
//
//   lane that gets                                          receiver of the answer
//   end = tickets += n                                      writes the value where it belongs
//   waits until end <= done[0] + done[1] + limit   [G1]     done[parity] += 1              [G1] release
//   parity = epoch & 1; issued[parity] += n
//   sends, with `parity` in the message, which the answer brings back
//
// Limit: tickets are served in their order, so gets that were sent and are not done are never more than `limit`; and
// what a ticket waits for are gets of lower tickets, which were sent or may be sent: somebody can always go on.
//
// Wait: counts cannot tell gets apart, and while others get on and on, done == issued may never be seen. So gets are
// counted in two classes, by the parity of the epoch. New ones join the class of the epoch; the other class runs dry,
// but for the few lanes that read the epoch before it changed. Who waits and sees the other class dry raises the epoch.
// From a moment in epoch e on at which a get was counted, epoch e + 3 is proof that it is done: if it is of parity e,
// that class was seen dry in epoch e + 1; if of the other parity (its lane was late), that class was seen dry in epoch
// e + 2. "Seen dry" in epoch e itself would prove nothing for it: that may have been before it was counted.
//
// Invariants: all words only grow; done[p] <= issued[p]; the epoch is raised from k only by who saw class k + 1 dry in
// epoch k. `done` is read before `issued`, or a get issued in between could hide one that is missing.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

struct get_window {
  alignas(64) uint64_t tickets;  ///< gets that were begun
  uint64_t issued[2];            ///< by parity: may be sent
  uint64_t epoch;
  alignas(64) uint64_t done[2];  ///< by parity: answered; of host threads: as far as they know

  /// The ticket below which the next `n` gets lie. count() must follow when may_send() is true.
  GRAVEL_BOTH uint64_t claim(uint64_t n) { return fetch_add<scope::device>(&tickets, n) + n; }
  GRAVEL_BOTH bool may_send(uint64_t end, uint64_t limit) const {
    return end <= load_acquire<scope::device>(&done[0]) + load_acquire<scope::device>(&done[1]) + limit;  // [G1]
  }
  /// Of `n` gets about to be sent: their parity.
  GRAVEL_BOTH uint32_t count(uint64_t n) {
    const auto parity = static_cast<uint32_t>(load_relaxed<scope::device>(&epoch) & 1);
    fetch_add<scope::device>(&issued[parity], n);
    return parity;
  }

  GRAVEL_BOTH bool all_done() const {
    if (load_relaxed<scope::device>(&tickets) == 0) return true;  // of most programs
    const uint64_t even = load_acquire<scope::device>(&done[0]), odd = load_acquire<scope::device>(&done[1]);  // [G1]
    return even >= load_acquire<scope::device>(&issued[0]) && odd >= load_acquire<scope::device>(&issued[1]);
  }
  /// The epoch that proves that all gets counted so far are done.
  GRAVEL_BOTH uint64_t epoch_after() const {
    full_fence();  // what was counted before is seen by who sees a later epoch (pairs with the one in reached())
    return load_acquire<scope::device>(&epoch) + 3;
  }
  /// Has the epoch come that far? Raises it as far as it can.
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

/// Waits until all gets that were counted before are done. `update` is called before each look. Thread scope: lane.
template <class Update>
GRAVEL_BOTH void wait_for_gets(get_window& gets, Update update) {
  update();
  if (gets.all_done()) return;
  const uint64_t wanted = gets.epoch_after();
  for (relax wait; !gets.reached(wanted); wait()) update();
}

}  // namespace gravel::detail
