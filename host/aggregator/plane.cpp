#include "host/aggregator/plane.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/queue_consumer.hpp"

namespace gravel {
namespace {

uint32_t index_in(const std::vector<uint32_t>& in, uint32_t what) {
  return static_cast<uint32_t>(std::lower_bound(in.begin(), in.end(), what) - in.begin());
}
uint32_t channel_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return index_in(s.nodes.sources_of(node), source) * static_cast<uint32_t>(s.values.aggregator_threads) + plane;
}
uint32_t transit_channel_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return index_in(s.nodes.transit_sources_of(node), source) * static_cast<uint32_t>(s.values.aggregator_threads) + plane;
}
landing_shape transit_shape(const node_setup& s, uint32_t node) {
  return {static_cast<uint32_t>(s.nodes.transit_sources_of(node).size() * s.values.aggregator_threads),
          static_cast<uint32_t>(s.values.packets_per_destination), s.values.packet_size};
}
/// Of the packets to one destination of another node.
uint64_t staging_bytes_each(const node_setup& s) { return s.values.packets_per_destination * s.values.packet_size; }

}  // namespace

remote_slots remote_slots_of(const node_setup& s, uint32_t node, uint32_t sink, uint32_t source, uint32_t plane) {
  const segment_shape shape = make_segment_shape(s.values, s.nodes, node);
  return {index_in(s.nodes.pes_of(node), pe_of_sink(sink)),
          (sink & 1) * shape.landing_bytes() + shape.landing().slot_at(channel_of(s, node, source, plane), 0)};
}

remote_slots remote_transit_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return {static_cast<uint32_t>(s.nodes.pes_of(node).size()),
          transit_shape(s, node).slot_at(transit_channel_of(s, node, source, plane), 0)};
}

uint64_t transit_bytes(const node_setup& s) {
  return transit_shape(s, s.node).bytes();
}

uint64_t staging_bytes(const node_setup& s) {
  uint64_t destinations = s.nodes.transits_of(s.node).size();
  for (uint32_t node : s.nodes.targets_of(s.node))
    if (node != s.node) destinations += 2 * s.nodes.pes_of(node).size();
  return destinations * staging_bytes_each(s);
}

/// One queue of one local PE, as this plane consumes it.
struct plane::source {
  uint32_t pe, kind;
  queue q;
  queue_consumer slots;
  uint64_t flush_seen = 0;     ///< highest flush target met
  uint64_t flush_started = 0;  ///< highest target whose packets were closed
  uint32_t row = 0, message = 0, unit_at = 0;  ///< progress within the slot at hand
  uint64_t waits_since = 0;    ///< time at which the row at hand began to wait for credits; 0: it does not
  /// Sinks of the messages that were taken since the last flush began: what the next one concerns.
  std::vector<uint32_t> touched;
  std::vector<uint8_t> is_touched;  ///< by sink
  /// A flush that has begun: done when all that lies at these places is applied.
  struct flush {
    uint64_t target;
    std::vector<position> until;
    bool hurried = false;
  };
  std::deque<flush> flushes;
  bool flush_is_due() const { return flush_seen > flush_started && slots.next() >= flush_seen; }
};

