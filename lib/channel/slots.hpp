// Who may use which slot of a bounded buffer of elements: all-or-nothing room, tickets, and slots that come back in the
// order of their tickets, whoever is done first. What a channel (lib/channel/channel.cuh) and the frames of a task
// graph have in common.
//
//   user                                                    whoever finds too little room
//   if there are n: room -= n            [K1] acquire       reads how many of a chunk are done         [K3] acquire
//   were there fewer: room += n          [K1]               (nothing is taken before all n are)
//   ticket = tail, tail += n             [K2] acq_rel       freed = all before the chunk, and so many
//   uses the slots                                          room += what that gained                   [K1] release
//   done count of each 32 += n           [K3] release
//
// Room and tickets are two steps, so that room can be promised long before it is used, and be given back unused. Nobody
// ever waits: who finds no room is told so.
//
// What is given back of room needs no release. `room` is only added to, so who acquires a later value acquires from all
// who released into it before (a release sequence), and who gives back has used none of these slots: there is nothing
// of its own to be seen.
//
// Room is taken without compare and swap, of which among many that try only one succeeds in the time of a round trip.
//
// Invariants: capacity = room + promised + (tail - freed), where promised is room that was taken and neither drawn nor
// given back. Tickets are 64-bit and only grow. Sequence words, one for 32 tickets (a chunk), count and only grow, so
// that a slot's next use is never mistaken for the last one (no ABA); they may wrap, as no chunk is two rounds ahead of
// who asks. There are 31 slots more than the capacity: so no ticket is drawn in a chunk before all of that chunk's last
// round are done, and a count is one of a single round. Those who are done are seen by those who draw: their ends were
// added to the room by [K1], of those that took room for the tickets up to this one the last has acquired all of these,
// and [K2] hands that on to whoever draws later tickets.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Tickets that one sequence word counts.
constexpr uint32_t chunk_tickets = 32;

/// Words that many write, each on a line of its own. All zeros but `room` to begin with.
struct slots_words {
  alignas(128) uint64_t tail;   ///< tickets drawn so far
  alignas(128) uint32_t room;   ///< elements that may still be promised
  alignas(128) uint64_t freed;  ///< tickets whose room has come back: of the chunk in which it lies so many are done,
                                ///< of those before it all
};

/// So many chunks in a row are counted whole, and of the one behind them, if it was looked at, so many tickets (more
/// than 32: whoever asks is late).
struct counted_chunks {
  uint32_t full, behind;
};

/// A sequence word counts what has been done, ever, with the tickets of its 32 slots. How many of those in the round of
/// a ticket?
template <class Word>
struct sequence {
  Word* word;       ///< [chunks]
  uint32_t chunks;  ///< power of two

  GRAVEL_BOTH Word* of(uint64_t ticket) const { return &word[ticket / chunk_tickets & (chunks - 1)]; }
  /// Done in all rounds before. By a shift: nvcc's division of 64 bits would be a call.
  GRAVEL_BOTH Word before(uint64_t ticket) const {
    return static_cast<Word>((ticket / chunk_tickets >> lane_group::lowest(chunks)) * chunk_tickets);
  }
  /// 0 to 32; more: the chunk is in a later round, and whoever asks is late.
  GRAVEL_BOTH uint32_t count(uint64_t ticket) const {
    return static_cast<Word>(load_acquire<scope::device>(of(ticket)) - before(ticket));
  }
  GRAVEL_BOTH void add(uint64_t ticket, uint32_t n) const {
    fetch_add_release<scope::device>(of(ticket), static_cast<Word>(n));
  }

  /// Looks at the chunk of a ticket and those behind it: a warp at 32 at once, another group at this one alone. The
  /// leader has acquired what the others have seen. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH counted_chunks look(const Group& group, uint64_t ticket) const {
    const uint32_t polled = !group.is_whole_warp() ? 1 : chunks < 32 ? chunks : 32;
    const uint64_t first = ticket / chunk_tickets * chunk_tickets;
    uint32_t n = 0;
    if (group.rank() < polled) n = count(first + uint64_t{group.rank()} * chunk_tickets);
    const uint32_t whole = group.ballot(n == chunk_tickets);
    group.sync();
    if (polled == 1) return whole ? counted_chunks{1, 0} : counted_chunks{0, group.from_leader(n)};
    const uint32_t full = lane_group::popcount(whole & ~(whole + 1));  // before a gap
    return {full, full < polled ? group.from_lane(n, full) : 0};
  }
};

