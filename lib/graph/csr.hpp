// Rows of a graph: the edges of one part by source.
//
// All calls of this file:
// @scope any host thread
// @completion on return
// @errors gravel::error
// @source Gravel
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

/// Compressed sparse rows: the targets of the part's i-th vertex are targets[offsets[i]] to targets[offsets[i + 1]]
/// (exclusive).
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source compressed sparse rows
struct csr {
  std::vector<uint64_t> offsets;  ///< [vertices of the part + 1]
  std::vector<uint64_t> targets;
  std::vector<double> weights;  ///< of each target, if the graph has weights; otherwise empty

  /// Returns the number of vertices of the part.
  uint64_t rows() const { return offsets.size() - 1; }
  /// Returns the number of targets of a row.
  /// @param row below rows()
  uint64_t degree(uint64_t row) const { return offsets[row + 1] - offsets[row]; }
};

/// Makes the rows of a share of edges. Each row keeps the order of the list.
/// @param list the part's share
/// @param part number of the part
/// @param parts number of parts
/// @return the rows of the part
/// @errors gravel::error for edges that do not belong to `part`
csr make_csr(const edge_list& list, int part = 0, int parts = 1);

/// Makes the rows those of a simple graph: sorts each row, keeps the lightest of repeated edges, and removes edges from
/// a vertex to itself.
/// @param rows the rows, which are changed
/// @param first the number of row 0
void simplify(csr& rows, uint64_t first = 0);

}  // namespace gravel::detail
