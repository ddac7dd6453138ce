// Generated graphs. Each graph is a function of its arguments: the parts of any division together are the same graph,
// with any number of threads. No graph has weights; assign_weights makes them.
//
// All calls of this file:
// @param seed of the graph
// @param share which edges to keep, and how many threads to use
// @return the share of the edges
// @scope any host thread
// @completion on return
// @errors gravel::error for arguments out of range
// @source Graph500; the SuiteSparse collection
#pragma once
#include <cstdint>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

/// Generates an R-MAT graph: 2^scale vertices and edges_per_vertex * 2^scale directed edges, with the parameters of
/// Graph500 (0.57, 0.19, 0.19, 0.05) and, as there, scattered vertex numbers, so that blocks get similar shares.
/// @param scale log2 of the number of vertices
/// @param edges_per_vertex directed edges
edge_list rmat(int scale, uint64_t edges_per_vertex, uint64_t seed, const graph_share& share = {});

/// Generates the dual graph of a triangle mesh, like the hugebubbles matrices: 2 * width * height vertices. Each vertex
/// is a triangle of a grid of squares halved by a random diagonal, with an edge in both directions to each of the up to
/// three triangles beside it.
/// @param width squares in a row
/// @param height rows of squares
edge_list mesh(uint64_t width, uint64_t height, uint64_t seed, const graph_share& share = {});

/// Generates a graph like a road network, with a large diameter: a grid of width * height vertices. Each edge between
/// neighbours (in both directions) exists with probability `kept`.
/// @param width vertices in a row
/// @param height rows of vertices
/// @param kept probability of an edge, 0 to 1
edge_list road_grid(uint64_t width, uint64_t height, double kept, uint64_t seed, const graph_share& share = {});

/// Generates the pattern of the matrix cageN: transitions of a polymer of `monomers` in the cage model of gel
/// electrophoresis (van Heukelum, Barkema, Bisseling, 2002), including the diagonal. It has as many vertices and edges
/// as the published matrix, with other numbers. Each part numbers all vertices, which takes 8 bytes for each and 12 to
/// 24 for an index (for cage15 108 MB), and makes only the edges of its own vertices.
/// @param monomers 3 to 15
edge_list cage(int monomers, const graph_share& share = {});

/// The size of a whole graph.
struct graph_size {
  uint64_t vertices;  ///< number of vertices
  uint64_t edges;     ///< number of directed edges
};
/// Returns the size of cage(monomers), without making it.
/// @param monomers 3 to 15
/// @return its vertices and edges
graph_size cage_size(int monomers);

}  // namespace gravel::detail
