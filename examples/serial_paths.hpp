// Shortest paths by Dijkstra's algorithm, for programs that find them otherwise.
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "device/value.cuh"
#include "lib/graph/csr.hpp"

namespace gravel {

/// The distances from `source` as the bits of floats, `unreached` where there is no path. Sums of float, which do not decrease, have one least
/// solution: it finds the same bits.
inline std::vector<uint32_t> find_paths_serially(const csr& graph, uint64_t source, uint32_t unreached) {
  const auto bits = [](float distance) { return static_cast<uint32_t>(to_word(distance)); };
  std::vector<uint32_t> found(graph.rows(), unreached);
  using entry = std::pair<float, uint64_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> next;
  found[source] = 0;
  next.emplace(0.0f, source);
  while (!next.empty()) {
    const auto [here, v] = next.top();
    next.pop();
    if (bits(here) != found[v]) continue;
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
      const float way = here + static_cast<float>(graph.weights[e]);
      if (bits(way) >= found[graph.targets[e]]) continue;
      found[graph.targets[e]] = bits(way);
      next.emplace(way, graph.targets[e]);
    }
  }
  return found;
}

}  // namespace gravel
