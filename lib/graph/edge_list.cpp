#include "lib/graph/edge_list.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace gravel::detail {

void check_share(const graph_share& share) {
  if (share.parts < 1 || share.part < 0 || share.part >= share.parts)
    fail("part {} of {} of a graph does not exist", share.part, share.parts);
}

edge_keeper::edge_keeper(edge_list& list, const graph_share& share) : list_(list), share_(share) {
  check_share(share);
  const block_distribution blocks(list.vertices, share.parts);
  first_ = blocks.first(share.part);
  count_ = blocks.count(share.part);
}

void assign_weights(edge_list& list, uint32_t most, uint64_t seed) {
  if (most < 1) fail_text("weights are from 1 on");
  list.weights.resize(list.edges.size());
  std::transform(list.edges.begin(), list.edges.end(), list.weights.begin(),
                 [&](const edge& e) { return weight_between(e.source, e.target, most, seed); });
}

}  // namespace gravel::detail
