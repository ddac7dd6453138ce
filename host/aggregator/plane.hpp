// One thread of an aggregator. Plane i takes every P-th slot of all local PEs' queues, appends runs to packets, sends
// them, and receives what the same plane of other nodes sends: planes share no mutable state, so they need no locks.
//
// Every call of step() does a bounded amount of work and never waits; the clock is a parameter.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/aggregator/node_setup.hpp"
#include "host/aggregator/plane_routes.hpp"
#include "host/aggregator/plane_source.hpp"

namespace gravel::detail {

class plane {
 public:
  /// `links[n]`: to node n (nullptr for this node). `staging` and `transit`: memory of the sizes that node_setup.hpp
  /// tells, registered.
  plane(const node_setup&, uint32_t index, std::vector<remote_link*> links, char* staging, char* transit);

  /// One round. Returns true if anything moved. Throws gravel::error when the job cannot go on.
  bool step(uint64_t now_us);
  /// What this thread did for the last `us`: statistics.
  void count_time(stat what, uint64_t us) { stats_[what] += us; }
  /// What it waits for, behind a step that moved nothing; nullopt: for nothing.
  std::optional<stat> waits_for() const {
    if (is_stalled_) return stat::full_us;
    return busy() ? std::optional(stat::dry_us) : std::nullopt;
  }
  /// A message of the same plane of another node. Collective words are not handled here: false.
  bool receive(const plane_header&, std::span<const std::byte> data, uint64_t now_us);

  /// Something is deferred: open packets, packets in flight, flushes not yet done.
  bool busy() const;
  /// Queues, packets, credits and counts, for the watchdog.
  std::string describe() const;

 private:
  bool take_from(plane_source&, uint64_t now);
  bool take_slot(plane_source&, uint64_t now);
  uint32_t wait_or_add_to_backlog(plane_source&, outbound&, const message_row&, const uint32_t* from, uint32_t messages,
                                  uint64_t now);
  [[noreturn]] void spill_exhausted(const plane_source&, const row_kind&, const uint32_t* message) const;
  bool forward(inbound&, uint64_t now);
  bool close_due(uint64_t now);
  template <class Stream>
  static void list(Stream& stream, std::vector<Stream*>& busy) {
    if (!std::exchange(stream.listed, true)) busy.push_back(&stream);
  }
  void mark_busy(outbound& o) { list(o, busy_out_); }
  void mark_busy(inbound& in) { list(in, busy_in_); }
  void publish_counts();

  const node_setup& setup_;
  uint32_t index_;
  stats_row stats_;
  plane_routes routes_;
  std::vector<outbound*> busy_out_;
  std::vector<inbound*> busy_in_;
  std::vector<std::unique_ptr<plane_source>> sources_;
  uint64_t last_input_ = 0;
  uint64_t taken_ = 0;
  bool is_stalled_ = false;    ///< in the last round a slot had to stay, at least in part
  uint64_t flush_number_ = 0;  ///< of the flush that began last
  plane_counts* counts_;
  uint64_t* stats_words_;
};

}  // namespace gravel::detail
