// A ring: slots of one size through which one side (the source) hands work to the other (the destination), by tickets
// and without a lock. All rings of Gravel follow this one protocol. They differ in their scope (which processors take
// part) and in where their words lie.
//
//   source                                                destination
//   ticket = a number that nobody else has                ticket = a number that nobody else has
//   wait until its slot is free          [P2] acquire     wait until that ticket is published          [P1] acquire
//   write the slot                                        read the slot, apply what is there
//   published = ticket + 1, in the slot  [P1] release     the slot is done                             [P2] release
//
//   ring                       slots lie in          tickets of the source        done                       scope
//   queue.hpp                  pinned host memory    counted in its own memory    a count for each plane     system
//   landing.hpp                pinned host memory    the packets of one thread    a word for each slot       system
//   peer_ring.hpp              destination's memory  counted in source's memory   a word for each slot,      system
//                                                                                 in the source's memory
//   service_rings.hpp, near    memory of one GPU     counted there                a count                    device
//   device/release_ring.cuh    shared memory         counted there                a count                    block
//
// In the near ring of service_rings.hpp, `published` holds the number of messages as well as the ticket.
//
// If several parties take from one ring, they share its tickets in one of three ways: plane i of n takes every n-th
// ticket (queue), each lane draws the next ticket from a counter (ring_place), or a block claims tickets in the order
// of their packets (device/resolver_landing.cuh).
//
// Invariants. Tickets are 64-bit and only grow, so a full ring is never mistaken for an empty one. Every word has one
// writer at a time, the holder of the ticket. A slot is written only by the holder of ticket t, after ticket t - slots
// was done. After a claim the only legal steps are wait and publish. If a destination sends messages because of what a
// slot holds, these messages have their tickets before that slot is done, so nothing in flight is ever uncounted.
//
// The model is test/models/ring.pml. test/unit/ring_test.cpp and release_ring_test.cpp run all instances under seeded
// schedules. test/jobs/litmus.cu checks whether a machine keeps the memory orders that the protocol needs.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The loads and stores of the protocol. `S`: the scope that contains both sides.
template <scope S = scope::system>
struct ring {
  /// Source: publishes what the holder of `ticket` and its group wrote. The group must have synchronized before.
  GRAVEL_BOTH static void publish(uint64_t* published, uint64_t ticket) {
    store_release<S>(published, ticket + 1);
  }  // [P1]
  /// Destination: true if `ticket` is published. Then the caller may read what the source wrote.
  GRAVEL_BOTH static bool arrived(const uint64_t* published, uint64_t ticket) {
    return load_acquire<S>(published) == ticket + 1;  // [P1]
  }
  /// Destination: frees the slot; the source may overwrite it from now on. `word`: the word of this slot, or a count.
  GRAVEL_BOTH static void mark_done(uint64_t* word, uint64_t done) { store_release<S>(word, done); }  // [P2]
  /// Source: reads what mark_done() wrote. It orders only what depends on the value. That is enough: a source that
  /// waits for a slot reads nothing there, and stores there only after it has seen the value. An acquire of system
  /// scope would wait for all stores that are under way over PCIe or NVLink.
  GRAVEL_BOTH static uint64_t read_done(const uint64_t* word) { return load_acquire_later<S>(word); }  // [P2]
};

/// True if the holder of `ticket` may write, given that all tickets below `done_below` are done. Also correct where the
/// numbers wrap.
GRAVEL_BOTH bool slot_is_free(uint64_t ticket, uint64_t done_below, uint32_t slots) {
  return static_cast<int64_t>(ticket - done_below) < static_cast<int64_t>(slots);
}

/// A group of one thread, for a thread that polls a ring alone. For several lanes see lane_group
/// (device/lane_group.cuh).
struct single_poller {
  GRAVEL_BOTH uint32_t size() const { return 1; }
  GRAVEL_BOTH uint32_t rank() const { return 0; }
  GRAVEL_BOTH uint32_t rank_of(uint32_t) const { return 0; }
  GRAVEL_BOTH uint32_t ballot(bool vote) const { return vote; }
  GRAVEL_BOTH static uint32_t lowest(uint32_t) { return 0; }
};

/// The `done` words of a ring that has one for each slot. A word holds ticket + 1 of what was applied there last.
/// `slots` is a power of two.
template <scope S = scope::system>
struct done_words {
  uint64_t* word;  ///< [slots]
  uint32_t slots;

  GRAVEL_BOTH uint64_t* of(uint64_t ticket) const { return &word[ticket & (slots - 1)]; }
  GRAVEL_BOTH void mark(uint64_t ticket) const { ring<S>::mark_done(of(ticket), ticket + 1); }
  /// Like mark(), for a caller that has called thread_fence() after all that the source must see.
  GRAVEL_BOTH void mark_behind_fence(uint64_t ticket) const { store_behind_fence<S>(of(ticket), ticket + 1); }  // [P2]
  /// Source: true if the holder of `ticket` may write.
  GRAVEL_BOTH bool is_free(uint64_t ticket) const {
    return ticket < slots || ring<S>::read_done(of(ticket)) == ticket - slots + 1;
  }

  /// The number of tickets done so far, computed from the words (or from a copy of them).
  uint64_t count() const {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < slots; ++s)
      if (word[s]) sum += (word[s] - 1 - s) / slots + 1;
    return sum;
  }
  /// The lowest ticket from `from` to `target` that is not done; `target` if all are done. Called by the source. Thread
  /// scope: the group, whose lanes poll together.
  template <class Group = single_poller>
  GRAVEL_BOTH uint64_t first_missing(uint64_t from, uint64_t target, const Group& group = {}) const {
    uint64_t t = target > slots && target - slots > from ? target - slots : from;
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (bool all = true; all && t < target;) {
      // Each lane reads several words at once; one acquire follows after the last.
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

/// Destination: the tickets that a lane has drawn from a ring. `ticket` is the one for which it waits now. Once that
/// has arrived, `next` is the one for which it will wait then. Each ticket is drawn once, by one lane, so each slot is
/// applied once. `drawn`: the ring's counter of drawn tickets.
struct ring_place {
  static constexpr uint64_t none = ~0ull;
  uint64_t ticket = none, next = none;

  GRAVEL_BOTH void begin(uint64_t* drawn) {
    if (ticket == none) ticket = fetch_add<scope::device>(drawn, uint64_t{1});
  }
  GRAVEL_BOTH void draw_next(uint64_t* drawn) {
    if (next == none) next = fetch_add<scope::device>(drawn, uint64_t{1});
  }
  /// To be called when `ticket` has been applied and draw_next() has been called.
  GRAVEL_BOTH void advance() {
    ticket = next;
    next = none;
  }
};

}  // namespace gravel::detail
