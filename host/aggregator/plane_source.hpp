// One queue of one local PE, as a plane consumes it: how far the plane has come, and which flushes wait.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host/aggregator/plane_routes.hpp"
#include "lib/base/error.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/queue_consumer.hpp"

namespace gravel::detail {

class plane_source {
 public:
  /// `messages_to`: counts the messages by the PE that receives them, for all queues of the PE.
  plane_source(uint32_t of_pe, uint32_t of_kind, const queue& from, uint32_t plane, const slot_limits& limits,
               std::span<uint64_t> messages_to)
      : pe(of_pe),
        kind(of_kind),
        q(from),
        slots(from, plane),
        plane_(plane),
        limits_(limits),
        messages_to_(messages_to),
        current_(from.shape.max_rows),
        examined_(from.shape.max_rows),
        puts_(from.shape.slots),
        is_touched_(limits.n_sinks) {}

  const uint32_t pe, kind;
  const queue q;
  queue_consumer slots;
  uint32_t row = 0, message = 0, unit_at = 0;  ///< progress within the current slot
  /// If all rows that wait leave by one stream: the packets that it has freed, and when that number last changed.
  uint64_t freed_seen = ~0ull, freed_at = 0;
  uint64_t waits_since = 0;  ///< when the current row began to wait for credits; 0: it does not wait

  /// Header and table of the current slot, which has arrived. They are read once. Throws gravel::error if they are not
  /// sound.
  const slot_table& current_table() {
    if (!has_read_ && !slots.read(slots.next(), limits_, current_))
      fail("PE {} handed over a corrupt slot in its {}: {} rows, {} units", pe, name_of(static_cast<queue_kind>(kind)),
           current_.n_rows, current_.n_units);
    has_read_ = true;
    return current_;
  }
  /// Advances to the next slot. All of this one was taken.
  void take() {
    row = message = unit_at = 0;
    has_read_ = false;
    slots.take();
  }
  /// Number of puts under way from the current slot. The slot does not return to the producers before it is 0.
  uint32_t& puts() { return puts_[slots.next() & (q.shape.slots - 1)]; }
  /// Returns slots to the producers, in order, up to the first slot from which puts are under way.
  void release_slots() {
    while (slots.unreleased() != 0 && puts_[slots.first_unreleased() & (q.shape.slots - 1)] == 0) slots.release();
  }

  /// True if a row behind the current one leaves by another stream than `to`. Reads each slot only once as long as
  /// there is no such row.
  bool holds_more_than(const outbound& to, const plane_routes& routes) {
    const uint64_t now = slots.next();
    if (std::exchange(same_stream_, &to) != &to || same_below_ < now) same_below_ = now;
    for (; slots.arrived(same_below_); same_below_ += q.shape.n_planes) {
      const bool is_later = same_below_ != now;
      // A slot that is not sound counts as something else. It is an error when its turn comes.
      if (is_later && !slots.read(same_below_, limits_, examined_)) return true;
      const slot_table& table = is_later ? examined_ : current_table();
      for (uint32_t r = is_later ? 0 : row + 1; r < table.n_rows; ++r)
        if (&routes.to(table.rows[r].sink) != &to) return true;
    }
    return false;
  }
  /// Records that messages for this sink were taken.
  void touch(uint32_t sink) {
    if (is_touched_[sink]) return;
    is_touched_[sink] = 1;
    touched_.push_back(sink);
  }
  /// Counts messages that were taken, for statistics.
  void count(uint32_t pe_to, uint32_t messages) { store_relaxed(&messages_to_[pe_to], messages_to_[pe_to] + messages); }
  void notice_flush_target() { flush_seen_ = std::max(flush_seen_, slots.flush_target()); }
  /// Begins flushes that are due, sends the messages that they wait for, and ends flushes whose messages are all
  /// applied. True if one has ended. `number` counts the plane's flushes.
  bool step_flushes(const plane_routes& routes, uint64_t& number) {
    profile_range range;
    bool ended = false;
    const auto send_now = [](position& p) { return p.to->send_now(p); };
    const auto applied = [](position& p) { return p.to->is_applied(p); };
    if (flush_seen_ > flush_started_ && slots.next() >= flush_seen_) {
      range.begin("flush");
      begin_flush(routes, ++number);
    }
    for (auto& f : flushes_) {
      std::erase_if(f.until, applied);
      if (!f.is_sent) f.is_sent = std::all_of(f.until.begin(), f.until.end(), send_now);
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
  /// Empty if there is nothing to report.
  std::string describe() const {
    const bool waiting = slots.arrived();
    if (!slots.taken() && !waiting && !flush_seen_) return {};
    return fmt::format("  PE {} {}: {} slots taken, {} of them being sent, {}, flush requested below ticket {}\n", pe,
                       name_of(static_cast<queue_kind>(kind)), slots.taken(), slots.unreleased(),
                       waiting ? fmt::format("slot of ticket {} waits at row {}", slots.next(), row) : "none waits",
                       flush_seen_);
  }

 private:
  /// A flush that has begun. It is done when the messages at all these positions are applied.
  struct flush {
    uint64_t target;
    std::vector<position> until;
    bool is_sent = false;  ///< nothing of it is in an open packet or a backlog
  };
  /// All tickets below the target are taken, so their messages are in packets or in a backlog.
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
  slot_limits limits_;
  std::span<uint64_t> messages_to_;  ///< in the segment; only this plane writes it
  slot_table current_, examined_;    ///< of the current slot; of a later one that is only examined
  bool has_read_ = false;            ///< current_ is of the current slot
  std::vector<uint32_t> puts_;       ///< by slot
  /// Slots from the current one to ticket `same_below_` have rows for this stream only.
  const outbound* same_stream_ = nullptr;
  uint64_t same_below_ = 0;
  uint64_t flush_seen_ = 0;     ///< highest flush target seen
  uint64_t flush_started_ = 0;  ///< highest target for which a flush has begun
  /// Sinks of the messages taken since the last flush began. The next flush waits for these.
  std::vector<uint32_t> touched_;
  std::vector<uint8_t> is_touched_;  ///< by sink
  std::deque<flush> flushes_;
};

}  // namespace gravel::detail
