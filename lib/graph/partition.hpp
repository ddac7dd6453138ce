// How the vertices of a graph are divided among the PEs of a job, other than by block_distribution: the vertices are
// numbered anew, so that each part owns consecutive ones, and kernels name a vertex by owner and place.
//
// What the calls of this file have in common:
// @param whole the rows, or edges, of the whole graph
// @param parts at least 1
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

/// A function of the graph alone: the same on all PEs.
/// @scope any host thread
/// @completion on return
/// @errors none are checked
/// @source Gravel
struct partition {
  std::vector<uint64_t> first;   ///< part p owns the new numbers first[p] to first[p + 1] (exclusive)
  std::vector<uint64_t> number;  ///< of each vertex, its new number; empty: the numbers stay

  /// Number of parts.
  int parts() const { return static_cast<int>(first.size()) - 1; }
  /// Vertices of the whole graph.
  uint64_t vertices() const { return first.back(); }
  /// Vertices of a part.
  /// @param part 0 to parts() - 1
  uint64_t count(int part) const { return first[static_cast<size_t>(part) + 1] - first[static_cast<size_t>(part)]; }
  /// Vertices of the largest part.
  uint64_t most() const;
  /// The new number of a vertex.
  /// @param vertex its old number
  uint64_t number_of(uint64_t vertex) const { return number.empty() ? vertex : number[vertex]; }
  /// The part that owns a vertex.
  /// @param number its new number
  int owner(uint64_t number) const;
};

/// Parts of nearly the same number of vertices, those of block_distribution.
/// @param vertices of the graph
partition contiguous(uint64_t vertices, int parts);
/// Consecutive vertices with nearly the same number of edges and vertices together.
partition by_edges(const csr& whole, int parts);
/// METIS: nearly the same number of edges and vertices together, and few edges between parts. Directions do not matter.
/// Throws gravel::error without METIS, and for graphs that its 32-bit numbers are too small for.
/// @param seed of METIS
/// @errors gravel::error without METIS, and for graphs that its 32-bit numbers are too small for
/// @source METIS
partition by_metis(const csr& whole, int parts, uint64_t seed);
/// The vertices in the given order are dealt out in turn: each part has its share of every stretch of the order, and
/// numbers it in that order.
/// @param order numbers of all vertices
partition deal_out(const std::vector<uint32_t>& order, int parts);
/// Those that most edges begin or end at first: parts have nearly the same number of edges, and what they read most
/// often lies together.
partition by_degrees(const edge_list& whole, int parts);
/// Whether METIS was there when this was built.
bool has_metis();

/// The rows of one part, in new numbers.
/// @param part 0 to by.parts() - 1
csr rows_of(const csr& whole, const partition& by, int part);

/// The targets of `rows`, which are new numbers.
/// @param rows of one part, with targets in new numbers
/// @param codes how vertices are named
std::vector<uint32_t> codes_of(const csr& rows, const partition& by, vertex_code codes);

}  // namespace gravel::detail
