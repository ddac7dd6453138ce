// Shortest paths by Dijkstra's algorithm, for programs that find them otherwise, and what their distances must be.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/graph/csr.hpp"

namespace app {
using gravel::detail::csr;
using gravel::detail::fail_text;

/// Distances from one vertex; infinity where there is no path, or where Real does not hold its length.
template <class Real>
struct serial_paths {
  std::vector<Real> distance;
  std::vector<uint32_t> edges;  ///< of the path that was found

  serial_paths(const csr& graph, uint64_t source)
      : distance(graph.rows(), std::numeric_limits<Real>::infinity()), edges(graph.rows()) {
    using entry = std::pair<Real, uint64_t>;
    std::priority_queue<entry, std::vector<entry>, std::greater<>> next;
    distance[source] = 0;
    next.emplace(Real{0}, source);
    while (!next.empty()) {
      const auto [here, v] = next.top();
      next.pop();
      if (here != distance[v]) continue;
      for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
        const uint64_t to = graph.targets[e];
        const Real way = here + static_cast<Real>(graph.weights[e]);
        if (way >= distance[to]) continue;
        distance[to] = way;
        edges[to] = edges[v] + 1;
        next.emplace(way, to);
      }
    }
  }
};

/// What distances of float must be. Sums of float, which do not decrease, have one least solution: the same bits. And
/// it is as near to the distance in double as rounding allows: half a unit in the last place of each weight and of each
/// sum.
class path_oracle {
 public:
  path_oracle(const csr& graph, uint64_t source) : by_float_(graph, source), by_double_(graph, source) {}

  /// Is this the distance of the vertex? Infinity: there is no path.
  bool is_right(uint64_t vertex, float distance) const {
    const float expected = by_float_.distance[vertex];
    const double exact = by_double_.distance[vertex];
    if (std::isinf(exact) || std::isinf(distance)) return std::isinf(exact) && std::isinf(distance);
    const double roundings = 1 + std::max(by_float_.edges[vertex], by_double_.edges[vertex]);
    return distance == expected && std::abs(distance - exact) <= roundings * (0x1p-23 * exact + 0x1p-149);
  }

 private:
  serial_paths<float> by_float_;
  serial_paths<double> by_double_;
};

/// Of float, whole numbers up to here are exact.
constexpr float most_exact_whole = 0x1p24f;

/// Throws gravel::error if so many distances are above the largest float.
inline void check_range_of_distances(uint64_t too_far) {
  if (too_far == 0) return;
  fail_text("the paths to " + std::to_string(too_far) +
            " vertices are longer than 3.4e38, the largest float: divide all weights by one number");
}

}  // namespace app
