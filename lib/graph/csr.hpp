// Rows of a graph: the edges of one part by source.
//
// What the calls of this file have in common:
// @scope any host thread
// @completion on return
// @errors gravel::error
// @source Gravel
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

/// The targets of the part's i-th vertex are targets[offsets[i]] to targets[offsets[i + 1]] (exclusive).
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source compressed sparse rows
struct csr {
  std::vector<uint64_t> offsets;  ///< one more than the part has vertices
  std::vector<uint64_t> targets;
  std::vector<double> weights;  ///< of each target, if the graph has weights; else empty

  /// Vertices of the part.
  uint64_t rows() const { return offsets.size() - 1; }
  /// Targets of a row.
  /// @param row below rows()
  uint64_t degree(uint64_t row) const { return offsets[row + 1] - offsets[row]; }
};

/// The rows of a share of edges, each in the order of the list.
/// @param list the part's share
/// @param part its number
/// @param parts how many there are
/// @return the rows of the part
/// @errors gravel::error for edges that do not belong to `part`
csr make_csr(const edge_list& list, int part = 0, int parts = 1);

/// Makes rows those of a simple graph: each is sorted, of repeated edges the lightest stays, edges to oneself go.
/// @param rows changed
/// @param first the number of row 0
void simplify(csr& rows, uint64_t first = 0);

}  // namespace gravel::detail
