// The ring through which one GPU's kernels and handlers push messages to another GPU of their node (route `peer`), or to
// their own. It lies in the memory of the destination's GPU, mapped by the source; there is one for each pair of PEs. A chunk
// holds one run: messages of one size.
//
//   source: the lanes that hand over a run              destination: lanes of the resolver
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

/// First line of a chunk. Written by the source.
struct alignas(64) chunk_header {
  uint64_t published;  ///< ticket + 1 of what lies here
  uint32_t messages;
  uint32_t units;  ///< of each message
  uint32_t pe;     ///< for whom they are; in a PE's ring to itself it may be a peer: then they are to be passed on
  uint32_t spare32;
  uint64_t spare[5];
};
static_assert(sizeof(chunk_header) == 64);

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

  /// Source: may the holder of `ticket` write? Pairs with [P2]. Orders only what depends on it: the holder stores into the chunk,
  /// which it does not before it knows, and reads nothing there.
  GRAVEL_BOTH bool is_free(uint64_t ticket) const {
    return ticket < chunks || load_acquire_later(&done[ticket & (chunks - 1)]) == ticket - chunks + 1;
  }
  /// Source: hands over what the claimer's group wrote; the group must have synchronized. [P1] release.
  GRAVEL_BOTH void publish(uint64_t ticket, uint32_t messages, uint32_t units, uint32_t pe) const {
    chunk_header* c = chunk(ticket);
    c->messages = messages;
    c->units = units;
    c->pe = pe;
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
  /// The lowest ticket from `from` to `target` that is not applied; `target` if all are. Source, any thread.
  GRAVEL_BOTH uint64_t first_missing(uint64_t from, uint64_t target) const {
    uint64_t t = target > chunks && target - chunks > from ? target - chunks : from;
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    while (t < target) {
      // Several at once; the acquire comes behind the last.
      constexpr uint32_t batch = 8;
      uint32_t there = 0;
      for (uint32_t b = 0; b < batch && t + b < target; ++b)
        there |= static_cast<uint32_t>(load_acquire_later(&done[(t + b) & (chunks - 1)]) > t + b) << b;
      acquire_now();
      uint32_t n = 0;
      while (there >> n & 1) ++n;
      t += n;
      if (n != batch) break;
    }
    return t;
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
