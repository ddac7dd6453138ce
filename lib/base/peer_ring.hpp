// Rings in GPU memory (ring.hpp), through which the kernels and handlers of one GPU push messages to another GPU of
// their domain (route `peer`), or to their own.
//
// There is one ring for each pair of PEs. Its slots are called chunks. A chunk holds one row. Chunks lie in the memory
// of the destination's GPU, which the source has mapped. The `done` words lie in the source's memory, so each side
// waits on memory of its own.
//
// Handlers never wait (device/outbox.cuh). If a peer's ring has no room for their messages, they put them into the ring
// to their own PE, which is large. From there the resolver forwards them (chunk_header::row).
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/ring.hpp"
#include "lib/base/row.hpp"

namespace gravel::detail {

/// The most PEs of a domain that may use the route `peer` among each other.
constexpr uint32_t max_peers = 128;

/// A set of PEs of a domain, by their ranks.
struct rank_set {
  static constexpr uint32_t words = max_peers / 32;
  uint32_t word[words];  ///< rank r is bit r % 32 of word r / 32
  GRAVEL_BOTH bool has(uint32_t rank) const { return word[rank / 32] >> rank % 32 & 1; }
  GRAVEL_BOTH void add(uint32_t rank) { word[rank / 32] |= 1u << rank % 32; }
  GRAVEL_BOTH void remove(uint32_t rank) { word[rank / 32] &= ~(1u << rank % 32); }
  GRAVEL_BOTH bool is_empty() const {
    uint32_t any = 0;
    for (uint32_t w = 0; w < words; ++w) any |= word[w];
    return any == 0;
  }
};

/// The first line of a chunk. The source writes it.
struct alignas(64) chunk_header {
  /// Its sink is the destination. In the ring of a PE to itself that may be a peer; the resolver then forwards the row.
  message_row row;
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
  /// The bytes of a ring whose chunks and `done` words lie in one piece of memory.
  static uint64_t bytes(uint64_t chunks, uint32_t units) { return chunks * (chunk_bytes(units) + sizeof(uint64_t)); }
  static peer_ring in(char* memory, uint32_t chunks, uint32_t units) {
    return {memory, reinterpret_cast<uint64_t*>(memory + chunks * chunk_bytes(units)), chunks, units};
  }

  GRAVEL_BOTH chunk_header* chunk(uint64_t ticket) const {
    return reinterpret_cast<chunk_header*>(slots + (ticket & (chunks - 1)) * chunk_bytes(chunk_units));
  }
  GRAVEL_BOTH static unit* payload(chunk_header* c) { return reinterpret_cast<unit*>(c + 1); }
  /// Destination: true if `row` can describe a chunk that has room for `room` units.
  GRAVEL_BOTH static bool may_hold(const message_row& row, uint32_t room) {
    return is_sound(row.kind) && row.kind.units() <= max_am_units && row.units() <= room;
  }

  /// Source: true if the holder of `ticket` may write.
  GRAVEL_BOTH bool is_free(uint64_t ticket) const { return words().is_free(ticket); }
  /// Source: publishes what the group of the claiming lane wrote. The group must have synchronized before.
  GRAVEL_BOTH void publish(uint64_t ticket, const message_row& row) const {
    chunk_header* c = chunk(ticket);
    store_row(&c->row, row);
    ring<>::publish(&c->published, ticket);
  }
  /// Destination: true if `ticket` has arrived.
  GRAVEL_BOTH bool arrived(uint64_t ticket) const { return ring<>::arrived(&chunk(ticket)->published, ticket); }
  GRAVEL_BOTH void mark_done(uint64_t ticket) const { words().mark(ticket); }
  GRAVEL_BOTH done_words<> words() const { return {done, chunks}; }
};

/// The words of a ring that only the source uses, in its memory.
struct alignas(64) ring_line {
  uint64_t tickets;        ///< tickets claimed so far
  uint64_t applied_below;  ///< cached: every ticket below this is applied
  uint64_t last_doorbell;  ///< when a handler last rang the doorbell, in nanoseconds
  uint64_t applied;        ///< chunks applied; the resolver counts them in the own ring only
  uint64_t spare[4];
};
static_assert(sizeof(ring_line) == 64);

/// How kernels and handlers of a PE reach a PE of the domain, or their own, without its host. There is one for each PE
/// of the job, in device memory.
struct peer_link {
  char* heap;       ///< the PE's symmetric heap as mapped here; nullptr: it is not
  peer_ring ring;   ///< slots == nullptr: there is none
  ring_line* line;  ///< of `ring`, in the source's memory
  uint32_t pe;
  uint32_t rank;       ///< rank of that PE in the domain
  uint32_t bin;        ///< its number among this PE's peers; no_bin: the PE itself
  uint64_t* doorbell;  ///< word in pinned host memory: any change wakes the resolver if it sleeps
  static constexpr uint32_t no_bin = ~0u;
};

/// What a PE reports to another PE of the domain, in that one's memory (device/settle.cuh).
struct alignas(64) peer_words {
  uint64_t barrier;  ///< number of the last barrier that the PE has entered
  /// The rounds of quiescence, by parity of their number: twice that number, plus 1 if the PE has sent since the round
  /// before.
  uint64_t round[2];
  uint64_t spare[5];
};
static_assert(sizeof(peer_words) == 64);

/// The words by which the kernels of all PEs of a domain report their progress to each other. Plain data.
struct peer_rendezvous {
  peer_words* const* theirs;  ///< [n] this PE's words at each PE
  const peer_words* mine;     ///< [n] the words of each PE here
  uint32_t n;                 ///< 0: not all PEs of the job are peers of each other
};

}  // namespace gravel::detail
