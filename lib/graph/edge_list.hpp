// Directed graphs as lists of edges, divided among the PEs of a job.
//
// Every PE reads (or generates) the whole graph and keeps the edges whose source it owns, by block_distribution. The
// number of a vertex is a function of the whole graph alone, so all PEs agree without communication. A graph is a
// multigraph: repeated edges and edges from a vertex to itself are kept (csr.hpp, simplify).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/mix.hpp"
#include "lib/base/platform.hpp"
#include "lib/graph/block_distribution.hpp"
#include "lib/graph/vertex_ids.hpp"

namespace gravel::detail {

struct edge {
  uint64_t source, target;
  auto operator<=>(const edge&) const = default;
};

/// The edges of a graph that a reader or a generator keeps.
struct graph_share {
  int part = 0, parts = 1;
  bool undirected =
      false;  ///< keeps each edge between two vertices in both directions, so one edge of the graph is two here
  bool reversed = false;  ///< turns each edge around first, so the row of a vertex has the edges that lead to it
  int threads = 1;        ///< threads for a generator, including the caller's; the result does not depend on it
};
/// Throws gravel::error if there is no such part.
void check_share(const graph_share& share);

/// One part's share of a graph.
struct edge_list {
  uint64_t vertices = 0;           ///< number of vertices of the whole graph; the same on all parts
  uint64_t total_edges = 0;        ///< number of directed edges of the whole graph; the same on all parts
  std::vector<edge> edges;         ///< edges whose source this part owns, in the order of the file
  std::vector<double> weights;     ///< weight of each of `edges`, if the graph has weights; otherwise empty
  std::vector<std::string> names;  ///< of all vertices of the whole graph, if a names file was read
  vertex_ids ids;                  ///< the vertices' ids in the file: see read_graph
};

/// Fills an edge_list with the edges that a share keeps.
class edge_keeper {
 public:
  /// `list.vertices` must be set. Throws gravel::error if there is no such part.
  edge_keeper(edge_list& list, const graph_share& share);
  /// Adds an edge. `weight` is kept after with_weights(); then all edges must have one.
  void add(edge e, double weight = 0) {
    if (share_.reversed) e = {e.target, e.source};
    keep(e, weight);
    if (share_.undirected && e.source != e.target) keep({e.target, e.source}, weight);
  }
  void with_weights() { weighted_ = true; }

 private:
  void keep(edge e, double weight) {
    ++list_.total_edges;
    if (e.source - first_ >= count_) return;
    list_.edges.push_back(e);
    if (weighted_) list_.weights.push_back(weight);
  }
  edge_list& list_;
  graph_share share_;
  uint64_t first_, count_;  // first vertex, and number of vertices, of the part
  bool weighted_ = false;
};

/// Returns the weight that assign_weights assigns to the edge between two vertices, in either direction.
/// @param one number of a vertex
/// @param other number of the other vertex
/// @param most the largest weight
/// @param seed of the weights
/// @return 1 to `most`
/// @scope any thread, kernels too
/// @completion on return
/// @errors none
/// @source Gravel
GRAVEL_BOTH uint32_t weight_between(uint64_t one, uint64_t other, uint32_t most, uint64_t seed) {
  return 1 + pick(mix(mix(seed ^ (one < other ? one : other)) ^ (one < other ? other : one)), most);
}

/// Assigns a whole-numbered weight to each edge. The weight is a function of the two ends, in whatever order: both
/// directions of an edge, and all copies, have the same weight.
/// @param list the edges, whose weights are set
/// @param most weights are 1 to `most`
/// @param seed of the function
/// @scope any host thread
/// @completion on return
/// @errors gravel::error
/// @source Gravel
void assign_weights(edge_list& list, uint32_t most, uint64_t seed);

}  // namespace gravel::detail
