// Channels on which packets arrive from the same plane of other nodes: into the landing ring of a local PE, or, when
// this node forwards (first of two hops), into the aggregator's own transit slots.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "lib/base/landing.hpp"

namespace gravel {

/// Packets from one source node for one local sink, or for forwarding. They may arrive out of order (a small packet
/// overtakes a put), and are published in order.
/// Invariant: applied <= freed <= expected <= freed + packets; all packets below `expected` have arrived.
class inbound {
 public:
  inbound(landing ring, uint32_t channel, uint64_t* arrivals, uint32_t source_node, remote_link& back)
      : ring_(ring), channel_(channel), arrivals_(arrivals), source_node_(source_node), back_(&back), early_(ring.packets) {}

  /// The packet of this sequence is in the slot, put there by the sender. Checks it and publishes it to the receiver.
  void on_notice(uint64_t sequence, uint64_t bytes);
  /// The packet came inside a message: checks it, copies it into the slot, publishes it.
  void on_packet(uint64_t sequence, std::span<const std::byte> packet);

  /// Sink channels: reads the receiver's done words and reports progress to the sender. True if there was any.
  bool report(const plane_header& from);
  bool is_transit() const { return arrivals_ == nullptr; }
  bool busy() const { return reported_applied_ != expected_; }
  uint64_t expected() const { return expected_; }
  std::string describe() const;

  bool listed = false;

  // Transit channels: the plane forwards packets in order and says so here.
  const packet_header* next_to_forward() const { return freed_ != expected_ ? ring_.packet(channel_, freed_) : nullptr; }
  struct cursor {
    uint32_t row = 0, message = 0, unit = 0;
  } at;
  /// All messages of the next packet were taken over; it is applied once what lies at each of these places is.
  void forwarded(std::vector<position> until);
  /// Somebody waits for the packets below `sequence`: their messages are not held back, whether they are here already or not.
  void ask_flush(uint64_t sequence);
  bool report_transit(const plane_header& from);

 private:
  void check_arrival(uint64_t sequence) const;
  std::string destination() const;
  void publish_next();
  bool send_credit(const plane_header& from);

  landing ring_;
  uint32_t channel_;
  uint64_t* arrivals_;  ///< nullptr: transit
  uint32_t source_node_;
  remote_link* back_;
  uint64_t expected_ = 0, freed_ = 0, applied_ = 0, reported_freed_ = 0, reported_applied_ = 0;
  std::vector<char> early_;                    ///< by sequence modulo packets: arrived, not yet published
  uint64_t flush_below_ = 0, hurried_ = 0;     ///< waited for; of these, below which all were hurried
  std::deque<std::vector<position>> waiting_;  ///< of packets applied_ .. freed_ - 1
};

}  // namespace gravel
