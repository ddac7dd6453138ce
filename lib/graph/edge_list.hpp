// Directed graphs as lists of edges, divided among the PEs of a job.
//
// Every PE reads (or generates) the whole graph and keeps the edges whose source it owns, by block_distribution. What a
// vertex is called is a function of the whole graph alone, so all PEs agree without talking to each other. A graph is a
// multigraph: repeated edges and edges from a vertex to itself are kept (see csr.hpp, simplify).
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

/// Which edges of a graph a reader or a generator keeps.
struct graph_share {
  int part = 0, parts = 1;
  bool undirected =
      false;  ///< each edge between two vertices counts in both directions; one in the graph is then two here
  bool reversed = false;  ///< each edge is turned around first: rows are what leads to a vertex
  int threads = 1;        ///< that a generator may use, the caller's among them; the result is the same
};
/// Throws gravel::error if there is no such part.
void check_share(const graph_share& share);

/// One part's share of a graph.
struct edge_list {
  uint64_t vertices = 0;           ///< of the whole graph, numbered from 0; the same on all parts
  uint64_t total_edges = 0;        ///< of the whole graph, in directed edges; the same on all parts
  std::vector<edge> edges;         ///< those whose source this part owns, in the order of the file
  std::vector<double> weights;     ///< of each of `edges`, if the graph has weights; else empty
  std::vector<std::string> names;  ///< of all vertices of the whole graph, if a names file was read
  vertex_ids ids;                  ///< what the file calls the vertices: see read_graph
};

/// Fills an edge_list with what a share keeps of all edges.
class edge_keeper {
 public:
  /// `list.vertices` is known. Throws gravel::error if there is no such part.
  edge_keeper(edge_list& list, const graph_share& share);
  /// `weight` counts if the graph is said to have weights, which all edges have then.
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
  uint64_t first_, count_;  // the part's vertices
  bool weighted_ = false;
};

/// The weight that give_weights gives to the edge between two vertices, and to the one back.
GRAVEL_BOTH uint32_t weight_between(uint64_t one, uint64_t other, uint32_t most, uint64_t seed) {
  return 1 + pick(mix(mix(seed ^ (one < other ? one : other)) ^ (one < other ? other : one)), most);
}

/// Gives each edge a whole-numbered weight, a function of its two ends alone, in whatever order: both directions of an
/// edge, and all copies, have the same.
/// @param list changed
/// @param most weights are 1 to `most`
/// @param seed of the function
/// @scope any host thread
/// @completion on return
/// @errors gravel::error
/// @source Gravel
void give_weights(edge_list& list, uint32_t most, uint64_t seed);

}  // namespace gravel::detail
