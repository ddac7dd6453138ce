// Who reaches whom: PEs on nodes, and one or two hops between nodes. Pure functions of plain numbers.
//
// Two hops (Gravel paper, section 10: a logical hierarchy): nodes form a grid of `columns` columns, row by row.
// A packet for a node of another column goes to the node of the own row in that column, then down the column.
// So a node sends to at most columns + rows - 2 others, about 2 * sqrt(nodes), and buffers are bounded by that.
#pragma once
#include <cstdint>
#include <vector>

namespace gravel::detail {

class topology {
 public:
  topology() = default;
  /// `node_of_pe`: for each PE its node, dense from 0. `two_hop_nodes`: number of nodes from which hops are two.
  topology(std::vector<uint32_t> node_of_pe, uint64_t two_hop_nodes);

  uint32_t n_pes() const { return static_cast<uint32_t>(node_of_pe_.size()); }
  uint32_t n_nodes() const { return static_cast<uint32_t>(pes_of_node_.size()); }
  uint32_t node_of(uint32_t pe) const { return node_of_pe_[pe]; }
  const std::vector<uint32_t>& pes_of(uint32_t node) const { return pes_of_node_[node]; }
  bool two_hop() const { return columns_ != 0; }

  /// The node to which `from` hands a message for `to`: `to` itself, or an intermediate one.
  uint32_t next_hop(uint32_t from, uint32_t to) const;
  /// Nodes whose packets land directly in the rings of the PEs of `node`, ascending, itself included.
  std::vector<uint32_t> sources_of(uint32_t node) const;
  /// Nodes to whose PEs `node` sends directly, ascending, itself included.
  std::vector<uint32_t> targets_of(uint32_t node) const;
  /// Nodes that `node` uses as intermediate ones, and nodes that use `node` so; ascending.
  std::vector<uint32_t> transits_of(uint32_t node) const;
  std::vector<uint32_t> transit_sources_of(uint32_t node) const;

 private:
  std::vector<uint32_t> node_of_pe_;
  std::vector<std::vector<uint32_t>> pes_of_node_;
  uint32_t columns_ = 0;  ///< 0: one hop
};

/// Splits the PEs of each physical host into `emulated` nodes of consecutive local ranks; numbers nodes in order of
/// their first PE. Throws gravel::error if a host has fewer PEs than `emulated`.
std::vector<uint32_t> assign_nodes(const std::vector<uint32_t>& host_of_pe, uint64_t emulated);

}  // namespace gravel::detail
