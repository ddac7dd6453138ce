// The ring through which one GPU's kernels and handlers push messages to another GPU of their node (route `peer`), or to
// their own. It lies in the memory of the destination's GPU, mapped by the source; there is one for each pair of PEs. A chunk
// holds one row: messages of one size.
//
//   source: the lanes that hand over a row              destination: lanes of the resolver
//   ticket = tickets++            (its own memory)      ticket = drawn++                 (its own memory)
//   wait until the chunk is free  [P2] acquire          wait until it is published       [P1] acquire
//   write messages                (over NVLink)         apply the messages, handlers included
//   published = ticket + 1        [P1] release          done[chunk] = ticket + 1         [P2] release
//
// `done` lies in the source's memory, so both sides wait on memory of their own. Invariants: every word has one writer
// at a time (the holder of the ticket); what a chunk's handlers send is ticketed before `done` is written.
//
// Handlers never wait (device/outbox.cuh). What a peer's ring has no room for they put into the ring to their own PE, which is
// large; from there the resolver passes it on (chunk_header::pe).
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

/// PEs of a node that may use the route `peer` among each other.
constexpr uint32_t max_peers = 32;

/// First line of a chunk. Written by the source.
struct alignas(64) chunk_header {
  uint32_t messages;
  uint32_t units;  ///< of each message
  uint32_t pe;     ///< for whom they are; in a PE's ring to itself it may be a peer: then they are to be passed on
  uint32_t spare32;
  uint64_t published;  ///< ticket + 1 of what lies here
  uint64_t spare[5];
};
static_assert(sizeof(chunk_header) == 64);

/// Who looks at a ring alone; else a lane_group (device/lane_group.cuh) does.
struct single_looker {
  GRAVEL_BOTH uint32_t size() const { return 1; }
  GRAVEL_BOTH uint32_t rank() const { return 0; }
  GRAVEL_BOTH uint32_t rank_of(uint32_t) const { return 0; }
  GRAVEL_BOTH uint32_t ballot(bool vote) const { return vote; }
  GRAVEL_BOTH static uint32_t lowest(uint32_t) { return 0; }
};

/// One side's view of a ring: plain data.
struct peer_ring {
  char* slots;           ///< chunks, in the destination's memory; nullptr: there is no ring
  uint64_t* done;        ///< [chunks], in the source's memory
  uint32_t chunks;       ///< power of two
  uint32_t chunk_units;  ///< room for messages, at least least_chunk_units
  static constexpr uint32_t least_chunk_units = 256;

  GRAVEL_BOTH static uint64_t chunk_bytes(uint32_t units) { return sizeof(chunk_header) + uint64_t{units} * sizeof(unit); }
  GRAVEL_BOTH chunk_header* chunk(uint64_t ticket) const {
    return reinterpret_cast<chunk_header*>(slots + (ticket & (chunks - 1)) * chunk_bytes(chunk_units));
  }
  GRAVEL_BOTH static unit* payload(chunk_header* c) { return reinterpret_cast<unit*>(c + 1); }
  /// Destination: can this be what a chunk with room for `room` units says of itself?
  GRAVEL_BOTH static bool may_hold(uint32_t messages, uint32_t units, uint32_t room) {
    return units != 0 && units <= max_am_units && messages <= room / units;
  }

  /// Source: may the holder of `ticket` write? Pairs with [P2]. Orders only what depends on it: the holder stores into the chunk,
  /// which it does not before it knows, and reads nothing there.
  GRAVEL_BOTH bool is_free(uint64_t ticket) const {
    return ticket < chunks || load_acquire_later(&done[ticket & (chunks - 1)]) == ticket - chunks + 1;
  }
  /// Source: hands over what the claimer's group wrote; the group must have synchronized. [P1] release.
  GRAVEL_BOTH void publish(uint64_t ticket, uint32_t messages, uint32_t units, uint32_t pe) const {
    chunk_header* c = chunk(ticket);
#if GRAVEL_ON_GPU
    *reinterpret_cast<uint4*>(c) = make_uint4(messages, units, pe, 0);  // one store over NVLink
#else
    c->messages = messages;
    c->units = units;
    c->pe = pe;
#endif
    store_release(&c->published, ticket + 1);
  }
  /// Destination: has `ticket` arrived? Pairs with [P1].
  GRAVEL_BOTH bool arrived(uint64_t ticket) const { return load_acquire(&chunk(ticket)->published) == ticket + 1; }
  /// Destination: [P2] release.
  GRAVEL_BOTH void mark_done(uint64_t ticket) const { store_release(&done[ticket & (chunks - 1)], ticket + 1); }

