// How the vertices of a graph are divided among the PEs of a job, other than by block_distribution: the vertices are
// numbered anew, so that each part owns consecutive ones, and kernels name a vertex by owner and place.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/csr.hpp"
#include "lib/graph/vertex_code.hpp"

namespace gravel::detail {

/// A function of the graph alone: the same on all PEs.
struct partition {
  std::vector<uint64_t> first;   ///< part p owns the new numbers first[p] to first[p + 1] (exclusive)
  std::vector<uint64_t> number;  ///< of each vertex, its new number; empty: the numbers stay

  int parts() const { return static_cast<int>(first.size()) - 1; }
  uint64_t vertices() const { return first.back(); }
  uint64_t count(int part) const { return first[static_cast<size_t>(part) + 1] - first[static_cast<size_t>(part)]; }
  uint64_t most() const;  ///< vertices of the largest part
  uint64_t number_of(uint64_t vertex) const { return number.empty() ? vertex : number[vertex]; }
  int owner(uint64_t number) const;
};

/// Parts of nearly the same number of vertices, those of block_distribution.
partition contiguous(uint64_t vertices, int parts);
/// Consecutive vertices with nearly the same number of edges and vertices together.
partition by_edges(const csr& whole, int parts);
/// METIS: nearly the same number of edges and vertices together, and few edges between parts. Directions do not matter.
/// Throws gravel::error without METIS, and for graphs that its 32-bit numbers are too small for.
partition by_metis(const csr& whole, int parts, uint64_t seed);
/// The vertices in the given order are dealt out in turn: each part has its share of every stretch of the order, and
/// numbers it in that order.
partition deal_out(const std::vector<uint32_t>& order, int parts);
/// Those that most edges begin or end at first: parts have nearly the same number of edges, and what they read most
/// often lies together.
partition by_degrees(const edge_list& whole, int parts);
/// Was METIS there when this was built?
bool has_metis();

/// The rows of one part, in new numbers.
csr rows_of(const csr& whole, const partition& by, int part);

/// The targets of `rows`, which are new numbers.
std::vector<uint32_t> codes_of(const csr& rows, const partition& by, vertex_code codes);

}  // namespace gravel::detail
