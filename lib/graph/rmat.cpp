#include "lib/graph/rmat.hpp"

#include "lib/base/error.hpp"
#include "lib/graph/generate.hpp"
#include "lib/graph/portions.hpp"

namespace gravel::detail {

rmat_source rmat_source::of(int scale, uint64_t seed) {
  if (scale < 1 || scale > 40) fail("the scale of a generated graph is {}; it must be from 1 to 40", scale);
  return {scale, mix(seed), mix(~seed)};
}

edge_list rmat(int scale, uint64_t edges_per_vertex, uint64_t seed, const graph_share& share) {
  const rmat_source source = rmat_source::of(scale, seed);
  if (edges_per_vertex < 1 || edges_per_vertex > 65536)
    fail("a generated graph has {} edges per vertex; it must be from 1 to 65536", edges_per_vertex);
  edge_list list;
  list.vertices = 1ull << scale;
  check_share(share);
  const uint64_t edges = edges_per_vertex << scale;
  reserve_share(list, share.undirected ? 2 * edges : edges, share.parts);
  keep_in_portions(list, share, edges, 1 << 14, [&](edge_keeper& keeper, uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) keeper.add(source(i));
  });
  return list;
}

}  // namespace gravel::detail