/// Plain data; the memory is the owner's. Thread scope: lane, where nothing else is said.
template <class Word = uint32_t>
struct slots {
  slots_words* state;
  sequence<Word> done;
  uint32_t capacity;  ///< elements, at most rows() - 31

  /// The least power of two: capacities of 2^k - 31 waste nothing.
  GRAVEL_BOTH static constexpr uint32_t chunks_for(uint32_t capacity) {
    uint32_t below = (capacity + 2 * chunk_tickets - 2) / chunk_tickets - 1;  // whose bits under the highest are set
    for (uint32_t shift = 1; shift < 32; shift *= 2) below |= below >> shift;
    return below + 1;
  }
  GRAVEL_BOTH uint32_t rows() const { return done.chunks * chunk_tickets; }
  GRAVEL_BOTH uint32_t row(uint64_t ticket) const { return static_cast<uint32_t>(ticket) & (rows() - 1); }

  /// Promises room for n elements, all or nothing.
  GRAVEL_BOTH bool take_room(uint32_t n) const {
    while (has_room(n))
      if (take_room_now(n)) return true;
    return false;
  }
  /// The same for a group: what a warp finds to be done in 32 chunks comes back at once. Thread scope: the group,
  /// converged.
  template <class Group>
  GRAVEL_BOTH bool take_room(const Group& group, uint32_t n) const {
    enum : uint32_t { taken, others_were_faster, too_little };
    for (;;) {
      uint32_t found = taken;
      if (group.is_leader() && n != 0) {
        if (!is_enough(load_relaxed<scope::device>(&state->room), n)) found = too_little;
        else if (!take_room_now(n)) found = others_were_faster;
      }
      found = group.from_leader(found);
      if (found == taken) return true;
      if (found == too_little && !refresh(group)) return false;
    }
  }
  /// A moment later it may be otherwise.
  GRAVEL_BOTH bool has_room(uint32_t n) const {
    return n == 0 || is_enough(load_relaxed<scope::device>(&state->room), n) ||
           (refresh() && is_enough(load_relaxed<scope::device>(&state->room), n));
  }
  /// After has_room(n). False: others were faster.
  GRAVEL_BOTH bool take_room_now(uint32_t n) const {
    if (n == 0 || is_enough(fetch_add_acquire<scope::device>(&state->room, 0u - n), n)) return true;  // [K1]
    return_room(n);
    return false;
  }
  /// Unused room goes back.
  GRAVEL_BOTH void return_room(uint32_t n) const {
    if (n) fetch_add<scope::device>(&state->room, n);  // [K1]
  }
  /// The first of n tickets, for which room has been taken.
  GRAVEL_BOTH uint64_t draw(uint32_t n) const {
    return fetch_add_acq_rel<scope::device>(&state->tail, uint64_t{n});
  }  // [K2]
  /// The slots of these tickets, which lie in one chunk, are not used any more.
  GRAVEL_BOTH void free(uint64_t ticket, uint32_t n) const { done.add(ticket, n); }  // [K3]

  /// Room is below 0 while one who was too late has not yet given back what he took.
  GRAVEL_BOTH static bool is_enough(uint32_t room, uint32_t n) {
    return static_cast<int32_t>(room) >= static_cast<int32_t>(n);
  }

  /// Collects room from tickets that are done. True if there is more now, or somebody else is about to say so.
  GRAVEL_BOTH bool refresh() const {
    bool more = false;
    for (uint64_t freed = load_relaxed<scope::device>(&state->freed);;) {
      const uint32_t n = done.count(freed);  // [K3]
      if (!collect(freed, {0, n})) return more;
      freed = load_relaxed<scope::device>(&state->freed);
      more = true;
    }
  }
  /// The same, of as many chunks as the group looks at. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH bool refresh(const Group& group) const {
    const uint64_t freed = group.from_leader(load_relaxed<scope::device>(&state->freed));
    const counted_chunks seen = done.look(group, freed);  // [K3]
    return group.from_leader(static_cast<uint32_t>(group.is_leader() && collect(freed, seen))) != 0;
  }

 private:
  /// False: nothing more is done than was known.
  GRAVEL_BOTH bool collect(uint64_t freed, const counted_chunks& seen) const {
    const uint64_t whole = freed / chunk_tickets * chunk_tickets + uint64_t{seen.full} * chunk_tickets;
    const uint64_t to = whole + (seen.behind < chunk_tickets ? seen.behind : chunk_tickets);
    if (to <= freed) return false;
    if (compare_swap_acquire<scope::device>(&state->freed, freed, to))
      fetch_add_release<scope::device>(&state->room, static_cast<uint32_t>(to - freed));  // [K1]
    return true;
  }
};

}  // namespace gravel::detail
