// Slots: which caller may use which slot of a bounded buffer. Channels (channel.cuh) and the frames of task graphs
// (lib/taskgraph/frames.cuh) use it.
//
// Problem. Many lanes use slots of a buffer and free them in any order. A caller needs room for all of its elements or
// for none, and no caller may wait.
// Solution. Taking room and drawing tickets are two steps. Room can be promised long before it is used, and it can be
// returned unused. Slots are freed in any order; their room comes back in the order of the tickets. A caller that finds
// too little room collects the room of freed slots itself.
//
//   user                                                    a caller that finds too little room
//   if there are n: room -= n            [K1] acquire       reads how many of a chunk are done         [K3] acquire
//   were there fewer: room += n          [K1]               (nothing is taken before all n are)
//   ticket = tail, tail += n             [K2] acq_rel       freed = all before the chunk, and those of the chunk
//   uses the slots                                          room += what that gained                   [K1] release
//   done count of each 32 += n           [K3] release
//
// Room is taken by an addition, not by compare and swap: of many concurrent compare and swaps only one succeeds in each
// round trip to memory.
//
// Invariants
// - capacity = room + promised + (tail - freed). Promised room was taken, and has neither been drawn nor returned.
// - Tickets are 64-bit and only grow. A sequence word counts for a chunk of 32 tickets, and only grows, so the next use
//   of a slot is never mistaken for the last one (no ABA). A sequence word may wrap: no chunk is two rounds ahead of a
//   caller.
// - There are 31 slots more than the capacity. So no ticket of a chunk is drawn before all tickets of the chunk's last
//   round are done, and a count belongs to one round.
// - A caller that draws a ticket sees that the slot's last use is done. The end of that use was added to the room by
//   [K1]. The caller that took the last of the room for the tickets up to this one has acquired all of these ends, and
//   [K2] makes them visible to each caller that draws a later ticket.
// - After close(), room + 2^30 is the capacity exactly when all slots are done: by the first invariant, and since a
//   caller that took too much only lowers it for a moment. So one word says that no element is left and none will come.
// - Returned room needs no release. `room` is only changed by additions, so an acquire of a later value acquires from
//   all releases before it (a release sequence), and a caller that returns room has not used the slots.
#pragma once
#include <cstdint>

#include "device/lane_group.cuh"
#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Number of tickets that one sequence word counts: a chunk.
constexpr uint32_t chunk_tickets = 32;

/// Words that many lanes write, each on a cache line of its own. Initially all are zero except `room`.
struct slots_words {
  alignas(128) uint64_t tail;   ///< tickets drawn so far
  alignas(128) uint32_t room;   ///< elements that may still be promised
  alignas(128) uint64_t freed;  ///< all tickets below are done, and their room has come back; inside a chunk, it counts
                                ///< how many tickets of that chunk are done
};

/// The result of polling some chunks.
struct counted_chunks {
  uint32_t full;    ///< number of chunks in a row of which all tickets are counted
  uint32_t behind;  ///< number of counted tickets in the next chunk, if it was polled; more than 32: the caller is late
};

/// Number of bits that are 1, from bit 0 up to the first that is 0.
GRAVEL_BOTH uint32_t low_ones(uint32_t bits) { return lane_group::popcount(bits & ~(bits + 1)); }

/// Sequence words: each counts the tickets of its 32 slots that are done, in all rounds. S: the processors that use
/// them.
template <class Word, scope S = scope::device>
struct sequence {
  Word* word;       ///< [chunks]
  uint32_t chunks;  ///< power of two

