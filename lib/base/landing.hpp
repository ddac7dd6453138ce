// The landing ring of a PE: where packets arrive. For each sink kind and inbound stream (one per source node and plane)
// there is a ring (ring.hpp) of `packets` slots. Its tickets are the sequence numbers of the stream's packets. Its
// source is the local aggregator's thread of that stream, also for packets that another node's NIC has written.
//
//   local aggregator, plane p                      receiver (resolver kernel or host thread)
//   published [P1]; arrivals += 1  [L1] release    sees arrivals   [L1] acquire, then published [P1] of each stream
//
// Invariant: each word has one writer, except `arrivals`, which the aggregator's threads share. All of them run on the
// CPU.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/packet.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/ring.hpp"

namespace gravel::detail {

/// The sizes of the landing slots of one sink kind, or of an aggregator's transit slots: [stream][packet].
struct landing_shape {
  uint32_t streams;
  uint32_t packets;  ///< slots of each stream
  uint64_t packet_size;

  GRAVEL_BOTH uint64_t slot_bytes() const { return sizeof(landing_header) + packet_size; }
  GRAVEL_BOTH uint64_t slot_index(uint32_t stream, uint64_t sequence) const {
    return uint64_t{stream} * packets + sequence % packets;
  }
  /// The offset at which a packet's slot begins.
  GRAVEL_BOTH uint64_t slot_at(uint32_t stream, uint64_t sequence) const {
    return slot_index(stream, sequence) * slot_bytes();
  }
  uint64_t n_slots() const { return uint64_t{streams} * packets; }
  uint64_t bytes() const { return n_slots() * slot_bytes(); }
};

/// A view of one sink kind's landing slots: plain data, passed to the resolver kernel by value.
struct landing {
  char* slots;
  uint64_t* done;            ///< [streams][packets], written by the receiver
  const uint64_t* arrivals;  ///< packets published so far in all streams
  uint32_t streams;
  uint32_t packets;
  uint64_t packet_size;
  uint32_t sink;
  uint32_t n_sinks;

  GRAVEL_BOTH landing_shape shape() const { return {streams, packets, packet_size}; }
  GRAVEL_BOTH landing_header* slot(uint32_t stream, uint64_t sequence) const {
    return reinterpret_cast<landing_header*>(slots + shape().slot_at(stream, sequence));
  }
  GRAVEL_BOTH packet_header* packet(uint32_t stream, uint64_t sequence) const {
    return reinterpret_cast<packet_header*>(slot(stream, sequence) + 1);
  }
  /// Plane: publishes packet `sequence`, which is in its slot. The caller raises `arrivals` afterwards.
  void publish(uint32_t stream, uint64_t sequence) const {
    ring<>::publish(&slot(stream, sequence)->published, sequence);
  }
  /// Receiver: true if packet `sequence` has arrived.
  GRAVEL_BOTH bool arrived(uint32_t stream, uint64_t sequence) const {
    return ring<>::arrived(&slot(stream, sequence)->published, sequence);
  }
  GRAVEL_BOTH void mark_done(uint32_t stream, uint64_t sequence) const {
    ring<>::mark_done(done_of(stream, sequence), sequence + 1);
  }
  /// Plane: true if packet `sequence` is applied. The plane must not have used its slot since.
  bool is_done(uint32_t stream, uint64_t sequence) const {
    return ring<>::read_done(done_of(stream, sequence)) == sequence + 1;
  }
  GRAVEL_BOTH uint64_t* done_of(uint32_t stream, uint64_t sequence) const {
    return &done[shape().slot_index(stream, sequence)];
  }
  GRAVEL_BOTH packet_expectation expectation(uint64_t sequence) const { return {packet_size, sequence, sink, n_sinks}; }
};

}  // namespace gravel::detail
