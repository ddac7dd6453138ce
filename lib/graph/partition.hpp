// Partitions: divisions of a graph's vertices among the PEs of a job, other than block_distribution. Vertices get new
// numbers, so that each part owns consecutive ones, and kernels name a vertex by owner and place.
//
// All calls of this file:
// @param whole the rows, or edges, of the whole graph
// @param parts number of parts, at least 1
// @param by the partition
// @return a function of the arguments alone: the same on all PEs
// @scope any host thread
// @completion on return
// @errors gravel::error for arguments out of range
// @source Gravel
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/csr.hpp"
#include "lib/graph/vertex_code.hpp"

namespace gravel::detail {

/// A partition: a function of the graph alone, the same on all PEs.
/// @scope any host thread
/// @completion on return
/// @errors none are checked
/// @source Gravel
struct partition {
  std::vector<uint64_t> first;   ///< part p owns the new numbers first[p] to first[p + 1] (exclusive)
  std::vector<uint64_t> number;  ///< new number of each vertex; empty: numbers do not change

  /// Returns the number of parts.
  int parts() const { return static_cast<int>(first.size()) - 1; }
  /// Returns the number of vertices of the whole graph.
  uint64_t vertices() const { return first.back(); }
  /// Returns the number of vertices of a part.
  /// @param part 0 to parts() - 1
  uint64_t count(int part) const { return first[static_cast<size_t>(part) + 1] - first[static_cast<size_t>(part)]; }
  /// Returns the number of vertices of the largest part.
  uint64_t most() const;
  /// Returns the new number of a vertex.
  /// @param vertex its old number
  uint64_t number_of(uint64_t vertex) const { return number.empty() ? vertex : number[vertex]; }
  /// Returns the part that owns a vertex.
  /// @param number its new number
  int owner(uint64_t number) const;
};

/// Makes parts of nearly the same number of vertices: those of block_distribution.
/// @param vertices number of vertices of the graph
partition contiguous(uint64_t vertices, int parts);
/// Makes parts of consecutive vertices, with nearly the same number of edges and vertices together.
partition by_edges(const csr& whole, int parts);
/// Makes parts by METIS: with nearly the same number of edges and vertices together, and few edges between parts.
/// Directions do not matter.
/// @param seed of METIS
/// @errors gravel::error without METIS, and for graphs that its 32-bit numbers are too small for
/// @source METIS
partition by_metis(const csr& whole, int parts, uint64_t seed);
/// Distributes the vertices in this order in turn: each part gets its share of every stretch of the order, and numbers
/// it in that order.
/// @param order numbers of all vertices
partition round_robin(const std::vector<uint32_t>& order, int parts);
/// Distributes the vertices by their number of edges, the largest first: parts have nearly the same number of edges,
/// and the vertices that are read most often lie together.
partition by_degrees(const edge_list& whole, int parts);
/// Returns whether this library was built with METIS.
bool has_metis();

/// Returns the rows of one part, with new numbers.
/// @param part 0 to by.parts() - 1
csr rows_of(const csr& whole, const partition& by, int part);

/// Returns codes for the targets of `rows`.
/// @param rows of one part, with targets in new numbers
/// @param codes how codes name vertices
std::vector<uint32_t> codes_of(const csr& rows, const partition& by, vertex_code codes);

}  // namespace gravel::detail
