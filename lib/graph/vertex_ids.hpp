// The ids that a file has for the vertices of a graph, which are numbered from 0 in memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace gravel::detail {

/// The ids of vertices. By default an id is the vertex's number.
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source Gravel
struct vertex_ids {
  uint64_t first = 0;            ///< the id of vertex 0; vertex i has the id first + i, unless `listed` has the ids
  std::vector<uint64_t> listed;  ///< ids of all vertices of the whole graph, in ascending order; or empty

  /// Returns the id of a vertex of the graph.
  /// @param vertex its number
  uint64_t of(uint64_t vertex) const { return listed.empty() ? first + vertex : listed[vertex]; }
  /// Returns the vertex that has this id, if any of the `vertices` of the whole graph has it.
  /// @param id the vertex's id in the file
  /// @param vertices number of vertices of the whole graph
  std::optional<uint64_t> find(uint64_t id, uint64_t vertices) const {
    if (listed.empty()) return id >= first && id - first < vertices ? std::optional(id - first) : std::nullopt;
    const auto at = std::lower_bound(listed.begin(), listed.end(), id);
    return at != listed.end() && *at == id ? std::optional(static_cast<uint64_t>(at - listed.begin())) : std::nullopt;
  }
};

}  // namespace gravel::detail