plane::plane(const node_setup& setup, uint32_t index, std::vector<remote_link*> links, char* staging, char* transit)
    : setup_(setup), index_(index) {
  const topology& nodes = setup.nodes;
  const uint32_t me = setup.node, packets = static_cast<uint32_t>(setup.values.packets_per_destination);
  const outbound::common common{me,           index, packets, setup.values.packet_size, setup.values.eager_size,
                                setup.spill, &stats_,  setup.fault};
  counts_ = &setup.local[0]->control()->counts[index];
  stats_words_ = setup.local[0]->control()->stats[index];

  // Local sinks, and channels from other nodes into them.
  route_.resize(nodes.n_pes() * 2);
  inbound_of_.assign(nodes.n_nodes(), std::vector<inbound*>(nodes.n_pes() * 2));
  outbound_to_.assign(nodes.n_nodes(), std::vector<outbound*>(nodes.n_pes() * 2));
  transit_of_.resize(nodes.n_nodes());
  transit_to_.resize(nodes.n_nodes());
  for (pe_segment* segment : setup.local)
    for (sink_kind kind : {sink_kind::device, sink_kind::host}) {
      const landing ring = segment->landing_of(kind);
      uint64_t* arrivals = &segment->control()->arrivals[static_cast<uint32_t>(kind)].packets;
      for (uint32_t from : nodes.sources_of(me)) {
        const uint32_t channel = channel_of(setup, me, from, index);
        if (from == me) {
          outbounds_.push_back(std::make_unique<outbound>(common, ring, channel, arrivals));
          route_[ring.sink] = outbounds_.back().get();
        } else {
          inbounds_.push_back(std::make_unique<inbound>(ring, channel, arrivals, from, *links[from]));
          inbound_of_[from][ring.sink] = inbounds_.back().get();
        }
      }
    }

  // Sinks of other nodes, sent to directly.
  const uint64_t staging_each = staging_bytes_each(setup);
  for (uint32_t node : nodes.targets_of(me)) {
    if (node == me) continue;
    for (uint32_t pe : nodes.pes_of(node))
      for (uint32_t sink : {sink_of(pe, sink_kind::device), sink_of(pe, sink_kind::host)}) {
        outbounds_.push_back(std::make_unique<outbound>(common, sink, *links[node],
                                                        remote_slots_of(setup, node, sink, me, index), staging));
        staging += staging_each;
        route_[sink] = outbound_to_[node][sink] = outbounds_.back().get();
      }
  }

  // Intermediate nodes, and channels of nodes for which this one is intermediate.
  for (uint32_t node : nodes.transits_of(me)) {
    outbounds_.push_back(std::make_unique<outbound>(common, transit_sink, *links[node],
                                                    remote_transit_of(setup, node, me, index), staging));
    staging += staging_each;
    transit_to_[node] = outbounds_.back().get();
  }
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node)
    if (const uint32_t hop = nodes.next_hop(me, node); hop != node)
      for (uint32_t pe : nodes.pes_of(node))
        route_[sink_of(pe, sink_kind::device)] = route_[sink_of(pe, sink_kind::host)] = transit_to_[hop];
  const landing_shape forwarded = transit_shape(setup, me);
  const landing transit_ring{transit, nullptr, nullptr, forwarded.channels, forwarded.packets, forwarded.packet_size, transit_sink,
                             nodes.n_pes() * 2};
  for (uint32_t from : nodes.transit_sources_of(me)) {
    inbounds_.push_back(std::make_unique<inbound>(transit_ring, transit_channel_of(setup, me, from, index), nullptr,
                                                  from, *links[from]));
    transit_of_[from] = inbounds_.back().get();
  }

  // Handlers' queues first: what they hold must never wait behind new work.
  for (uint32_t order = 0; order < n_queue_kinds; ++order) {
    const uint32_t kind = n_queue_kinds - 1 - order;
    for (size_t i = 0; i < setup.local.size(); ++i) {
      sources_.push_back(std::make_unique<source>());
      sources_.back()->pe = nodes.pes_of(me)[i];
      sources_.back()->kind = kind;
      sources_.back()->q = setup.local[i]->queue_of(kind);
      sources_.back()->slots = queue_consumer(sources_.back()->q, index);
      sources_.back()->is_touched.resize(route_.size());
    }
  }
}

plane::~plane() = default;

void plane::mark_busy(outbound& o) {
  if (!o.listed) busy_out_.push_back(&o);
  o.listed = true;
}

void plane::mark_busy(inbound& in) {
  if (!in.listed) busy_in_.push_back(&in);
  in.listed = true;
}

