// The ring through which one GPU's kernels push sorted messages to another GPU of their node (route `peer`). It lies in
// the memory of the destination's GPU, mapped by the source; there is one for each pair of PEs. A chunk holds one run:
// messages of one size.
//
//   source: the lanes that hand over a run              destination: block b of the resolver's B
//   ticket = tickets++            (its own memory)      takes tickets b, b+B, b+2B, ... in order, alone
//   wait until the chunk is free  [P2] acquire          wait until it is published       [P1] acquire
//   write messages                (over NVLink)         apply the messages, handlers included
//   published = ticket + 1        [P1] release          done[chunk] = ticket + 1         [P2] release
//
// `done` lies in the source's memory, so both sides wait on memory of their own. Invariants: every word has one writer
// at a time (the holder of the ticket); what a chunk's handlers send is ticketed before `done` is written.
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
  uint64_t spare[6];
};
static_assert(sizeof(chunk_header) == 64);

/// One side's view of a ring: plain data.
struct peer_ring {
  char* slots;           ///< chunks, in the destination's memory; nullptr: there is no ring
  uint64_t* done;        ///< [chunks], in the source's memory
  uint32_t chunks;       ///< power of two
  uint32_t chunk_units;  ///< room for messages

  GRAVEL_BOTH static uint64_t chunk_bytes(uint32_t units) { return sizeof(chunk_header) + uint64_t{units} * sizeof(unit); }
  GRAVEL_BOTH chunk_header* chunk(uint64_t ticket) const {
    return reinterpret_cast<chunk_header*>(slots + (ticket & (chunks - 1)) * chunk_bytes(chunk_units));
  }
  GRAVEL_BOTH static unit* payload(chunk_header* c) { return reinterpret_cast<unit*>(c + 1); }

  /// Source: may the holder of `ticket` write? Pairs with [P2].
  GRAVEL_BOTH bool is_free(uint64_t ticket) const {
    return ticket < chunks || load_acquire(&done[ticket & (chunks - 1)]) == ticket - chunks + 1;
  }
  /// Source: hands over what the claimer's group wrote; the group must have synchronized. [P1] release.
  GRAVEL_BOTH void publish(uint64_t ticket, uint32_t messages, uint32_t units) const {
    chunk_header* c = chunk(ticket);
    c->messages = messages;
    c->units = units;
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
  /// Have all tickets below `target` been applied? Source, any thread.
  GRAVEL_BOTH bool applied_below(uint64_t target) const {
    for (uint64_t t = target > chunks ? target - chunks : 0; t < target; ++t)
      if (load_acquire(&done[t & (chunks - 1)]) < t + 1) return false;
    return true;
  }
};

/// How kernels of this PE reach another PE of the node without its host; one per PE of the job, in device memory.
struct peer_link {
  char* heap;         ///< its symmetric heap as mapped here; nullptr: not a peer
  peer_ring ring;     ///< slots == nullptr: operations go one by one
  uint64_t* tickets;  ///< of `ring`, claimed so far
  uint32_t bin;       ///< number among this PE's peers
  uint64_t* bell;     ///< pinned host word: any change wakes the resolver, should it sleep
};

}  // namespace gravel
