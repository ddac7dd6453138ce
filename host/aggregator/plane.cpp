#include "host/aggregator/plane.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel::detail {

plane::plane(const node_setup& setup, uint32_t index, std::vector<remote_link*> links, char* staging, char* transit)
    : setup_(setup),
      index_(index),
      routes_(setup, index, links, staging, transit, stats_),
      counts_(&setup.local[0]->control()->counts[index]),
      stats_words_(setup.local[0]->control()->stats[index]) {
  const slot_limits limits{routes_.n_sinks(), packet_capacity_units(setup.values.packet_size)};
  // Handlers' queues come first: their messages must never wait behind new work.
  for (uint32_t order = 0; order < n_queue_kinds; ++order) {
    const uint32_t kind = n_queue_kinds - 1 - order;
    for (size_t i = 0; i < setup.local.size(); ++i) {
      const uint32_t pe = setup.nodes.pes_of(setup.node)[i];
      sources_.push_back(std::make_unique<plane_source>(pe, kind, setup.local[i]->queue_of(kind), index, limits,
                                                        setup.local[i]->messages_taken_by(index)));
    }
  }
}

bool plane::step(uint64_t now) {
  bool moved = false;
  // Credits come first: they make room for the rest of the round.
  for (outbound* o : busy_out_) {
    if (o->is_local()) moved |= o->poll_done();
    if (o->has_backlog()) moved |= o->drain_backlog(now);
  }
  const plane_header from{plane_message::credit, setup_.node, 0, index_, 0, 0, 0};
  for (inbound* in : busy_in_) {
    if (in->is_transit()) {
      moved |= forward(*in, now);
      moved |= in->report_transit(from);
    } else {
      moved |= in->report(from);
    }
  }
  bool input = false;
  is_stalled_ = false;
  for (auto& s : sources_) input |= take_from(*s, now);
  if (input) last_input_ = now;
  moved |= input;
  moved |= close_due(now);
  for (auto& s : sources_)
    if (s->has_flushes()) moved |= s->step_flushes(routes_, flush_number_);
  std::erase_if(busy_out_, [](outbound* o) { return !(o->listed = o->busy()); });
  std::erase_if(busy_in_, [](inbound* in) { return !(in->listed = in->busy()); });
  if (moved) publish_counts();
  return moved;
}

bool plane::receive(const plane_header& header, std::span<const std::byte> data, uint64_t now) {
  const uint32_t node = header.source_node;
  if (node >= setup_.nodes.n_nodes() || node == setup_.node || header.plane != index_)
    fail("a message claims to come from plane {} of node {}", header.plane, node);
  if (header.kind == plane_message::credit) {
    outbound* to = routes_.credited_by(node, header.sink);
    if (!to) fail("node {} sent a credit for sink {}, to which nothing was sent", node, header.sink);
    to->credit(header.a, header.b);
    if (to->has_backlog()) to->drain_backlog(now);
    publish_counts();
    return true;
  }
  if (header.kind != plane_message::packet && header.kind != plane_message::notice &&
      header.kind != plane_message::flush)
    return false;
  inbound* in = routes_.from(node, header.sink);
  if (!in) fail("node {} sent a packet for sink {}, which is not here", node, header.sink);
  if (header.kind == plane_message::flush) {
    if (!in->is_transit())
      fail("node {} asks for a flush of packets for sink {}, which are not forwarded", node, header.sink);
    in->request_flush(header.sequence);
  } else if (header.kind == plane_message::packet) in->on_packet(header.sequence, data);
  else in->on_notice(header.sequence, header.a);
  mark_busy(*in);
  return true;
}

