// A ring: slots of one size through which one side (the source) hands work to the other (the destination), by tickets and without
// a lock. All rings of Gravel follow this one protocol; they differ in who takes part (the scope) and in where their words lie.
//
//   source                                                destination
//   ticket = a number that nobody else has                ticket = a number that nobody else has
//   wait until its slot is free          [P2] acquire     wait until that ticket is published          [P1] acquire
//   write the slot                                        read the slot, apply what is there
//   published = ticket + 1, in the slot  [P1] release     the slot is done                             [P2] release
//
//   ring                         slots lie in             tickets of the source            done                       scope
//   queue.hpp                    pinned host memory       counted in its own memory        a count for each plane     system
//   landing.hpp                  pinned host memory       the packets of one thread        a word for each slot       system
//   peer_ring.hpp                destination's memory     counted in the source's memory   a word for each slot,      system
//                                                                                          in the source's memory
//   service_rings.hpp, near      memory of one GPU        counted there                    a count                    device;
//                                                                                          `published` tells more than the ticket
//   device/release_ring.cuh      shared memory            counted there                    a count                    the block
//
// Where several may take from a ring, tickets are dealt to planes like cards (queue), drawn (ring_place), or claimed in the order of
// their packets (device/resolver_landing.cuh).
//
// Invariants: tickets are 64-bit and only grow, so a full ring is never mistaken for an empty one. Every word has one writer at a
// time, the holder of the ticket. A slot is written only by the holder of ticket t, after ticket t - slots was done. After a claim
// the only legal steps are wait and publish. What is sent in turn on behalf of a slot is ticketed before that slot is done,
// so nothing in flight is ever uncounted.
//
// The model is test/models/ring.pml; test/unit/ring_test.cpp and release_ring_test.cpp run all instances under seeded schedules, test/jobs/litmus.cu asks a machine
// whether it keeps the orders that are needed here.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The protocol's loads and stores. `S`: the scope of which both sides are.
template <scope S = scope::system>
struct ring {
  /// Source: hands over what the holder of `ticket` and its group wrote; the group must have synchronized.
  GRAVEL_BOTH static void publish(uint64_t* published, uint64_t ticket) {
    store_release<S>(published, ticket + 1);
  }  // [P1]
  /// Destination: is `ticket` there? What the source wrote may be read then.
  GRAVEL_BOTH static bool arrived(const uint64_t* published, uint64_t ticket) {
    return load_acquire<S>(published) == ticket + 1;  // [P1]
  }
  /// Destination: gives the slot back to the source, which may overwrite it from now on. `word`: of this slot, or a
  /// count.
  GRAVEL_BOTH static void mark_done(uint64_t* word, uint64_t done) { store_release<S>(word, done); }  // [P2]
  /// Source: what mark_done() wrote. Orders only what depends on it: who waits for a slot stores there, which it does
  /// not before it knows, and reads nothing. An acquire of system scope would wait for all stores that are under way
  /// over PCIe or NVLink.
  GRAVEL_BOTH static uint64_t read_done(const uint64_t* word) { return load_acquire_later<S>(word); }  // [P2]
};

/// May the holder of `ticket` write, when all tickets below `done_below` are done? Also where the numbers wrap.
GRAVEL_BOTH bool slot_is_free(uint64_t ticket, uint64_t done_below, uint32_t slots) {
  return static_cast<int64_t>(ticket - done_below) < static_cast<int64_t>(slots);
}

/// Who looks at a ring alone; else a lane_group (device/lane_group.cuh) does.
struct single_poller {
  GRAVEL_BOTH uint32_t size() const { return 1; }
  GRAVEL_BOTH uint32_t rank() const { return 0; }
  GRAVEL_BOTH uint32_t rank_of(uint32_t) const { return 0; }
  GRAVEL_BOTH uint32_t ballot(bool vote) const { return vote; }
  GRAVEL_BOTH static uint32_t lowest(uint32_t) { return 0; }
};

/// `done` with a word for each slot: ticket + 1 of what was applied there last. `slots` is a power of two.
template <scope S = scope::system>
struct done_words {
  uint64_t* word;  ///< [slots]
  uint32_t slots;

  GRAVEL_BOTH uint64_t* of(uint64_t ticket) const { return &word[ticket & (slots - 1)]; }
  GRAVEL_BOTH void mark(uint64_t ticket) const { ring<S>::mark_done(of(ticket), ticket + 1); }
  /// The same by who has called thread_fence() behind all that is to be seen.
  GRAVEL_BOTH void mark_behind_fence(uint64_t ticket) const { store_behind_fence<S>(of(ticket), ticket + 1); }  // [P2]
  /// Source: may the holder of `ticket` write?
  GRAVEL_BOTH bool is_free(uint64_t ticket) const {
    return ticket < slots || ring<S>::read_done(of(ticket)) == ticket - slots + 1;
  }

  /// Tickets done so far, from the words (a copy of them will do).
  uint64_t count() const {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < slots; ++s)
      if (word[s]) sum += (word[s] - 1 - s) / slots + 1;
    return sum;
  }
  /// The lowest ticket from `from` to `target` that is not done; `target` if all are. Source; thread scope: the group,
  /// which looks together.
  template <class Group = single_poller>
  GRAVEL_BOTH uint64_t first_missing(uint64_t from, uint64_t target, const Group& group = {}) const {
    uint64_t t = target > slots && target - slots > from ? target - slots : from;
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (bool all = true; all && t < target;) {
      // Several at once for each lane; the acquire comes behind the last.
      constexpr uint32_t batch = 8;
      uint32_t there = 0;
      for (uint32_t b = 0; b < batch; ++b) {
        const uint64_t mine = t + b * group.size() + group.rank();
        there |= static_cast<uint32_t>(mine >= target || ring<S>::read_done(of(mine)) > mine) << b;
      }
      for (uint32_t b = 0; all && b < batch; ++b) {
        const uint32_t missing = group.ballot(!(there >> b & 1));
        t += missing ? group.rank_of(Group::lowest(missing)) : group.size();
        all = !missing;
      }
    }
    acquire_now<S>();
    return t < target ? t : target;
  }
};

/// Destination: the tickets of a ring that a lane has drawn: the one that it waits for, and, once that has arrived, the
/// one that it will wait for next. Each ticket is drawn once, by some lane, so each slot is applied once. `drawn`: of
/// the ring.
struct ring_place {
  static constexpr uint64_t none = ~0ull;
  uint64_t ticket = none, next = none;

  GRAVEL_BOTH void begin(uint64_t* drawn) {
    if (ticket == none) ticket = fetch_add<scope::device>(drawn, uint64_t{1});
  }
  GRAVEL_BOTH void draw_next(uint64_t* drawn) {
    if (next == none) next = fetch_add<scope::device>(drawn, uint64_t{1});
  }
  /// When `ticket` has been applied; draw_next() has been called.
  GRAVEL_BOTH void advance() {
    ticket = next;
    next = none;
  }
};

}  // namespace gravel::detail