bool plane::step(uint64_t now) {
  bool moved = false;
  // Credits first: they make room for what comes next.
  for (outbound* o : busy_out_) {
    if (o->is_local()) moved |= o->poll_done();
    if (o->has_backlog()) moved |= o->drain_backlog(now);
  }
  const plane_header from{plane_word::credit, setup_.node, 0, index_, 0, 0, 0};
  for (inbound* in : busy_in_) {
    if (in->is_transit()) {
      moved |= forward(*in, now);
      moved |= in->report_transit(from);
    } else {
      moved |= in->report(from);
    }
  }
  bool input = false;
  for (auto& s : sources_) input |= take_from(*s, now);
  if (input) last_input_ = now;
  moved |= input;
  moved |= close_due(now);
  moved |= finish_flushes();
  std::erase_if(busy_out_, [](outbound* o) { return !(o->listed = o->busy()); });
  std::erase_if(busy_in_, [](inbound* in) { return !(in->listed = in->busy()); });
  if (moved) publish_counts();
  return moved;
}

bool plane::receive(const plane_header& header, std::span<const std::byte> data, uint64_t now) {
  const uint32_t node = header.source_node;
  if (node >= setup_.nodes.n_nodes() || node == setup_.node || header.plane != index_)
    fail("a message claims to come from plane {} of node {}", header.plane, node);
  if (header.word == plane_word::credit) {
    outbound* to = header.sink == transit_sink                     ? transit_to_[node]
                   : header.sink < setup_.nodes.n_pes() * 2 ? outbound_to_[node][header.sink]
                                                            : nullptr;
    if (!to) fail("node {} sent a credit for sink {}, to which nothing was sent", node, header.sink);
    to->credit(header.a, header.b);
    if (to->has_backlog()) to->drain_backlog(now);
    publish_counts();
    return true;
  }
  if (header.word != plane_word::packet && header.word != plane_word::notice && header.word != plane_word::flush) return false;
  inbound* in = header.sink == transit_sink                     ? transit_of_[node]
                : header.sink < setup_.nodes.n_pes() * 2 ? inbound_of_[node][header.sink]
                                                         : nullptr;
  if (!in) fail("node {} sent a packet for sink {}, which is not here", node, header.sink);
  if (header.word == plane_word::flush) {
    if (!in->is_transit()) fail("node {} asks for a flush of packets for sink {}, which are not forwarded", node, header.sink);
    in->ask_flush(header.sequence);
  } else if (header.word == plane_word::packet)
    in->on_packet(header.sequence, data);
  else
    in->on_notice(header.sequence, header.a);
  mark_busy(*in);
  return true;
}

bool plane::take_from(source& s, uint64_t now) {
  constexpr int most_slots_a_round = 16;  // so that every queue gets its turn, and time is looked at
  bool moved = false;
  profile_range range;
  for (int i = 0; i < most_slots_a_round; ++i) {
    slot_header* slot = s.slots.arrived();
    if (!slot) break;
    range.begin("take slots");
    if (s.row == 0 && s.message == 0) check_slot(s, slot);
    const uint64_t before = taken_;
    const bool whole = take_slot(s, slot, now);
    moved |= taken_ != before || whole;
    // Published before `consumed`: a sample that sees the slot consumed sees its messages taken.
    store_release(&counts_->taken, taken_);
    if (!whole) {
      ++stats_[stat::stalls];
      break;
    }
    s.row = s.message = s.unit_at = 0;
    ++stats_[stat::slots_taken];
    s.slots.release();
  }
  notice_flush_target(s);
  return moved;
}

void plane::check_slot(const source& s, const slot_header* slot) const {
  uint64_t units = 0;
  bool sound = slot->n_rows <= s.q.shape.max_rows && slot->n_units <= s.q.shape.payload_units;
  const unit* const payload = s.q.payload(const_cast<slot_header*>(slot));
  for (uint32_t r = 0; sound && r < slot->n_rows; ++r) {
    const message_row& row = s.q.rows(const_cast<slot_header*>(slot))[r];
    const uint64_t at = units;
    units += uint64_t{row.messages} * row.units;
    sound = row.sink < route_.size() && row.units != 0 && row.units <= packet_capacity_units(setup_.values.packet_size) &&
            units <= slot->n_units;
    if (sound && row.units > max_small_units && row.messages != 1)
      sound = row.units <= max_am_units && !is_bulk(op_of(payload[at].word[0]));
  }
  if (!sound || units != slot->n_units)
    fail("PE {} handed over a corrupt slot in its {}: {} rows, {} units", s.pe, name_of(static_cast<queue_kind>(s.kind)),
         slot->n_rows, slot->n_units);
}

