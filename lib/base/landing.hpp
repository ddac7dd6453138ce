// The landing ring of a PE: where packets arrive. For each sink kind, inbound channel (one per source node and
// aggregator thread) and sequence modulo `packets` there is one slot.
//
//   local aggregator, plane p                          receiver (resolver kernel or host thread)
//   sees done >= s - packets + 1   [L2] acquire        sees arrivals, published == s + 1   [L1] acquire
//   packet s is in the slot                            applies packet s, handlers included
//   published = s + 1              [L1] release        done = s + 1                        [L2] release
//   arrivals += 1                  [L1] release
//
// Invariants: one writer per word (`arrivals` is shared by the aggregator's threads, all on the CPU). What a packet's
// handlers send is ticketed in this PE's queue before `done` is written, so nothing in flight is ever uncounted.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/packet.hpp"
#include "lib/base/platform.hpp"

namespace gravel {

/// Plain-data view of one sink kind's landing slots, passed to the resolver kernel by value.
struct landing {
  char* slots;
  uint64_t* done;            ///< [channels][packets], written by the receiver
  const uint64_t* arrivals;  ///< packets published so far in all channels
  uint32_t channels;
  uint32_t packets;
  uint64_t packet_size;
  uint32_t sink;
  uint32_t n_sinks;

  GRAVEL_BOTH uint64_t slot_bytes() const { return sizeof(landing_header) + packet_size; }
  GRAVEL_BOTH uint64_t slot_index(uint32_t channel, uint64_t sequence) const {
    return uint64_t{channel} * packets + sequence % packets;
  }
  GRAVEL_BOTH landing_header* slot(uint32_t channel, uint64_t sequence) const {
    return reinterpret_cast<landing_header*>(slots + slot_index(channel, sequence) * slot_bytes());
  }
  GRAVEL_BOTH packet_header* packet(uint32_t channel, uint64_t sequence) const {
    return reinterpret_cast<packet_header*>(slot(channel, sequence) + 1);
  }
  /// Has packet `sequence` arrived? Pairs with [L1].
  GRAVEL_BOTH bool arrived(uint32_t channel, uint64_t sequence) const {
    return load_acquire(&slot(channel, sequence)->published) == sequence + 1;
  }
  /// Is packet `sequence` applied? Pairs with [L2].
  GRAVEL_BOTH bool is_done(uint32_t channel, uint64_t sequence) const {
    return static_cast<int64_t>(load_acquire(&done[slot_index(channel, sequence)]) - (sequence + 1)) >= 0;
  }
  /// [L2] release.
  GRAVEL_BOTH void mark_done(uint32_t channel, uint64_t sequence) const {
    store_release(&done[slot_index(channel, sequence)], sequence + 1);
  }
  GRAVEL_BOTH packet_expectation expectation(uint64_t sequence) const {
    return {packet_size, sequence, sink, n_sinks};
  }
};

}  // namespace gravel
