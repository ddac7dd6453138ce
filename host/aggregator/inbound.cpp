#include "host/aggregator/inbound.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/error.hpp"

namespace gravel {

void inbound::check_arrival(uint64_t sequence) const {
  if (sequence - freed_ >= ring_.packets)
    fail("node {} sent packet {} for {} without a credit: packets {} to {} have one", source_node_, sequence, destination(), freed_,
         freed_ + ring_.packets - 1);
  if (sequence < expected_ || early_[sequence % ring_.packets])
    fail("node {} sent packet {} for {} twice", source_node_, sequence, destination());
}

void inbound::on_notice(uint64_t sequence, uint64_t bytes) {
  check_arrival(sequence);
  const packet_header* packet = ring_.packet(channel_, sequence);
  const packet_fault fault = check_packet(packet, bytes, ring_.expectation(sequence));
  if (fault != packet_fault::fine) fail("corrupt packet from node {} for {}: {}", source_node_, destination(), name_of(fault));
  early_[sequence % ring_.packets] = 1;
  while (early_[expected_ % ring_.packets]) publish_next();
}

void inbound::on_packet(uint64_t sequence, std::span<const std::byte> bytes) {
  check_arrival(sequence);
  // The transport's buffer need not be aligned for the header: check the copy, before it is published.
  if (bytes.size() < packet_payload_offset || bytes.size() > ring_.packet_size)
    fail("corrupt packet from node {} for {}: {} bytes", source_node_, destination(), bytes.size());
  std::memcpy(static_cast<void*>(ring_.packet(channel_, sequence)), bytes.data(), bytes.size());
  on_notice(sequence, bytes.size());
}

void inbound::publish_next() {
  early_[expected_ % ring_.packets] = 0;
  const uint64_t sequence = expected_++;
  if (!arrivals_) return;
  ring_.publish(channel_, sequence);
  fetch_add_release<scope::system>(arrivals_, uint64_t{1});  // [L1]
}

bool inbound::send_credit(const plane_header& from) {
  if (freed_ == reported_freed_ && applied_ == reported_applied_) return false;
  reported_freed_ = freed_;
  reported_applied_ = applied_;
  plane_header credit = from;
  credit.word = plane_word::credit;
  credit.sink = ring_.sink;
  credit.a = freed_;
  credit.b = applied_;
  back_->send(credit, {});
  return true;
}

bool inbound::report(const plane_header& from) {
  while (applied_ != expected_ && ring_.is_done(channel_, applied_)) ++applied_;
  freed_ = applied_;
  return send_credit(from);
}

void inbound::ask_flush(uint64_t sequence) {
  if (sequence > freed_ + ring_.packets)
    fail("node {} waits for packet {} for {}, which it may not have sent: {} are freed", source_node_, sequence, destination(), freed_);
  flush_below_ = std::max(flush_below_, sequence);
}

void inbound::forwarded(std::vector<position> until) {
  waiting_.push_back(std::move(until));
  at = {};
  ++freed_;
}

bool inbound::report_transit(const plane_header& from) {
  const auto hurry = [](position& p) { return p.to->hurry(p); };
  for (hurried_ = std::max(hurried_, applied_); hurried_ < std::min(flush_below_, freed_); ++hurried_) {
    auto& until = waiting_[hurried_ - applied_];
    if (!std::all_of(until.begin(), until.end(), hurry)) break;
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

std::string inbound::destination() const {
  return ring_.sink == transit_sink ? std::string("other nodes") : fmt::format("PE {}", pe_of_sink(ring_.sink));
}

std::string inbound::describe() const {
  return fmt::format("from node {} to {}: {} packets arrived, {} freed, {} applied", source_node_, destination(), expected_, freed_,
                     applied_);
}

}  // namespace gravel