bool plane::take_slot(source& s, slot_header* slot, uint64_t now) {
  const message_row* rows = s.q.rows(slot);
  const unit* payload = s.q.payload(slot);
  for (; s.row < slot->n_rows; ++s.row) {
    const message_row row = rows[s.row];
    outbound& to = route(row.sink);
    const unit* from = payload + s.unit_at;
    uint32_t took = row.messages - s.message;
    mark_busy(to);
    if (is_handler_queue(s.kind)) {
      if (!to.append_or_spill(row.sink, from, took, row.units, now)) spill_exhausted(s, from);
    } else {
      // What waits already goes first, or the backlog might never shrink.
      took = to.has_backlog() ? 0 : to.append(row.sink, from, took, row.units, now);
      if (const uint32_t rest = row.messages - s.message - took; rest != 0)
        took += wait_or_put_aside(s, to, row.sink, from + uint64_t{took} * row.units, rest, row.units, now);
    }
    if (took != 0 && !s.is_touched[row.sink]) {
      s.is_touched[row.sink] = 1;
      s.touched.push_back(row.sink);
    }
    taken_ += took;
    stats_[stat::messages_taken] += took;
    const uint32_t pe = pe_of_sink(row.sink);
    if (pe == s.pe) stats_[stat::messages_to_self] += took;
    if (setup_.nodes.node_of(pe) != setup_.node) stats_[stat::messages_off_node] += took;
    s.message += took;
    s.unit_at += took * row.units;
    if (s.message != row.messages) return false;
    s.message = 0;
    s.waits_since = 0;
  }
  return true;
}

/// A destination without credits may be busy for a moment, or for long. So a queue waits for it, but not longer than packets
/// wait to be filled; then what is for that destination is put aside, as long as there is room, and the others go on.
uint32_t plane::wait_or_put_aside(source& s, outbound& to, uint32_t sink, const unit* from, uint32_t messages, uint32_t units,
                                  uint64_t now) {
  if (!to.has_aside()) {
    if (s.waits_since == 0) s.waits_since = now;
    if (now - s.waits_since < setup_.values.timeout_us) return 0;
  }
  return to.put_aside(sink, from, messages, units);
}

void plane::spill_exhausted(const source& s, const unit* message) const {
  const uint64_t w0 = message->word[0];
  std::string what = name_of(op_of(w0));
  if (op_of(w0) == op::am) {
    const std::string name = setup_.handler_name ? setup_.handler_name(handler_of(w0)) : "";
    what += " of handler '" + (name.empty() ? fmt::format("id {:#x}", handler_of(w0)) : name) + "'";
  }
  fail("handlers of PE {} send faster than their destinations apply: {} exceeds GRAVEL_SPILL_SIZE ({} bytes); raise it, "
       "or let the handler send less",
       s.pe, what, setup_.spill->limit);
}

bool plane::forward(inbound& in, uint64_t now) {
  bool moved = false;
  profile_range range;
  while (const packet_header* packet = in.next_to_forward()) {
    range.begin("forward packets");
    const message_row* table = rows_of(packet);
    for (; in.at.row < packet->n_rows; ++in.at.row) {
      const message_row row = table[in.at.row];
      outbound& to = route(row.sink);
      const uint32_t node = setup_.nodes.node_of(pe_of_sink(row.sink));
      if (setup_.nodes.next_hop(setup_.node, node) != node)
        fail("a packet for PE {} came by a third node", pe_of_sink(row.sink));
      mark_busy(to);
      const unit* const from = payload_of(packet) + in.at.unit;
      const uint32_t rest = row.messages - in.at.message;
      // Behind what local queues have put aside, which may never end.
      const uint32_t took = to.has_backlog() ? to.put_aside(row.sink, from, rest, row.units)
                                             : to.append(row.sink, from, rest, row.units, now);
      moved |= took != 0;
      taken_ += took;
      stats_[stat::messages_forwarded] += took;
      in.at.message += took;
      in.at.unit += took * row.units;
      if (in.at.message != row.messages) return moved;
      in.at.message = 0;
    }
    store_release(&counts_->taken, taken_);  // before the credit, which lets the sender count them as acknowledged
    // Only where this packet's messages went, and these are final destinations: waiting for what other intermediate
    // nodes do would let two nodes wait for each other.
    std::vector<position> until;
    for (uint32_t i = 0; i < packet->n_rows; ++i) until.push_back(route(table[i].sink).last());
    if (packet->flush) in.ask_flush(packet->sequence + 1);
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
    } else if (!o->in_flight() && now - last_input_ >= setup_.values.idle_us) {
      o->close(close_cause::idle);
    } else {
      continue;
    }
    moved = true;
  }
  return moved;
}