bool plane::take_from(plane_source& s, uint64_t now) {
  constexpr int most_slots_a_round = 16;  // so that every queue gets its turn and the clock is read
  bool moved = false;
  profile_range range;
  s.release_slots();
  for (int i = 0; i < most_slots_a_round; ++i) {
    if (!s.slots.arrived()) break;
    range.begin("take slots");
    const uint64_t before = taken_;
    const bool whole = take_slot(s, now);
    moved |= taken_ != before || whole;
    // `taken` is published before or together with `consumed`. So a sample that sees the slot consumed sees its
    // messages taken.
    store_release(&counts_->taken, taken_);
    if (!whole) {
      ++stats_[stat::stalls];
      is_stalled_ = true;
      break;
    }
    ++stats_[stat::slots_taken];
    s.take();
    s.release_slots();
  }
  s.notice_flush_target();
  return moved;
}

bool plane::take_slot(plane_source& s, uint64_t now) {
  const slot_table& table = s.current_table();
  const unit* const payload = s.slots.payload(s.slots.next());
  // Slots of other queues are small, so their rows are always copied.
  uint32_t* const puts = s.kind == static_cast<uint32_t>(queue_kind::kernel_block) ? &s.puts() : nullptr;
  for (; s.row < table.n_rows; ++s.row) {
    const message_row row = table.rows[s.row];
    outbound& to = routes_.to(row.sink);
    const uint32_t* const from = words_at(payload + s.unit_at) + uint64_t{s.message} * row.kind.words;
    uint32_t took = row.messages - s.message;
    mark_busy(to);
    if (is_handler_queue(s.kind)) {
      if (!to.append_or_spill(row.sink, row.kind, from, took, now)) spill_exhausted(s, row.kind, from);
    } else {
      // The backlog goes first. Otherwise it might never shrink.
      took = to.has_backlog() ? 0 : to.append(row.sink, row.kind, from, took, now, puts);
      if (const uint32_t rest = row.messages - s.message - took; rest != 0)
        took += wait_or_add_to_backlog(s, to, row, from + uint64_t{took} * row.kind.words, rest, now);
    }
    if (took != 0) s.touch(row.sink);
    taken_ += took;
    stats_[stat::messages_taken] += took;
    const uint32_t pe = pe_of_sink(row.sink);
    s.count(pe, took);
    if (pe == s.pe) stats_[stat::messages_to_self] += took;
    if (setup_.nodes.node_of(pe) != setup_.node) stats_[stat::messages_off_node] += took;
    s.message += took;
    if (s.message != row.messages) return false;
    s.message = 0;
    s.unit_at += static_cast<uint32_t>(row.units());
    s.waits_since = 0;
  }
  return true;
}

/// A destination without credits may be busy for a moment or for long. So the queue first waits for it, at most as long
/// as a packet waits to be filled (GRAVEL_TIMEOUT_US). Then the rows for that destination go to the backlog as long as
/// it has room, and the rows behind them advance. If the queue has rows for no other destination, they stay in their
/// slot as long as the destination frees a packet now and then: from the slot they can be sent without a copy.
uint32_t plane::wait_or_add_to_backlog(plane_source& s, outbound& to, const message_row& row, const uint32_t* from,
                                       uint32_t messages, uint64_t now) {
  if (!s.holds_more_than(to, routes_)) {
    if (std::exchange(s.freed_seen, to.freed()) != to.freed()) s.freed_at = now;
    if (now - s.freed_at < setup_.values.timeout_us) return 0;
  } else if (!to.has_deferred_backlog()) {
    if (s.waits_since == 0) s.waits_since = now;
    if (now - s.waits_since < setup_.values.timeout_us) return 0;
  }
  return to.add_to_backlog(row.sink, row.kind, from, messages);
}

void plane::spill_exhausted(const plane_source& s, const row_kind& kind, const uint32_t* message) const {
  const op o = kind.is_wide() ? op_of(units_at(message)->word[0]) : kind.operation;
  std::string what = name_of(o);
  if (o == op::am) {
    const uint32_t handler = kind.is_wide() ? handler_of(units_at(message)->word[0]) : kind.handler;
    const std::string name = setup_.handler_name ? setup_.handler_name(handler) : "";
    what += " of handler '" + (name.empty() ? fmt::format("id {:#x}", handler) : name) + "'";
  }
  fail(
      "handlers of PE {} send faster than their destinations apply: {} exceeds GRAVEL_SPILL_SIZE ({} bytes); raise it, "
      "or let the handler "
      "send less",
      s.pe, what, setup_.spill->limit);
}

