#include "host/aggregator/plane_source.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"

namespace gravel {

plane_source::plane_source(uint32_t of_pe, uint32_t of_kind, const queue& from, uint32_t plane, uint32_t n_sinks)
    : pe(of_pe), kind(of_kind), q(from), slots(from, plane), plane_(plane), puts_(from.shape.slots), is_touched_(n_sinks) {}

void plane_source::check(const slot_header* slot, uint64_t packet_size) const {
  uint64_t units = 0;
  bool sound = slot->n_rows <= q.shape.max_rows && slot->n_units <= q.shape.payload_units;
  const unit* const payload = q.payload(const_cast<slot_header*>(slot));
  for (uint32_t r = 0; sound && r < slot->n_rows; ++r) {
    const message_row& row = q.rows(const_cast<slot_header*>(slot))[r];
    const uint64_t at = units;
    units += row.units();
    sound = row.sink < is_touched_.size() && is_sound(row.kind) && units_for(row.kind, 1) <= packet_capacity_units(packet_size) &&
            units <= slot->n_units;
    if (sound && row.messages > 1) sound = row.kind.units() <= max_am_units && !is_bulk_message(row.kind, words_at(payload + at));
  }
  if (!sound || units != slot->n_units)
    fail("PE {} handed over a corrupt slot in its {}: {} rows, {} units", pe, name_of(static_cast<queue_kind>(kind)), slot->n_rows,
         slot->n_units);
}

bool plane_source::holds_more_than(const outbound& to, const plane_routes& routes) {
  const uint64_t at_hand = slots.next();
  if (std::exchange(alike_, &to) != &to || alike_below_ < at_hand) alike_below_ = at_hand;
  for (; slot_header* const slot = slots.arrived(alike_below_); alike_below_ += q.shape.n_planes) {
    // Not checked yet: what is unsound counts as something else, and is found when its turn comes.
    if (slot->n_rows > q.shape.max_rows) return true;
    for (uint32_t r = alike_below_ == at_hand ? row + 1 : 0; r < slot->n_rows; ++r)
      if (const uint32_t sink = q.rows(slot)[r].sink; sink >= routes.n_sinks() || &routes.to(sink) != &to) return true;
  }
  return false;
}

void plane_source::notice_flush_target() { flush_seen_ = std::max(flush_seen_, slots.flush_target()); }

/// Every ticket below the target is taken, so its messages are in packets or in a backlog.
void plane_source::begin_flush(const plane_routes& routes, uint64_t number) {
  flush_started_ = flush_seen_;
  flushes_.push_back({flush_seen_, {}});
  for (uint32_t sink : touched_) {
    is_touched_[sink] = 0;
    outbound& to = routes.to(sink);
    // Many sinks may lie behind one intermediate node.
    if (std::exchange(to.listed_by_flush, number) != number) flushes_.back().until.push_back(to.last());
  }
  touched_.clear();
}

bool plane_source::step_flushes(const plane_routes& routes, uint64_t& number) {
  profile_range range;
  bool ended = false;
  const auto hurry = [](position& p) { return p.to->hurry(p); };
  const auto applied = [](position& p) { return p.to->is_applied(p); };
  if (flush_seen_ > flush_started_ && slots.next() >= flush_seen_) {
    range.begin("flush");
    begin_flush(routes, ++number);
  }
  for (auto& f : flushes_) {
    std::erase_if(f.until, applied);
    if (!f.hurried) f.hurried = std::all_of(f.until.begin(), f.until.end(), hurry);
  }
  // In order, so flush_done is monotonic.
  while (!flushes_.empty() && flushes_.front().until.empty()) {
    range.begin("flush");
    store_release(&q.control->plane[plane_].flush_done, flushes_.front().target);
    flushes_.pop_front();
    ended = true;
  }
  return ended;
}

std::string plane_source::describe() const {
  const bool waiting = slots.arrived() != nullptr;
  if (!slots.taken() && !waiting && !flush_seen_) return {};
  return fmt::format("  PE {} {}: {} slots taken, {} of them being sent, {}, flush asked below ticket {}\n", pe,
                     name_of(static_cast<queue_kind>(kind)), slots.taken(), slots.held(),
                     waiting ? fmt::format("slot of ticket {} waits at row {}", slots.next(), row) : "none waits", flush_seen_);
}

}  // namespace gravel