  GRAVEL_BOTH Word* of(uint64_t ticket) const { return &word[ticket / chunk_tickets & (chunks - 1)]; }
  /// The count of all rounds before the ticket's. It uses a shift, since nvcc's 64-bit division is a function call.
  GRAVEL_BOTH Word before(uint64_t ticket) const {
    return static_cast<Word>((ticket / chunk_tickets >> lane_group::lowest(chunks)) * chunk_tickets);
  }
  /// Number of counted tickets in the ticket's chunk and round: 0 to 32. More: the chunk is in a later round, and the
  /// caller is late.
  GRAVEL_BOTH uint32_t count(uint64_t ticket) const {
    return static_cast<Word>(load_acquire<S>(of(ticket)) - before(ticket));
  }
  GRAVEL_BOTH void add(uint64_t ticket, uint32_t n) const { fetch_add_release<S>(of(ticket), static_cast<Word>(n)); }

  /// Polls the chunk of a ticket and those behind it up to the first that is not full. A whole warp polls 32 chunks,
  /// and then 256 at once; of another group the leader polls eight at once. Afterwards the leader has acquired what all
  /// lanes have seen. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH counted_chunks poll(const Group& group, uint64_t ticket) const {
    counted_chunks seen{0, 0};
    if (!group.is_whole_warp()) {
      if (group.is_leader())
        while (poll_more<8>(lone_lane{}, ticket, &seen)) {
        }
      return {group.from_leader(seen.full), group.from_leader(seen.behind)};
    }
    bool goes_on = poll_more<1>(group, ticket, &seen);
    while (goes_on) goes_on = poll_more<8>(group, ticket, &seen);
    return seen;
  }

 private:
  /// Polls EACH chunks by each lane, behind those that are known to be full. True: all of them are full, and there are
  /// more. Thread scope: a whole warp, or a lone lane.
  template <uint32_t EACH, class Group>
  GRAVEL_BOTH bool poll_more(const Group& group, uint64_t ticket, counted_chunks* seen) const {
    uint32_t n[EACH];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < EACH; ++k) {
      const uint32_t chunk = seen->full + k * group.size() + group.rank();
      n[k] = 0;
      if (chunk < chunks) {
        const uint64_t first = ticket / chunk_tickets * chunk_tickets + uint64_t{chunk} * chunk_tickets;
        n[k] = static_cast<Word>(load_acquire_later<S>(of(first)) - before(first));
      }
    }
    acquire_now<S>();
    group.sync();
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < EACH; ++k) {
      const uint32_t full = low_ones(group.ballot(n[k] == chunk_tickets));
      seen->full += full;
      if (full == group.size()) continue;
      seen->behind = group.from_lane(n[k], full);
      return false;
    }
    return seen->full < chunks;
  }
};

/// The slots of one buffer: plain data, which does not own its memory. Thread scope of all calls, where nothing else is
/// said: lane.
template <class Word = uint32_t, scope S = scope::device>
struct slots {
  slots_words* state;
  sequence<Word, S> done;
  uint32_t capacity;  ///< elements, at most rows() - 31

  static constexpr uint32_t most = 1u << 30;  ///< elements, at most
  static constexpr uint32_t closing_room =
      most;  ///< what close() takes: then room is at most 0, however much comes back

  /// Number of chunks: the least power of two. Capacities of 2^k - 31 waste nothing.
  GRAVEL_BOTH static constexpr uint32_t chunks_for(uint32_t capacity) {
    // The loop sets all bits below the highest one.
    uint32_t below = (capacity + 2 * chunk_tickets - 2) / chunk_tickets - 1;
    for (uint32_t shift = 1; shift < 32; shift *= 2) below |= below >> shift;
    return below + 1;
  }
  GRAVEL_BOTH uint32_t rows() const { return done.chunks * chunk_tickets; }
  GRAVEL_BOTH uint32_t row(uint64_t ticket) const { return static_cast<uint32_t>(ticket) & (rows() - 1); }

