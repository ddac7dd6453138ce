// Topology: which PE is on which node, and which nodes send to each other directly. Pure functions of plain numbers.
//
// Two hops (Gravel: Fine-Grain GPU-Initiated Network Messages, section 10: a logical hierarchy): nodes form a grid of
// `columns` columns, row by row. A packet for a node of another column goes to the node of the own row in that column,
// then down the column. So a node sends to at most columns + rows - 2 others, about 2 * sqrt(nodes), and that bounds
// its buffers.
#pragma once
#include <cstdint>
#include <vector>

namespace gravel::detail {

class topology {
 public:
  topology() = default;
  /// `node_of_pe`: for each PE its node, numbered from 0 without gaps. `two_hop_nodes`: packets take two hops if there
  /// are at least so many nodes.
  topology(std::vector<uint32_t> node_of_pe, uint64_t two_hop_nodes);

  uint32_t n_pes() const { return static_cast<uint32_t>(node_of_pe_.size()); }
  uint32_t n_nodes() const { return static_cast<uint32_t>(pes_of_node_.size()); }
  uint32_t node_of(uint32_t pe) const { return node_of_pe_[pe]; }
  const std::vector<uint32_t>& pes_of(uint32_t node) const { return pes_of_node_[node]; }
  bool two_hop() const { return columns_ != 0; }

  /// The node to which `from` sends a message for `to`: `to` itself, or the node in the middle.
  uint32_t next_hop(uint32_t from, uint32_t to) const;
  /// The nodes whose packets land directly in the rings of the PEs of `node`, ascending, with `node` itself.
  std::vector<uint32_t> sources_of(uint32_t node) const;
  /// The nodes to whose PEs `node` sends directly, ascending, with `node` itself.
  std::vector<uint32_t> targets_of(uint32_t node) const;
  /// The nodes through which `node` sends in two hops, and those that send through `node`; ascending.
  std::vector<uint32_t> transits_of(uint32_t node) const;
  std::vector<uint32_t> transit_sources_of(uint32_t node) const;

 private:
  std::vector<uint32_t> node_of_pe_;
  std::vector<std::vector<uint32_t>> pes_of_node_;
  uint32_t columns_ = 0;  ///< 0: one hop
};

/// Splits the PEs of each physical host into `emulated` nodes of consecutive local ranks, and numbers the nodes in the
/// order of their first PE. Throws gravel::error if a host has fewer PEs than `emulated`.
std::vector<uint32_t> assign_nodes(const std::vector<uint32_t>& host_of_pe, uint64_t emulated);

}  // namespace gravel::detail
