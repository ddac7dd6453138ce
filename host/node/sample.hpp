// A sample of a node: the record that its aggregator sends to gravel-top (host/aggregator/sample_socket.hpp). Counts
// are totals since the start of the job. They are read one after the other while it runs, so they need not fit together
// exactly.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "host/node/segment.hpp"
#include "host/node/stats.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

/// The sockets at which aggregators send samples have names that begin so.
constexpr const char* sample_sockets = "gravel-sample-";

/// One queue of a PE.
struct queue_sample {
  uint64_t slots;    ///< capacity
  uint64_t taken;    ///< slots that the aggregator has taken and released
  uint64_t waiting;  ///< slots that are published and not released
  uint64_t wanted;   ///< somebody waits until all slots below this ticket are applied
  uint64_t flushed;  ///< all slots below this ticket are applied, as far as somebody has asked for it
};

/// The landing ring of a sink.
struct landing_sample {
  uint64_t packets;  ///< capacity
  uint64_t arrived;
  uint64_t waiting;  ///< packets that have arrived and are not applied
};

/// The ring of the route `peer` to a PE.
struct ring_sample {
  uint64_t pe;
  uint64_t sent;     ///< chunks
  uint64_t applied;  ///< of these
};

struct pe_sample {
  uint32_t pe = 0;
  uint64_t process = 0;
  bool kernels = false;                 ///< its kernels run
  std::vector<queue_sample> queues;     ///< by queue_kind
  std::vector<landing_sample> landing;  ///< by sink_kind
  std::vector<uint64_t> messages_to;    ///< messages that the aggregator has taken, by PE; empty: the job is too large
  uint64_t call = 0;                    ///< number of the last collective call that it has begun
  std::string call_text;                ///< the call, if the PE waits in it; or empty
  std::string long_wait;                ///< what a kernel has waited for longer than GRAVEL_WATCHDOG_S; or empty
  // From the PE's report.
  uint64_t reported_us = 0;  ///< clock of the host; 0: there was no report
  uint64_t in_place = 0, to_peers = 0;
  std::vector<uint64_t> claimed;  ///< slots, by queue_kind
  std::vector<ring_sample> rings;
  static auto fields(auto& m) {
    return std::tie(m.pe, m.process, m.kernels, m.queues, m.landing, m.messages_to, m.call, m.call_text, m.long_wait,
                    m.reported_us, m.in_place, m.to_peers, m.claimed, m.rings);
  }
  void check(const wire_check& c) const {
    c.range("pe", pe, 0, max_pes - 1);
    c.range("the number of queues", queues.size(), n_queue_kinds, n_queue_kinds);
    c.range("the number of landing rings", landing.size(), 2, 2);
    c.range("the number of claimed words", claimed.size(), n_queue_kinds, n_queue_kinds);
    c.range("the number of rings", rings.size(), 0, max_peers);
  }
};

/// One plane of an aggregator.
struct plane_sample {
  uint64_t taken = 0, acked = 0;  ///< plane_counts
  std::vector<uint64_t> stats;    ///< a stats_row
  static auto fields(auto& m) { return std::tie(m.taken, m.acked, m.stats); }
  void check(const wire_check& c) const { c.range("the number of statistics", stats.size(), n_stats, n_stats); }
};

struct node_sample {
  static constexpr wire_kind kind = wire_kind::sample;
  uint32_t node = 0, n_nodes = 0, n_pes = 0;  ///< of the job
  uint64_t process = 0;                       ///< the aggregator
  uint64_t now_us = 0;                        ///< clock of the host
  std::vector<plane_sample> planes;
  std::vector<pe_sample> pes;  ///< of the node
  static auto fields(auto& m) { return std::tie(m.node, m.n_nodes, m.n_pes, m.process, m.now_us, m.planes, m.pes); }
  void check(const wire_check& c) const {
    c.range("the number of PEs", n_pes, 1, max_pes);
    c.range("the number of nodes", n_nodes, 1, n_pes);
    c.range("node", node, 0, n_nodes - 1);
    c.range("the number of planes", planes.size(), 1, max_planes);
    c.range("the number of PEs of the node", pes.size(), 1, n_pes);
    for (const pe_sample& p : pes) {
      c.range("pe", p.pe, 0, n_pes - 1);
      c.holds(p.messages_to.empty() || p.messages_to.size() == n_pes, "messages_to", "has not one number for each PE");
      for (const ring_sample& r : p.rings) c.range("the PE of a ring", r.pe, 0, n_pes - 1);
    }
  }
};

}  // namespace gravel::detail
