// Statistics of the network path: the numbers of Table 5 in the Gravel paper, and why packets left. Each plane counts
// in words of its own; the job adds them up at its end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gravel::detail {

enum class stat : uint32_t {
  messages_taken,     ///< from the queues of the node's PEs
  messages_to_self,   ///< ... of these, for the PE that sent them
  messages_off_node,  ///< ... of these, for another node
  messages_in_place,  ///< applied by the sender itself on route `self` (block sender and handlers), not in the queue
  messages_to_peers,  ///< on route `peer`, single or in rings, not in the queue
  packets,            ///< closed, all hops
  packet_bytes,       ///< header, table and messages
  packets_full,
  packets_age,
  packets_flush,
  packets_idle,        ///< the four reasons for which packets leave
  packets_local,       ///< built in the landing ring of a PE of the same node
  packets_eager,       ///< sent inside an active message
  packets_put,         ///< sent by RDMA puts
  bytes_from_slots,    ///< ... of these, put straight from slots of queues
  messages_forwarded,  ///< second hops
  messages_spilled,    ///< of handlers, for lack of credits
  slots_taken,
  stalls,        ///< how often a slot had to stay in its queue for lack of credits
  busy_us,       ///< time of the aggregator's threads in rounds that moved something
  put_us,        ///< ... of that, in calls that put bytes into other nodes' memory
  no_credit_us,  ///< in rounds that moved nothing because a slot's destination had no room
  no_slot_us,    ///< in rounds that moved nothing because no slot had come, with packets under way
  count
};
constexpr uint32_t n_stats = static_cast<uint32_t>(stat::count);
const char* name_of(stat);

/// A row of counters.
struct stats_row {
  uint64_t value[n_stats] = {};
  uint64_t& operator[](stat s) { return value[static_cast<uint32_t>(s)]; }
  uint64_t operator[](stat s) const { return value[static_cast<uint32_t>(s)]; }
};

/// Messages of a job by the PE that sent them.
struct message_matrix {
  std::vector<std::vector<uint64_t>> through_queue;  ///< [from][to]: what aggregators took; empty: the job is too large
  std::vector<uint64_t> in_place;                    ///< [from]: to the PE itself
  std::vector<uint64_t> to_peers;                    ///< [from]: by route `peer`; to which PEs is not counted
  /// The largest job whose matrix PEs exchange when the job ends.
  static constexpr uint32_t most_pes = 1024;
};

/// Share of accesses that go to other PEs; 0 if there was no access. (Remote access frequency in Table 5 of the paper.)
double remote_frequency(const stats_row&);
/// Bytes per packet. (Average message size in Table 5 of the paper.)
double average_packet_bytes(const stats_row&);
std::string stats_text(const stats_row&, uint32_t n_pes, uint32_t n_nodes);
std::string stats_json(const stats_row&, const message_matrix&, uint32_t n_pes, uint32_t n_nodes);

}  // namespace gravel::detail
