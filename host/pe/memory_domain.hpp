// The domain of mapped memory of a PE. Two things decide how a PE reaches another one:
//
//   node     PEs that share an aggregator, and the pinned memory through which it wakes them: PEs of one host
//   domain   PEs whose memory a handle can map: those of the host, and with fabric handles those of the NVLink domain
//
// So far a PE maps only peers that are in both: its doorbells and the exchange of handles need the node.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "lib/base/topology.hpp"

namespace gravel::detail {

/// Domain of a PE whose memory handles map within its host alone.
inline constexpr const char* domain_of_host = "host";

/// Says which PEs of other nodes could map this PE's memory, and are reached on the route net all the same; empty: none
/// could. `domains`: by PE.
inline std::string describe_domain(const topology& nodes, uint32_t pe, const std::vector<std::string>& domains) {
  if (domains.at(pe) == domain_of_host) return {};
  uint32_t n = 0;
  std::set<uint32_t> of_nodes;
  for (uint32_t other = 0; other < nodes.n_pes(); ++other) {
    if (nodes.node_of(other) == nodes.node_of(pe) || domains.at(other) != domains[pe]) continue;
    ++n;
    of_nodes.insert(nodes.node_of(other));
  }
  if (n == 0) return {};
  return fmt::format(
      "{} PEs of {} other nodes are in the NVLink domain {} of this PE, and are reached on the route net: a PE maps "
      "memory of its own node alone",
      n, of_nodes.size(), domains[pe]);
}

}  // namespace gravel::detail
