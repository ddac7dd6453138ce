// Statistics of the network path: what the Gravel paper's Table 5 reports, and why packets left.
// Each plane counts in its own words; the job's sums are made at its end.
#pragma once
#include <cstdint>
#include <string>

namespace gravel::detail {

enum class stat : uint32_t {
  messages_taken,     ///< from the queues of the node's PEs
  messages_to_self,   ///< ... of these, for the PE that sent them
  messages_off_node,  ///< ... of these, for another node
  messages_in_place,  ///< applied by the sender itself on route `self` (block sender and handlers; not in the queue)
  messages_to_peers,  ///< on route `peer`, one by one or in rings (not in the queue)
  packets,            ///< closed, all hops
  packet_bytes,       ///< header, table and messages
  packets_full,
  packets_age,
  packets_flush,
  packets_idle,        ///< why they left
  packets_local,       ///< built in the landing ring of a PE of the same node
  packets_eager,       ///< sent inside an active message
  packets_put,         ///< sent by RDMA puts
  bytes_from_slots,    ///< of these, put straight from slots of queues
  messages_forwarded,  ///< second hops
  messages_spilled,    ///< of handlers, for want of credits
  slots_taken,
  stalls,   ///< times a queue had to wait for a packet to a busy destination
  busy_us,  ///< time of the aggregator's threads in rounds that moved something
  put_us,   ///< ... of that, in the calls that put bytes into other nodes' memory
  full_us,  ///< in rounds that moved nothing, with a slot at hand for a destination that had no room
  dry_us,   ///< in rounds that moved nothing, without a slot, with packets under way
  count
};
constexpr uint32_t n_stats = static_cast<uint32_t>(stat::count);
const char* name_of(stat);

/// A plain row of counters.
struct stats_row {
  uint64_t value[n_stats] = {};
  uint64_t& operator[](stat s) { return value[static_cast<uint32_t>(s)]; }
  uint64_t operator[](stat s) const { return value[static_cast<uint32_t>(s)]; }
};

/// Accesses to other PEs over all accesses; 0 if there was none. (Paper, Table 5: remote access frequency.)
double remote_frequency(const stats_row&);
/// Bytes per packet. (Paper, Table 5: average message size.)
double average_packet_bytes(const stats_row&);
std::string stats_text(const stats_row&, uint32_t n_pes, uint32_t n_nodes);
std::string stats_json(const stats_row&, uint32_t n_pes, uint32_t n_nodes);

}  // namespace gravel::detail