bool plane::forward(inbound& in, uint64_t now) {
  bool moved = false;
  profile_range range;
  while (const packet_table* packet = in.next_to_forward()) {
    range.begin("forward packets");
    for (; in.at.row < packet->header.n_rows; ++in.at.row) {
      const message_row row = packet->rows[in.at.row];
      outbound& to = routes_.to(row.sink);
      const uint32_t node = setup_.nodes.node_of(pe_of_sink(row.sink));
      if (setup_.nodes.next_hop(setup_.node, node) != node)
        fail("a packet for PE {} arrived to be forwarded, but this node is not on its route", pe_of_sink(row.sink));
      mark_busy(to);
      const uint32_t* const from =
          words_at(in.payload_to_forward() + in.at.unit) + uint64_t{in.at.message} * row.kind.words;
      const uint32_t rest = row.messages - in.at.message;
      // Goes behind the backlog of local queues, which may never become empty.
      const uint32_t took = to.has_backlog() ? to.add_to_backlog(row.sink, row.kind, from, rest)
                                             : to.append(row.sink, row.kind, from, rest, now);
      moved |= took != 0;
      taken_ += took;
      stats_[stat::messages_forwarded] += took;
      in.at.message += took;
      if (in.at.message != row.messages) return moved;
      in.at.message = 0;
      in.at.unit += static_cast<uint32_t>(row.units());
    }
    store_release(&counts_->taken, taken_);  // before the credit, after which the sender counts them as acknowledged
    // Waits only for the destinations of this packet's messages. These are final destinations: if a node waited for
    // what other intermediate nodes do, two nodes could wait for each other.
    std::vector<position> until;
    for (uint32_t i = 0; i < packet->header.n_rows; ++i) until.push_back(routes_.to(packet->rows[i].sink).last());
    if (packet->header.flush) in.request_flush(packet->header.sequence + 1);
    in.forwarded(std::move(until));
    moved = true;
  }
  return moved;
}

bool plane::close_due(uint64_t now) {
  bool moved = false;
  for (outbound* o : busy_out_) {
    if (!o->has_open_messages()) continue;
    if (now - o->opened_at() >= setup_.values.timeout_us) {
      o->close(close_cause::age);
    } else if (!o->in_flight() && (o->has_large_open() || now - last_input_ >= setup_.values.idle_us)) {
      o->close(close_cause::idle);
    } else {
      continue;
    }
    moved = true;
  }
  return moved;
}

void plane::publish_counts() {
  const uint64_t acked = routes_.acked_messages();
  store_release(&counts_->taken, taken_);
  store_release(&counts_->acked, acked);
  for (uint32_t i = 0; i < n_stats; ++i) store_relaxed(&stats_words_[i], stats_.value[i]);
}

bool plane::busy() const {
  return !busy_in_.empty() || !busy_out_.empty() ||
         std::any_of(sources_.begin(), sources_.end(), [](const auto& s) { return s->has_flushes(); });
}

std::string plane::describe() const {
  size_t flushes = 0;
  for (const auto& s : sources_) flushes += s->flushes_pending();
  std::string text =
      fmt::format("plane {} of node {}: {} messages taken, {} flushes pending\n", index_, setup_.node, taken_, flushes);
  for (const auto& s : sources_) text += s->describe();
  for (const outbound* o : busy_out_) text += "  " + o->describe() + "\n";
  for (const inbound* in : busy_in_) text += "  " + in->describe() + "\n";
  return text;
}

}  // namespace gravel::detail
