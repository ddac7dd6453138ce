// Rings in GPU memory (ring.hpp), whose slots are called chunks: each holds one row, messages of one size. They lie in
// the memory of the destination's GPU. One GPU's kernels and handlers push messages through them to another GPU of
// their node (route `peer`), which the source has mapped, or to their own; there is one for each pair of PEs. Its
// `done` words lie in the source's memory, so both sides wait on memory of their own.
//
// Handlers never wait (device/outbox.cuh). What a peer's ring has no room for they put into the ring to their own PE,
// which is large; from there the resolver passes it on (chunk_header::pe).
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/ring.hpp"
#include "lib/base/row.hpp"

namespace gravel::detail {

/// PEs of a node that may use the route `peer` among each other.
constexpr uint32_t max_peers = 32;

/// First line of a chunk. Written by the source.
struct alignas(64) chunk_header {
  message_row
      row;  ///< its sink: for whom it is; in a PE's ring to itself it may be a peer: then the row is to be passed on
  uint64_t published;  ///< ticket + 1 of what lies here
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

  GRAVEL_BOTH static uint64_t chunk_bytes(uint32_t units) {
    return sizeof(chunk_header) + uint64_t{units} * sizeof(unit);
  }
  /// Of a ring whose chunks and `done` words lie in one piece of memory.
  static uint64_t bytes(uint64_t chunks, uint32_t units) { return chunks * (chunk_bytes(units) + sizeof(uint64_t)); }
  static peer_ring in(char* memory, uint32_t chunks, uint32_t units) {
    return {memory, reinterpret_cast<uint64_t*>(memory + chunks * chunk_bytes(units)), chunks, units};
  }

  GRAVEL_BOTH chunk_header* chunk(uint64_t ticket) const {
    return reinterpret_cast<chunk_header*>(slots + (ticket & (chunks - 1)) * chunk_bytes(chunk_units));
  }
  GRAVEL_BOTH static unit* payload(chunk_header* c) { return reinterpret_cast<unit*>(c + 1); }
  /// Destination: can this be what a chunk with room for `room` units says of itself?
  GRAVEL_BOTH static bool may_hold(const message_row& row, uint32_t room) {
    return is_sound(row.kind) && row.kind.units() <= max_am_units && row.units() <= room;
  }

  /// Source: may the holder of `ticket` write?
  GRAVEL_BOTH bool is_free(uint64_t ticket) const { return words().is_free(ticket); }
  /// Source: hands over what the claimer's group wrote; the group must have synchronized.
  GRAVEL_BOTH void publish(uint64_t ticket, const message_row& row) const {
    chunk_header* c = chunk(ticket);
    store_row(&c->row, row);
    ring<>::publish(&c->published, ticket);
  }
  /// Destination: has `ticket` arrived?
  GRAVEL_BOTH bool arrived(uint64_t ticket) const { return ring<>::arrived(&chunk(ticket)->published, ticket); }
  GRAVEL_BOTH void mark_done(uint64_t ticket) const { words().mark(ticket); }
  GRAVEL_BOTH done_words<> words() const { return {done, chunks}; }
};

/// The source's own words of a ring, in its memory.
struct alignas(64) ring_line {
  uint64_t tickets;        ///< claimed so far
  uint64_t applied_below;  ///< cached: every ticket below this is applied
  uint64_t last_doorbell;  ///< when a handler rang last, in nanoseconds
  uint64_t applied;        ///< chunks applied; counted only in a PE's ring to itself, by the resolver
  uint64_t spare[4];
};
static_assert(sizeof(ring_line) == 64);

/// How kernels and handlers of a PE reach another PE of the node, or their own, without its host; one per PE of the
/// job, in device memory.
struct peer_link {
  char* heap;       ///< its symmetric heap as mapped here; nullptr: not a peer
  peer_ring ring;   ///< slots == nullptr: there is none
  ring_line* line;  ///< of `ring`, in the source's memory
  uint32_t pe;
  uint32_t rank;       ///< of that PE on the node
  uint32_t bin;        ///< number among this PE's peers; no_bin: the PE itself
  uint64_t* doorbell;  ///< pinned host word: any change wakes the resolver, should it sleep
  static constexpr uint32_t no_bin = ~0u;
};

/// What a PE tells another of the node, in that one's memory (device/settle.cuh).
struct alignas(64) peer_words {
  uint64_t barrier;   ///< number of the last one that it has come to
  uint64_t round[2];  ///< of quiescence, by parity of its number: twice that number, and 1 if the PE has sent since the
                      ///< round before
  uint64_t spare[5];
};
static_assert(sizeof(peer_words) == 64);

/// Where the kernels of all PEs of a node tell each other how far they have come. Plain data.
struct peer_rendezvous {
  peer_words* const* theirs;  ///< [n] this PE's words at each of them
  const peer_words* mine;     ///< [n] theirs here
  uint32_t n;                 ///< 0: not all PEs of the job reach each other so
};

}  // namespace gravel::detail
