#include "host/aggregator/wirings.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"
#include "transport/ucx_wire.hpp"

namespace gravel::detail {

std::vector<wiring> read_wirings(const all_wirings& all, const node_setup& setup) {
  const topology& nodes = setup.nodes;
  if (all.by_node.size() != nodes.n_nodes())
    fail("the aggregator of node {} was given the wirings of {} nodes; its job has {}", setup.node, all.by_node.size(),
         nodes.n_nodes());
  std::vector<wiring> read(nodes.n_nodes());
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node) {
    if (node == setup.node) continue;
    const std::string from = fmt::format("the aggregator of node {}", node);
    const size_t pes = nodes.pes_of(node).size();
    wiring& theirs = read[node] = from_wire<wiring>(all.by_node[node], from);
    if (theirs.worker.size() != setup.values.aggregator_threads)
      fail("node {} has {} aggregator threads, this node {}: GRAVEL_AGGREGATOR_THREADS must be the same everywhere",
           node, theirs.worker.size(), setup.values.aggregator_threads);
    if (theirs.keys.size() != pes + 1)
      fail("{} has sent {} keys, where there are {} PEs and transit memory", from, theirs.keys.size(), pes);
    const uint64_t landing_bytes = 2 * make_segment_shape(setup.values, nodes, node).landing_bytes();
    for (size_t i = 0; i <= pes; ++i) {
      const uint64_t expected = i < pes ? landing_bytes : setup.transit_shape(node).bytes();
      const uint64_t bytes = theirs.keys[i].empty() ? 0 : read_of_ucx<ucx_memory_key>(theirs.keys[i], from).bytes;
      if (bytes != expected)
        fail("{} has sent a key of {} bytes for {}, which has {}", from, bytes,
             i < pes ? fmt::format("the landing slots of PE {}", nodes.pes_of(node)[i]) : "its transit slots",
             expected);
    }
  }
  return read;
}

}  // namespace gravel::detail
