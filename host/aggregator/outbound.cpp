#include "host/aggregator/outbound.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>

#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel::detail {

outbound::outbound(const common& c, landing ring, uint32_t stream, uint64_t* arrivals)
    : c_(c), sink_(ring.sink), ring_(ring), stream_(stream), arrivals_(arrivals), counts_(c.packets) {}

outbound::outbound(const common& c, uint32_t sink, remote_link& link, remote_slots remote, char* staging)
    : c_(c),
      sink_(sink),
      link_(&link),
      remote_(remote),
      staging_(staging),
      puts_pieces_(c.zero_copy_size != 0 && !link.prefers_messages()),
      counts_(c.packets) {}

char* outbound::slot_memory(uint64_t sequence) const {
  return is_local() ? reinterpret_cast<char*>(ring_.packet(stream_, sequence))
                    : staging_ + sequence % c_.packets * c_.packet_size;
}

uint64_t outbound::landing_at(uint64_t at) const {
  return remote_.offset + landing_shape{1, c_.packets, c_.packet_size}.slot_at(0, sequence_) + sizeof(landing_header) +
         at;
}

/// Puts the bytes copied behind the last piece. Those before the first piece go with header and table.
void outbound::put_copied() {
  if (head_ == 0) head_ = std::max<uint64_t>(copied_to_, sizeof(packet_header));
  else if (copied_to_ > copied_from_)
    link_->put(slot_memory(sequence_) + copied_from_, copied_to_ - copied_from_, remote_.region,
               landing_at(copied_from_), nullptr);
}

/// Puts a piece from the queue's slot to its place at `at` in the landing slot.
void outbound::put_piece(const uint32_t* from, uint64_t at, uint64_t bytes, uint32_t& puts) {
  put_copied();
  ++puts;
  link_->put(from, bytes, remote_.region, landing_at(at), &puts);
  copied_from_ = copied_to_ = at + bytes;
  (*c_.stats)[stat::bytes_from_slots] += bytes;
}

uint32_t outbound::append(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages, uint64_t now,
                          uint32_t* puts) {
  const bool may_put = puts && puts_pieces_;
  uint32_t taken = 0;
  while (taken < messages) {
    if (!writer_.is_open()) {
      if (!can_open()) break;
      writer_.open(slot_memory(sequence_), c_.packet_size);
      head_ = copied_from_ = copied_to_ = 0;
      opened_at_ = now;
    }
    const uint32_t* const next = from + uint64_t{taken} * kind.words;
    const uint32_t most = c_.together == aggregation::messages ? 1 : messages - taken;
    const packet_writer::place to = writer_.reserve(sink, kind, next, most);
    if (to.messages != 0) {
      const auto at = static_cast<uint64_t>(reinterpret_cast<char*>(to.at) - reinterpret_cast<char*>(writer_.packet()));
      const uint64_t bytes = to.messages * bytes_of(kind);
      if (may_put && bytes >= c_.zero_copy_size) {
        put_piece(next, at, bytes, *puts);
      } else {
        std::memcpy(to.at, next, bytes);
        copied_to_ = at + bytes;
      }
    }
    taken += to.messages;
    if (taken == messages && c_.together == aggregation::packets) break;
    if (writer_.empty())
      fail("a message of {} bytes does not fit into a packet of {} bytes", bytes_of(kind), c_.packet_size);
    close(close_cause::full);
  }
  return taken;
}

bool outbound::append_or_spill(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages,
                               uint64_t now) {
  const uint32_t taken = has_backlog() ? 0 : append(sink, kind, from, messages, now);
  if (taken == messages) return true;
  from += uint64_t{taken} * kind.words;
  messages -= taken;
  (*c_.stats)[stat::messages_spilled] += messages;
  const auto is_answer_at = [&](uint32_t i) {
    return kind.is_wide() && is_answer(op_of(units_at(from + uint64_t{i} * kind.words)->word[0]));
  };
  // Takes neighbouring messages of one account together.
  while (messages != 0) {
    const bool answer = is_answer_at(0);
    uint32_t n = 1;
    while (n < messages && is_answer_at(n) == answer) ++n;
    const uint64_t bytes = n * bytes_of(kind);
    std::atomic<uint64_t>& account = answer ? c_.spill->answers : c_.spill->used;
    if (account.fetch_add(bytes) + bytes > c_.spill->limit && !answer) return false;
    spill(sink, kind, from, n, account);
    from += uint64_t{n} * kind.words;
    messages -= n;
  }
  return true;
}

void outbound::spill(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages,
                     std::atomic<uint64_t>& account) {
  waited_ += messages;
  // The size of a piece is limited, so that its memory is freed even if the backlog never becomes empty.
  constexpr uint64_t most_words = 16384;
  if (backlog_.empty() || backlog_.back().sink != sink || backlog_.back().kind != kind ||
      backlog_.back().account != &account || backlog_.back().data.size() >= most_words)
    backlog_.push_back({sink, kind, &account, {}, 0});
  backlog_.back().data.insert(backlog_.back().data.end(), from, from + uint64_t{messages} * kind.words);
}

uint32_t outbound::add_to_backlog(uint32_t sink, const row_kind& kind, const uint32_t* from, uint32_t messages) {
  const uint64_t limit = uint64_t{c_.packets} * c_.packet_size, each = bytes_of(kind);
  const uint64_t room = deferred_bytes_ < limit ? (limit - deferred_bytes_) / each : 0;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(messages, room));
  if (n == 0) return 0;
  deferred_bytes_ += n * each;
  spill(sink, kind, from, n, deferred_bytes_);
  return n;
}

