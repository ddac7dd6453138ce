// Streams on which packets arrive from the same plane of other nodes. A stream ends in the landing ring of a local PE.
// If this node forwards (first of two hops), it ends in the aggregator's own transit slots.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "lib/base/error.hpp"
#include "lib/base/landing.hpp"

namespace gravel::detail {

/// Packets from one source node for one local sink, or packets to forward. They may arrive out of order (a small packet
/// may overtake a put), and are published in order.
/// Invariant: applied <= freed <= expected <= freed + packets; all packets below `expected` have arrived.
class inbound {
 public:
  inbound(landing ring, uint32_t stream, uint64_t* arrivals, uint32_t source_node, remote_link& back)
      : ring_(ring),
        stream_(stream),
        arrivals_(arrivals),
        source_node_(source_node),
        back_(&back),
        early_(ring.packets),
        to_forward_(is_transit() ? ring.packets : 0) {}

  /// The sender has put the packet of this sequence into its slot. Checks it and publishes it to the receiver.
  void on_notice(uint64_t sequence, uint64_t bytes) {
    check_arrival(sequence);
    check_contents(sequence, ring_.packet(stream_, sequence), bytes);
    arrive(sequence);
  }
  /// The packet came inside a message. Checks it, copies it into its slot and publishes it.
  void on_packet(uint64_t sequence, std::span<const std::byte> bytes) {
    check_arrival(sequence);
    if (bytes.size() < packet_payload_offset || bytes.size() > ring_.packet_size)
      fail("corrupt packet from node {} for {}: {} bytes", source_node_, destination(), bytes.size());
    check_contents(sequence, bytes.data(), bytes.size());
    std::memcpy(static_cast<void*>(ring_.packet(stream_, sequence)), bytes.data(), bytes.size());
    arrive(sequence);
  }

  /// Streams to a sink: reads the receiver's done words and sends the sender a credit. True if there was progress.
  bool report(const plane_header& from) {
    while (applied_ != expected_ && ring_.is_done(stream_, applied_)) ++applied_;
    freed_ = applied_;
    return send_credit(from);
  }
  bool is_transit() const { return arrivals_ == nullptr; }
  bool busy() const { return reported_applied_ != expected_; }
  uint64_t expected() const { return expected_; }
  std::string describe() const {
    return fmt::format("from node {} to {}: {} packets arrived, {} freed, {} applied", source_node_, destination(),
                       expected_, freed_, applied_);
  }

  bool listed = false;

  // Transit streams: the plane forwards packets in order and calls these functions.
  /// Header and table of the next packet, as they were checked; nullptr: there is no packet.
  const packet_table* next_to_forward() const {
    return freed_ != expected_ ? &to_forward_[freed_ % ring_.packets] : nullptr;
  }
  /// Messages of the next packet, in the slot. The sender may still write there.
  const unit* payload_to_forward() const { return payload_of(ring_.packet(stream_, freed_)); }
  struct cursor {
    uint32_t row = 0, message = 0, unit = 0;
  } at;
  /// The plane has taken all messages of the next packet. The packet is applied once the messages at all these
  /// positions are.
  void forwarded(std::vector<position> until) {
    waiting_.push_back(std::move(until));
    at = {};
    ++freed_;
  }
  /// Somebody waits for the packets below `sequence`. Their messages are forwarded at once, now or when they arrive.
  void request_flush(uint64_t sequence) {
    if (sequence > freed_ + ring_.packets)
      fail("node {} waits for packet {} for {}, which it may not have sent: {} are freed", source_node_, sequence,
           destination(), freed_);
    flush_below_ = std::max(flush_below_, sequence);
  }
  bool report_transit(const plane_header& from) {
    const auto send_now = [](position& p) { return p.to->send_now(p); };
    for (flushed_ = std::max(flushed_, applied_); flushed_ < std::min(flush_below_, freed_); ++flushed_) {
      auto& until = waiting_[flushed_ - applied_];
      if (!std::all_of(until.begin(), until.end(), send_now)) break;
    }
    while (!waiting_.empty()) {
      auto& until = waiting_.front();
      while (!until.empty() && until.back().to->is_applied(until.back())) until.pop_back();
      if (!until.empty()) break;
      waiting_.pop_front();
      ++applied_;
    }
    return send_credit(from);
  }

 private:
  void check_arrival(uint64_t sequence) const {
    if (sequence - freed_ >= ring_.packets)
      fail("node {} sent packet {} for {} without a credit: packets {} to {} have one", source_node_, sequence,
           destination(), freed_, freed_ + ring_.packets - 1);
    if (sequence < expected_ || early_[sequence % ring_.packets])
      fail("node {} sent packet {} for {} twice", source_node_, sequence, destination());
  }
  /// A receiver checks a packet once more. A packet to forward is forwarded by the table that is checked here.
  void check_contents(uint64_t sequence, const void* packet, uint64_t bytes) {
    packet_table table;
    const packet_fault fault = read_packet(packet, bytes, ring_.expectation(sequence), table);
    if (fault != packet_fault::fine)
      fail("corrupt packet from node {} for {}: {}", source_node_, destination(), name_of(fault));
    if (is_transit()) to_forward_[sequence % ring_.packets] = table;
  }
  void arrive(uint64_t sequence) {
    early_[sequence % ring_.packets] = 1;
    while (early_[expected_ % ring_.packets]) publish_next();
  }
  std::string destination() const {
    return ring_.sink == transit_sink ? std::string("other nodes") : fmt::format("PE {}", pe_of_sink(ring_.sink));
  }
  void publish_next() {
    early_[expected_ % ring_.packets] = 0;
    const uint64_t sequence = expected_++;
    if (!arrivals_) return;
    ring_.publish(stream_, sequence);
    fetch_add_release<scope::system>(arrivals_, uint64_t{1});  // [L1]
  }
  bool send_credit(const plane_header& from) {
    if (freed_ == reported_freed_ && applied_ == reported_applied_) return false;
    reported_freed_ = freed_;
    reported_applied_ = applied_;
    plane_header credit = from;
    credit.kind = plane_message::credit;
    credit.sink = ring_.sink;
    credit.a = freed_;
    credit.b = applied_;
    back_->send(credit, {});
    return true;
  }

  landing ring_;
  uint32_t stream_;
  uint64_t* arrivals_;  ///< nullptr: transit
  uint32_t source_node_;
  remote_link* back_;
  uint64_t expected_ = 0, freed_ = 0, applied_ = 0, reported_freed_ = 0, reported_applied_ = 0;
  std::vector<char> early_;                    ///< by sequence modulo packets: arrived, not yet published
  std::vector<packet_table> to_forward_;       ///< by sequence modulo packets: tables of packets to forward
  uint64_t flush_below_ = 0, flushed_ = 0;     ///< packets below which somebody waits; packets below which all was sent
  std::deque<std::vector<position>> waiting_;  ///< by packet, from applied_ to freed_ - 1
};

}  // namespace gravel::detail
