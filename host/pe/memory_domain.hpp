// The domain of mapped memory of a PE. Two things decide how a PE reaches another one:
//
//   node     PEs that share an aggregator, and pinned memory with it: PEs of one host
//   domain   PEs that map each other's memory: those of the host, and with fabric handles those of the NVLink domain
//
// A domain consists of whole nodes. So all its PEs agree on who belongs to it, and on their ranks in it.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/peer_ring.hpp"
#include "lib/base/topology.hpp"

namespace gravel::detail {

/// The PEs of the domain of `pe`, ascending. `reach`: by PE, what its memory handles reach. PEs with equal texts can
/// map each other's memory; an empty text: the handles are for the PE's own node. A node whose PEs have different texts
/// is a domain by itself, and so is each node of a domain of more than max_peers PEs.
inline std::vector<uint32_t> pes_of_domain(const topology& nodes, uint32_t pe, const std::vector<std::string>& reach) {
  const std::vector<uint32_t>& own_node = nodes.pes_of(nodes.node_of(pe));
  const std::string& mine = reach.at(pe);
  const auto belongs = [&](const std::vector<uint32_t>& pes) {
    return std::all_of(pes.begin(), pes.end(), [&](uint32_t other) { return reach.at(other) == mine; });
  };
  if (mine.empty() || !belongs(own_node)) return own_node;
  std::vector<uint32_t> domain;
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node)
    if (const auto& pes = nodes.pes_of(node); belongs(pes)) domain.insert(domain.end(), pes.begin(), pes.end());
  if (domain.size() > max_peers) return own_node;
  std::sort(domain.begin(), domain.end());
  return domain;
}

/// Says which domain this is, for the log; empty: it is the node.
inline std::string describe_domain(const topology& nodes, const std::vector<uint32_t>& domain,
                                   const std::string& reach) {
  std::vector<uint32_t> of_nodes;
  for (const uint32_t pe : domain) of_nodes.push_back(nodes.node_of(pe));
  std::sort(of_nodes.begin(), of_nodes.end());
  const auto n = std::unique(of_nodes.begin(), of_nodes.end()) - of_nodes.begin();
  if (n <= 1) return {};
  return fmt::format("{} PEs of {} nodes can map each other's memory: {}", domain.size(), n, reach);
}

}  // namespace gravel::detail