  /// Takes room for n elements, all or nothing.
  GRAVEL_BOTH bool take_room(uint32_t n) const {
    while (has_room(n))
      if (take_room_now(n)) return true;
    return false;
  }
  /// Takes room for n elements for a group, all or nothing. A whole warp collects the room of many chunks at once.
  /// Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH bool take_room(const Group& group, uint32_t n) const {
    enum : uint32_t { taken, others_were_faster, too_little };
    for (;;) {
      uint32_t found = taken;
      if (group.is_leader() && n != 0) {
        if (!is_enough(load_relaxed<S>(&state->room), n)) found = too_little;
        else if (!take_room_now(n)) found = others_were_faster;
      }
      found = group.from_leader(found);
      if (found == taken) return true;
      if (found == too_little && !refresh(group)) return false;
    }
  }
  /// Is there room for n elements? The answer may be out of date at once.
  GRAVEL_BOTH bool has_room(uint32_t n) const {
    return n == 0 || is_enough(load_relaxed<S>(&state->room), n) ||
           (refresh() && is_enough(load_relaxed<S>(&state->room), n));
  }
  /// Takes room for n elements, without collecting any: after has_room(n). False: another caller was faster.
  GRAVEL_BOTH bool take_room_now(uint32_t n) const {
    if (n == 0 || is_enough(fetch_add_acquire<S>(&state->room, 0u - n), n)) return true;  // [K1]
    return_room(n);
    return false;
  }
  /// Returns room that was taken and not drawn.
  GRAVEL_BOTH void return_room(uint32_t n) const {
    if (n) fetch_add<S>(&state->room, n);  // [K1]
  }
  /// Draws n tickets, for which room has been taken. Returns the first.
  GRAVEL_BOTH uint64_t draw(uint32_t n) const { return fetch_add_acq_rel<S>(&state->tail, uint64_t{n}); }  // [K2]
  /// Takes all room for ever, once: no caller finds any from now on, and `room` is at most 0.
  GRAVEL_BOTH void close() const { fetch_add_acq_rel<S>(&state->room, 0u - closing_room); }  // [K1]
  /// After close(): all room that was taken before has been drawn or returned, and what was drawn is done.
  GRAVEL_BOTH bool is_drained() const {
    refresh();
    return load_acquire<S>(&state->room) == capacity - closing_room;  // [K1]
  }
  /// Frees the slots of n tickets, which lie in one chunk.
  GRAVEL_BOTH void free(uint64_t ticket, uint32_t n) const { done.add(ticket, n); }  // [K3]

  /// `room` is below 0 while a caller that found too little has not yet returned what it took.
  GRAVEL_BOTH static bool is_enough(uint32_t room, uint32_t n) {
    return static_cast<int32_t>(room) >= static_cast<int32_t>(n);
  }

  /// Collects the room of tickets that are done. True: there is more room now, or another caller is about to add it.
  GRAVEL_BOTH bool refresh() const {
    bool more = false;
    while (refresh(lone_lane{})) more = true;
    return more;
  }
  /// Collects room for a group, of as many chunks as the group polls. Thread scope: the group, converged.
  template <class Group>
  GRAVEL_BOTH bool refresh(const Group& group) const {
    const uint64_t freed = group.from_leader(load_relaxed<S>(&state->freed));
    const counted_chunks seen = done.poll(group, freed);  // [K3]
    return group.from_leader(static_cast<uint32_t>(group.is_leader() && collect(freed, seen))) != 0;
  }

 private:
  /// Adds the room of the tickets from `freed` on that are done. False: there are none.
  GRAVEL_BOTH bool collect(uint64_t freed, const counted_chunks& seen) const {
    const uint64_t whole = freed / chunk_tickets * chunk_tickets + uint64_t{seen.full} * chunk_tickets;
    const uint64_t to = whole + (seen.behind < chunk_tickets ? seen.behind : chunk_tickets);
    if (to <= freed) return false;
    if (compare_swap_acquire<S>(&state->freed, freed, to))
      fetch_add_release<S>(&state->room, static_cast<uint32_t>(to - freed));  // [K1]
    return true;
  }
};

}  // namespace gravel::detail
