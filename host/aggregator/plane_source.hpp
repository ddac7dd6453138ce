// One queue of one local PE, as a plane consumes it: how far it has come, and who waits for what lay in it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "host/aggregator/plane_routes.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/queue_consumer.hpp"

namespace gravel {

class plane_source {
 public:
  plane_source(uint32_t of_pe, uint32_t of_kind, const queue& from, uint32_t plane, uint32_t n_sinks)
      : pe(of_pe), kind(of_kind), q(from), slots(from, plane), plane_(plane), puts_(from.shape.slots), is_touched_(n_sinks) {}

  const uint32_t pe, kind;
  const queue q;
  queue_consumer slots;
  uint32_t row = 0, message = 0, unit_at = 0;  ///< progress within the slot at hand
  uint64_t freed_seen = ~0ull, freed_at = 0;   ///< of a channel that alone has rows waiting: packets freed, and when that last changed
  uint64_t waits_since = 0;                    ///< time at which the row at hand began to wait for credits; 0: it does not

  /// Puts under way from the slot at hand; it is not given back before they are done.
  uint32_t& puts() { return puts_[slots.next() & (q.shape.slots - 1)]; }
  /// Gives slots back to the producers, in order, up to the first from which puts are under way.
  void give_back() {
    while (slots.held() != 0 && puts_[slots.first_held() & (q.shape.slots - 1)] == 0) slots.give_back();
  }

  /// Does anything that goes by another channel than `to` wait behind the row at hand? Looks at each slot once as long as there is nothing.
  bool holds_more_than(const outbound& to, const plane_routes& routes) {
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

  /// Throws gravel::error if the PE has filled the slot with what is none.
  void check(const slot_header* slot, uint64_t packet_size) const {
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
  /// Messages for this sink were taken.
  void touch(uint32_t sink) {
    if (is_touched_[sink]) return;
    is_touched_[sink] = 1;
    touched_.push_back(sink);
  }
  void notice_flush_target() { flush_seen_ = std::max(flush_seen_, slots.flush_target()); }
  /// Begins flushes that are due, hurries what they wait for, and ends those for which all is applied: then true. `number` counts
  /// the plane's flushes.
  bool step_flushes(const plane_routes& routes, uint64_t& number) {
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
  bool has_flushes() const { return flush_seen_ > flush_started_ || !flushes_.empty(); }
  size_t flushes_pending() const { return flushes_.size(); }
  /// Empty if there is nothing to say.
  std::string describe() const {
    const bool waiting = slots.arrived() != nullptr;
    if (!slots.taken() && !waiting && !flush_seen_) return {};
    return fmt::format("  PE {} {}: {} slots taken, {} of them being sent, {}, flush asked below ticket {}\n", pe,
                       name_of(static_cast<queue_kind>(kind)), slots.taken(), slots.held(),
                       waiting ? fmt::format("slot of ticket {} waits at row {}", slots.next(), row) : "none waits", flush_seen_);
  }

 private:
  /// A flush that has begun: done when all that lies at these places is applied.
  struct flush {
    uint64_t target;
    std::vector<position> until;
    bool hurried = false;
  };
  /// Every ticket below the target is taken, so its messages are in packets or in a backlog.
  void begin_flush(const plane_routes& routes, uint64_t number) {
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

  uint32_t plane_;
  std::vector<uint32_t> puts_;       ///< by slot
  const outbound* alike_ = nullptr;  ///< slots at hand hold nothing but for this channel, those of tickets below `alike_below_`
  uint64_t alike_below_ = 0;
  uint64_t flush_seen_ = 0;     ///< highest flush target met
  uint64_t flush_started_ = 0;  ///< highest target whose packets were closed
  /// Sinks of the messages that were taken since the last flush began: what the next one concerns.
  std::vector<uint32_t> touched_;
  std::vector<uint8_t> is_touched_;  ///< by sink
  std::deque<flush> flushes_;
};

}  // namespace gravel
