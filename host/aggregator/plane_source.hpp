// One queue of one local PE, as a plane consumes it: how far it has come, and who waits for what lay in it.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "host/aggregator/plane_routes.hpp"
#include "lib/base/queue_consumer.hpp"

namespace gravel {

class plane_source {
 public:
  plane_source(uint32_t pe, uint32_t kind, const queue&, uint32_t plane, uint32_t n_sinks);

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
  bool holds_more_than(const outbound& to, const plane_routes&);

  /// Throws gravel::error if the PE has filled the slot with what is none.
  void check(const slot_header*, uint64_t packet_size) const;
  /// Messages for this sink were taken.
  void touch(uint32_t sink) {
    if (is_touched_[sink]) return;
    is_touched_[sink] = 1;
    touched_.push_back(sink);
  }
  void notice_flush_target();
  /// Begins flushes that are due, hurries what they wait for, and ends those for which all is applied: then true. `number` counts
  /// the plane's flushes.
  bool step_flushes(const plane_routes&, uint64_t& number);
  bool has_flushes() const { return flush_seen_ > flush_started_ || !flushes_.empty(); }
  size_t flushes_pending() const { return flushes_.size(); }
  /// Empty if there is nothing to say.
  std::string describe() const;

 private:
  /// A flush that has begun: done when all that lies at these places is applied.
  struct flush {
    uint64_t target;
    std::vector<position> until;
    bool hurried = false;
  };
  void begin_flush(const plane_routes&, uint64_t number);

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
