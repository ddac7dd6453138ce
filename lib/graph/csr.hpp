// Rows of a graph: the edges of one part by source.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

/// The targets of the part's i-th vertex are targets[offsets[i]] to targets[offsets[i + 1]] (exclusive).
struct csr {
  std::vector<uint64_t> offsets;  ///< one more than the part has vertices
  std::vector<uint64_t> targets;
  std::vector<double> weights;  ///< of each target, if the graph has weights; else empty

  uint64_t rows() const { return offsets.size() - 1; }
  uint64_t degree(uint64_t row) const { return offsets[row + 1] - offsets[row]; }
};

/// The rows of a share of edges, each in the order of the list. Throws gravel::error for edges that do not belong to
/// `part`.
csr make_csr(const edge_list& list, int part = 0, int parts = 1);

/// Makes rows those of a simple graph: each is sorted, of repeated edges the lightest stays, edges to oneself go.
/// `first` is the number of row 0.
void simplify(csr& rows, uint64_t first = 0);

}  // namespace gravel::detail
