#include "host/node/stats.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace gravel::detail {

const char* name_of(stat s) {
  static constexpr const char* names[] = {"messages_taken",
                                          "messages_to_self",
                                          "messages_off_node",
                                          "messages_in_place",
                                          "messages_to_peers",
                                          "packets",
                                          "packet_bytes",
                                          "packets_full",
                                          "packets_age",
                                          "packets_flush",
                                          "packets_idle",
                                          "packets_local",
                                          "packets_eager",
                                          "packets_put",
                                          "bytes_from_slots",
                                          "messages_forwarded",
                                          "messages_spilled",
                                          "slots_taken",
                                          "stalls",
                                          "busy_us",
                                          "put_us",
                                          "no_credit_us",
                                          "no_slot_us"};
  static_assert(sizeof(names) / sizeof(*names) == n_stats);
  return names[static_cast<uint32_t>(s)];
}

double remote_frequency(const stats_row& row) {
  const uint64_t to_peers = row[stat::messages_to_peers];
  const uint64_t all = row[stat::messages_taken] + row[stat::messages_in_place] + to_peers;
  return all ? double(row[stat::messages_taken] - row[stat::messages_to_self] + to_peers) / double(all) : 0;
}

double average_packet_bytes(const stats_row& row) {
  return row[stat::packets] ? double(row[stat::packet_bytes]) / double(row[stat::packets]) : 0;
}

std::string stats_text(const stats_row& row, uint32_t n_pes, uint32_t n_nodes) {
  const auto share = [&](stat s) {
    return row[stat::packets] ? 100.0 * double(row[s]) / double(row[stat::packets]) : 0;
  };
  const auto seconds = [&](stat s) { return static_cast<double>(row[s]) / 1e6; };
  return fmt::format(
      "Gravel network statistics: {} PEs on {} nodes\n"
      "  remote access frequency   {:10.1f} %   ({} messages through the queue, {} in place, {} to peers)\n"
      "  average packet size       {:10.0f} bytes ({} packets)\n"
      "  off-node messages         {:10}\n"
      "  packets left because      full {:.1f} %, age {:.1f} %, flush {:.1f} %, idle {:.1f} %\n"
      "  packets went by           local ring {:.1f} %, put {:.1f} % ({} bytes straight from slots), inside the notice "
      "{:.1f} %\n"
      "  forwarded / spilled       {} / {} messages; {} waits for a busy destination\n"
      "  aggregator threads worked {:.2f} s, all together, {:.2f} s of it in puts; waited {:.2f} s for room, {:.2f} s "
      "for slots\n",
      n_pes, n_nodes, 100 * remote_frequency(row), row[stat::messages_taken], row[stat::messages_in_place],
      row[stat::messages_to_peers], average_packet_bytes(row), row[stat::packets], row[stat::messages_off_node],
      share(stat::packets_full), share(stat::packets_age), share(stat::packets_flush), share(stat::packets_idle),
      share(stat::packets_local), share(stat::packets_put), row[stat::bytes_from_slots], share(stat::packets_eager),
      row[stat::messages_forwarded], row[stat::messages_spilled], row[stat::stalls], seconds(stat::busy_us),
      seconds(stat::put_us), seconds(stat::no_credit_us), seconds(stat::no_slot_us));
}

std::string stats_json(const stats_row& row, const message_matrix& messages, uint32_t n_pes, uint32_t n_nodes) {
  nlohmann::ordered_json out;
  out["n_pes"] = n_pes;
  out["n_nodes"] = n_nodes;
  out["remote_access_frequency"] = remote_frequency(row);
  out["average_packet_bytes"] = average_packet_bytes(row);
  for (uint32_t i = 0; i < n_stats; ++i) out[name_of(static_cast<stat>(i))] = row.value[i];
  if (!messages.through_queue.empty())
    out["messages_by_pe"] = {
        {"through_queue", messages.through_queue}, {"in_place", messages.in_place}, {"to_peers", messages.to_peers}};
  return out.dump(2) + "\n";
}

}  // namespace gravel::detail
