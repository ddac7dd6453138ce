// Synthetic graphs. Each is a function of its arguments: the parts of any division together are the same graph, with
// any number of threads. None has weights; give_weights makes them. All throw gravel::error for arguments out of range.
//
// What all calls of this file have in common:
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

/// 2^scale vertices and edges_per_vertex * 2^scale directed edges: R-MAT with the parameters of Graph500 (0.57, 0.19,
/// 0.19, 0.05) and, as there, scattered vertex numbers, so that blocks get similar shares.
/// @param scale log2 of the number of vertices
/// @param edges_per_vertex directed edges
edge_list rmat(int scale, uint64_t edges_per_vertex, uint64_t seed, const graph_share& share = {});

/// A mesh as its triangles see it, like the hugebubbles matrices: 2 * width * height vertices, each a triangle of a
/// grid of squares halved by a random diagonal, with an edge in both directions to each of the up to three triangles
/// beside it.
/// @param width squares in a row
/// @param height rows of squares
edge_list mesh(uint64_t width, uint64_t height, uint64_t seed, const graph_share& share = {});

/// Like a road network, with a large diameter: a grid of width * height vertices of whose edges between neighbours (in
/// both directions) each is there with the probability `kept`.
/// @param width vertices in a row
/// @param height rows of vertices
/// @param kept probability of an edge, 0 to 1
edge_list road_grid(uint64_t width, uint64_t height, double kept, uint64_t seed, const graph_share& share = {});

/// The pattern of the matrix cageN, transitions of a polymer of `monomers` in the cage model of gel electrophoresis
/// (van Heukelum, Barkema, Bisseling, 2002), the diagonal included: as many vertices and edges as the published matrix,
/// under numbers of our own. 3 to 15 monomers. Each part numbers all vertices, which takes 8 bytes for each and 12 to
/// 24 for an index (of cage15 108 MB), and makes the edges of its own ones alone.
/// @param monomers 3 to 15
edge_list cage(int monomers, const graph_share& share = {});

/// How large a whole graph is: its vertices, and its directed edges.
struct graph_size {
  uint64_t vertices, edges;
};
/// Of cage(monomers), without making it.
graph_size cage_size(int monomers);

}  // namespace gravel::detail
