#include <stdexcept>

#include "lib/base/error.hpp"
#include "lib/graph/graph.hpp"

namespace gravel {

csr make_csr(const edge_list& list, int part, int parts) {
  const block_distribution distribution(list.vertices, parts);
  csr rows;
  try {
    rows.offsets.assign(distribution.count(part) + 1, 0);
    rows.targets.resize(list.edges.size());
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail("part {} of {} has {} vertices and {} edges: too many for the memory of this machine", part, parts,
         distribution.count(part), list.edges.size());
  }
  for (const edge& e : list.edges) {
    if (e.source >= list.vertices || distribution.owner(e.source) != part)
      fail("edge {} -> {} does not belong to part {} of {}", e.source, e.target, part, parts);
    ++rows.offsets[distribution.local_index(e.source) + 1];
  }
  for (size_t i = 1; i < rows.offsets.size(); ++i) rows.offsets[i] += rows.offsets[i - 1];
  // offsets[i] walks from the begin of row i to its end, the begin of row i + 1; then all move up by one.
  for (const edge& e : list.edges)
    rows.targets[rows.offsets[distribution.local_index(e.source)]++] = e.target;
  for (size_t i = rows.offsets.size() - 1; i > 0; --i) rows.offsets[i] = rows.offsets[i - 1];
  rows.offsets[0] = 0;
  return rows;
}

}  // namespace gravel