  /// Chunks applied so far, from the words in `done` (a copy of them will do). Source.
  static uint64_t applied(const uint64_t* done, uint32_t chunks) {
    uint64_t sum = 0;
    for (uint32_t c = 0; c < chunks; ++c)
      if (done[c]) sum += (done[c] - 1 - c) / chunks + 1;
    return sum;
  }
  /// The lowest ticket from `from` to `target` that is not applied; `target` if all are. Source; thread scope: the group, which
  /// looks together.
  template <class Group = single_looker>
  GRAVEL_BOTH uint64_t first_missing(uint64_t from, uint64_t target, const Group& group = {}) const {
    uint64_t t = target > chunks && target - chunks > from ? target - chunks : from;
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (bool all = true; all && t < target;) {
      // Several at once for each lane; the acquire comes behind the last.
      constexpr uint32_t batch = 8;
      uint32_t there = 0;
      for (uint32_t b = 0; b < batch; ++b) {
        const uint64_t mine = t + b * group.size() + group.rank();
        there |= static_cast<uint32_t>(mine >= target || load_acquire_later(&done[mine & (chunks - 1)]) > mine) << b;
      }
      for (uint32_t b = 0; all && b < batch; ++b) {
        const uint32_t missing = group.ballot(!(there >> b & 1));
        t += missing ? group.rank_of(Group::lowest(missing)) : group.size();
        all = !missing;
      }
    }
    acquire_now();
    return t < target ? t : target;
  }
};

/// Destination: the tickets of a ring that a lane has drawn: the one that it waits for, and, once that has arrived, the one that it
/// will wait for next. Each ticket is drawn once, by some lane, so each chunk is applied once. `drawn`: of the ring.
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
  GRAVEL_BOTH void go_on() {
    ticket = next;
    next = none;
  }
};

/// The source's own words of a ring, in its memory.
struct alignas(64) ring_line {
  uint64_t tickets;        ///< claimed so far
  uint64_t applied_below;  ///< cached: every ticket below this is applied
  uint64_t last_bell;      ///< when a handler rang last, in nanoseconds
  uint64_t applied;        ///< chunks applied; counted only in a PE's ring to itself, by the resolver
  uint64_t spare[4];
};
static_assert(sizeof(ring_line) == 64);

/// How kernels and handlers of a PE reach another PE of the node, or their own, without its host; one per PE of the job, in
/// device memory.
struct peer_link {
  char* heap;       ///< its symmetric heap as mapped here; nullptr: not a peer
  peer_ring ring;   ///< slots == nullptr: there is none
  ring_line* line;  ///< of `ring`, in the source's memory
  uint32_t pe;
  uint32_t rank;    ///< of that PE on the node
  uint32_t bin;     ///< number among this PE's peers; no_bin: the PE itself
  uint64_t* bell;   ///< pinned host word: any change wakes the resolver, should it sleep
  static constexpr uint32_t no_bin = ~0u;
};

/// Where the kernels of all PEs of a node tell each other how far they have come (device/settle.cuh). Plain data.
struct peer_barrier {
  uint64_t* const* theirs;  ///< [n] this PE's word at each of them
  const uint64_t* mine;     ///< [n] theirs here, each the first of a line of 8 words
  uint32_t n;               ///< 0: not all PEs of the job reach each other so
};

}  // namespace gravel
