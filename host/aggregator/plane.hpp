// One thread of an aggregator. Plane i takes every P-th slot of all local PEs' queues, appends their rows to packets,
// and sends the packets. It receives what the same plane of other nodes sends. Planes share nothing that changes, so
// they need no locks.
//
// Each call of step() does a bounded amount of work and never waits. The clock is a parameter.
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
  /// `links[n]`: to node n (nullptr for this node). `staging` and `transit`: registered memory of the sizes that
  /// node_setup.hpp computes.
  plane(const node_setup&, uint32_t index, std::vector<remote_link*> links, char* staging, char* transit);

  /// One round. Returns true if anything moved. Throws gravel::error when the job cannot continue.
  bool step(uint64_t now_us);
  /// Statistics: adds `us` to the time that the thread spent on `what`.
  void count_time(stat what, uint64_t us) { stats_[what] += us; }
  /// After a step that moved nothing: the reason why the plane waits; nullopt: it has no work.
  std::optional<stat> waits_for() const {
    if (is_stalled_) return stat::no_credit_us;
    return busy() ? std::optional(stat::no_slot_us) : std::nullopt;
  }
  /// Takes a message from the same plane of another node. False: the message belongs to collectives, which are not
  /// handled here.
  bool receive(const plane_header&, std::span<const std::byte> data, uint64_t now_us);

  /// True if work is left: open packets, packets in flight, flushes not yet done.
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
  bool is_stalled_ = false;    ///< in the last round a slot was not taken as a whole
  uint64_t flush_number_ = 0;  ///< number of the flush that began last
  plane_counts* counts_;
  uint64_t* stats_words_;
};

}  // namespace gravel::detail