/// True if these messages have left the backlog. Then they lie in the packets closed so far, or in the open one.
bool outbound::is_settled(position& p) const {
  if (p.backlog == 0) return true;
  if (drained_ < p.backlog) return false;
  p.backlog = 0;
  p.packets = sequence_ + has_open_messages();
  return true;
}

bool outbound::is_applied(position& p) { return is_settled(p) && applied_ >= p.packets; }

bool outbound::send_now(position& p) {
  if (!is_settled(p)) return false;
  if (p.packets > sequence_) close(close_cause::flush);
  if (sink_ == transit_sink && applied_ < p.packets && requested_ < p.packets) {
    link_->send({plane_message::flush, c_.node, sink_, c_.plane, p.packets, 0, 0}, {});
    requested_ = p.packets;
  }
  return true;
}

bool outbound::drain_backlog(uint64_t now) {
  bool moved = false;
  while (!backlog_.empty()) {
    piece& p = backlog_.front();
    // Bulk messages share no row, so a piece that may hold them is appended message by message.
    const bool may_be_bulk = p.kind.is_wide() && p.kind.units() > max_small_units;
    const uint32_t rest = may_be_bulk ? 1 : static_cast<uint32_t>((p.data.size() - p.taken) / p.kind.words);
    const uint32_t taken = append(p.sink, p.kind, p.data.data() + p.taken, rest, now);
    if (taken == 0) break;
    moved = true;
    p.taken += uint64_t{taken} * p.kind.words;
    drained_ += taken;
    p.account->fetch_sub(taken * bytes_of(p.kind));
    if (p.taken == p.data.size()) backlog_.pop_front();
  }
  return moved;
}

void outbound::close(close_cause cause) {
  if (!has_open_messages()) return;
  const profile_range range("send packet");
  counts_[sequence_ % c_.packets] = writer_.messages();
  const bool flush = cause == close_cause::flush;
  const uint64_t whole = writer_.bytes(), n_rows = writer_.rows();
  packet_header* packet = writer_.close(sequence_, sink_, c_.node, c_.plane, flush);
  if (c_.fault && c_.fault->corrupts_packet_for(pe_of_sink(sink_))) rows_of(packet)->kind.words ^= 0x5555;
  stats_row& s = *c_.stats;
  ++s[stat::packets];
  s[stat::packet_bytes] += whole;
  ++s[static_cast<stat>(static_cast<uint32_t>(stat::packets_full) + static_cast<uint32_t>(cause))];

  if (is_local()) {
    ring_.publish(stream_, sequence_);
    fetch_add_release<scope::system>(arrivals_, uint64_t{1});  // [L1]
    ++s[stat::packets_local];
  } else if (head_ == 0 && (whole <= c_.eager_size || link_->prefers_messages())) {
    link_->send_packet({plane_message::packet, c_.node, sink_, c_.plane, sequence_, whole, 0},
                       {reinterpret_cast<const std::byte*>(packet), whole});
    ++s[stat::packets_eager];
  } else {
    uint64_t bytes = whole;
    if (head_ != 0) {
      put_copied();
      bytes = std::max(head_, sizeof(packet_header) + n_rows * sizeof(message_row));
    }
    link_->put_and_notify(packet, bytes, remote_.region, landing_at(0),
                          {plane_message::notice, c_.node, sink_, c_.plane, sequence_, whole, 0});
    ++s[stat::packets_put];
  }
  ++sequence_;
  if (flush) requested_ = sequence_;  // the packet's flag asks for a flush of all packets up to it
}

bool outbound::poll_done() {
  uint64_t done = applied_;
  while (done != sequence_ && ring_.is_done(stream_, done)) ++done;
  if (done == applied_) return false;
  advance(done, done);
  return true;
}

void outbound::credit(uint64_t freed, uint64_t applied) {
  if (freed < freed_ || freed > sequence_ || applied < applied_ || applied > freed)
    fail("a credit for sink {} says {} freed, {} applied, where {} were sent, {} freed, {} applied", sink_, freed,
         applied, sequence_, freed_, applied_);
  advance(freed, applied);
}

void outbound::advance(uint64_t freed, uint64_t applied) {
  // The slot of a forwarded packet is free before its messages are applied, and then its count may be overwritten. So
  // the messages of a transit stream count as acknowledged when the packet is freed, and its `applied` only delays
  // flushes. Quiescence stays right, because the intermediate node counts the messages that it took over as its own.
  for (; freed_ != freed; ++freed_) acked_ += counts_[freed_ % c_.packets];
  applied_ = applied;
}

std::string outbound::describe() const {
  std::string destination = "an intermediate node";
  if (sink_ != transit_sink) destination = fmt::format("PE {}{}", pe_of_sink(sink_), sink_ & 1 ? " (host)" : "");
  return fmt::format(
      "to {}: {} packets sent, {} freed, {} applied, {} credits left, {} messages in the open packet, backlog of {} "
      "messages, {} bytes of it copied out of slots",
      destination, sequence_, freed_, applied_, c_.packets - (sequence_ - freed_),
      writer_.is_open() ? writer_.messages() : 0, waited_ - drained_, deferred_bytes_.load());
}

}  // namespace gravel::detail