void plane::notice_flush_target(source& s) {
  s.flush_seen = std::max(s.flush_seen, s.slots.flush_target());
}

bool plane::finish_flushes() {
  profile_range range;
  bool moved = false;
  const auto hurry = [](position& p) { return p.to->hurry(p); };
  const auto applied = [](position& p) { return p.to->is_applied(p); };
  for (auto& s : sources_) {
    // Start: every ticket below the target is taken, so its messages are in packets or in a backlog.
    if (s->flush_is_due()) {
      range.begin("flush");
      s->flush_started = s->flush_seen;
      s->flushes.push_back({s->flush_seen, {}});
      ++flush_number_;
      for (uint32_t sink : s->touched) {
        s->is_touched[sink] = 0;
        outbound& to = route(sink);
        // Many sinks may lie behind one intermediate node.
        if (std::exchange(to.listed_by_flush, flush_number_) != flush_number_) s->flushes.back().until.push_back(to.last());
      }
      s->touched.clear();
    }
    for (auto& f : s->flushes) {
      std::erase_if(f.until, applied);
      if (!f.hurried) f.hurried = std::all_of(f.until.begin(), f.until.end(), hurry);
    }
    // Finish: in order, so flush_done is monotonic.
    while (!s->flushes.empty() && s->flushes.front().until.empty()) {
      range.begin("flush");
      store_release(&s->q.control->plane[index_].flush_done, s->flushes.front().target);
      s->flushes.pop_front();
      moved = true;
    }
  }
  return moved;
}

void plane::publish_counts() {
  uint64_t acked = 0;
  for (const auto& o : outbounds_) acked += o->acked_messages();
  store_release(&counts_->taken, taken_);
  store_release(&counts_->acked, acked);
  for (uint32_t i = 0; i < n_stats; ++i) store_relaxed(&stats_words_[i], stats_.value[i]);
}

bool plane::busy() const {
  return !busy_in_.empty() || !busy_out_.empty() ||
         std::any_of(sources_.begin(), sources_.end(),
                     [](const auto& s) { return s->flush_seen > s->flush_started || !s->flushes.empty(); });
}

std::string plane::describe() const {
  size_t flushes = 0;
  for (const auto& s : sources_) flushes += s->flushes.size();
  std::string text = fmt::format("plane {} of node {}: {} messages taken, {} flushes pending\n", index_, setup_.node,
                                 taken_, flushes);
  for (const auto& s : sources_) {
    const bool waiting = s->slots.arrived() != nullptr;
    if (s->slots.taken() || waiting || s->flush_seen)
      text += fmt::format("  PE {} {}: {} slots taken, {}, flush asked below ticket {}\n", s->pe,
                          name_of(static_cast<queue_kind>(s->kind)), s->slots.taken(),
                          waiting ? fmt::format("slot of ticket {} waits at row {}", s->slots.next(), s->row) : "none waits",
                          s->flush_seen);
  }
  for (const outbound* o : busy_out_) text += "  " + o->describe() + "\n";
  for (const inbound* in : busy_in_) text += "  " + in->describe() + "\n";
  return text;
}

}  // namespace gravel
