// One thread of an aggregator. Plane i takes every P-th slot of all local PEs' queues, appends runs to packets, sends
// them, and receives what the same plane of other nodes sends: planes share no mutable state, so they need no locks.
//
// Every call of step() does a bounded amount of work and never waits; the clock is a parameter.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/aggregator/inbound.hpp"
#include "host/aggregator/outbound.hpp"
#include "host/node/segment.hpp"
#include "lib/base/topology.hpp"

namespace gravel {

/// What all planes of an aggregator are given.
struct node_setup {
  topology nodes;
  uint32_t node = 0;
  settings values;                  ///< aggregator_threads resolved
  std::vector<pe_segment*> local;   ///< segments of the node's PEs, in order of PE
  spill_budget* spill = nullptr;
  injected_fault* fault = nullptr;  ///< may be missing
  /// Name of a handler id, for errors; may be empty.
  std::function<std::string(uint32_t)> handler_name;
};

/// Where the landing slots of (source node, plane) for a sink of `node` are, as seen from the source.
remote_slots remote_slots_of(const node_setup& local_view, uint32_t node, uint32_t sink, uint32_t source, uint32_t plane);
/// Same for the transit slots of an intermediate node.
remote_slots remote_transit_of(const node_setup&, uint32_t node, uint32_t source, uint32_t plane);
/// Bytes of one node's transit memory (all planes), and of one plane's staging memory.
uint64_t transit_bytes(const node_setup&);
uint64_t staging_bytes(const node_setup&);

class plane {
 public:
  /// `links[n]`: to node n (nullptr for this node). `staging` and `transit`: memory of the sizes above, registered.
  plane(const node_setup&, uint32_t index, std::vector<remote_link*> links, char* staging, char* transit);
  ~plane();

  /// One round. Returns true if anything moved. Throws gravel::error when the job cannot go on.
  bool step(uint64_t now_us);
  void count_busy(uint64_t us) { stats_[stat::busy_us] += us; }
  /// A message of the same plane of another node. Collective words are not handled here: false.
  bool receive(const plane_header&, std::span<const std::byte> data, uint64_t now_us);

  /// Something is owed: open packets, packets in flight, flushes not yet done.
  bool busy() const;
  /// Queues, packets, credits and counts, for the watchdog.
  std::string describe() const;

 private:
  struct source;  // one queue of one local PE

  bool take_from(source&, uint64_t now);
  bool take_slot(source&, slot_header*, uint64_t now);
  uint32_t wait_or_put_aside(source&, outbound&, uint32_t sink, const unit*, uint32_t messages, uint32_t units, uint64_t now);
  void check_slot(const source&, const slot_header*) const;
  [[noreturn]] void spill_exhausted(const source&, const unit*) const;
  bool forward(inbound&, uint64_t now);
  bool close_due(uint64_t now);
  bool finish_flushes();
  void notice_flush_target(source&);
  void mark_busy(outbound&);
  void mark_busy(inbound&);
  outbound& route(uint32_t sink) const { return *route_[sink]; }
  void publish_counts();

  const node_setup& setup_;
  uint32_t index_;
  stats_row stats_;
  std::vector<std::unique_ptr<outbound>> outbounds_;
  std::vector<outbound*> route_;                     ///< by sink
  std::vector<std::unique_ptr<inbound>> inbounds_;
  std::vector<std::vector<inbound*>> inbound_of_;    ///< by source node: by local sink
  std::vector<inbound*> transit_of_;                 ///< by source node
  std::vector<std::vector<outbound*>> outbound_to_;  ///< by node: sinks there, for credits
  std::vector<outbound*> transit_to_;                ///< by intermediate node
  std::vector<outbound*> busy_out_;
  std::vector<inbound*> busy_in_;
  std::vector<std::unique_ptr<source>> sources_;
  uint64_t last_input_ = 0;
  uint64_t taken_ = 0;
  uint64_t flush_number_ = 0;  ///< of the flush that began last
  plane_counts* counts_;
  uint64_t* stats_words_;
};

}  // namespace gravel
