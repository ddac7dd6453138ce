// Directed graphs: read from a file or generated, divided among the PEs of a job.
//
// Every PE reads (or generates) the whole graph and keeps the edges whose source it owns, by
// block_distribution. What a vertex is called is a function of the whole file alone, so all PEs agree without
// talking to each other. A graph is a multigraph: repeated edges and edges from a vertex to itself are kept.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lib/graph/block_distribution.hpp"

namespace gravel {

struct edge {
  uint64_t source, target;
  auto operator<=>(const edge&) const = default;
};

/// One part's share of a graph.
struct edge_list {
  uint64_t vertices = 0;               ///< of the whole graph, numbered from 0; the same on all parts
  uint64_t total_edges = 0;            ///< of the whole graph; the same on all parts
  std::vector<edge> edges;             ///< those whose source this part owns, in the order of the file
  std::vector<std::string> names;      ///< of all vertices of the whole graph, if a names file was read
  std::vector<uint64_t> original_ids;  ///< the file's ids of all vertices; when it is empty says read_graph
};

/// Reads one part of a directed graph from a file, plain or gzip. The format is recognised by content:
///
/// - Matrix Market coordinate file of a square matrix (pattern, integer or real; general or symmetric): entry
///   (i, j) is an edge from vertex i-1 to vertex j-1, whatever its value; `symmetric` adds the mirrored edge
///   of each entry off the diagonal. `original_ids` stays empty.
/// - otherwise a SNAP edge list: lines "source<blanks>target" of two 64-bit ids, comments begin with '#'.
///   The vertices are the ids that occur, in ascending order; `original_ids` has them.
///
/// With `names_path` (one name per line) the vertices are the lines of that file: an id in an edge list is a
/// line number from 0 and stays the vertex's number, vertices without edges are kept, `original_ids` stays
/// empty. All parts must pass the same files.
///
/// Memory: the share of edges, and for an edge list 8 bytes per vertex of the whole graph and while reading
/// the table of id_index. Throws gravel::error with file, line and what was expected there.
edge_list read_graph(const std::string& path, int part = 0, int parts = 1,
                     const std::string& names_path = {});

/// The lines of a names file.
std::vector<std::string> read_names(const std::string& path);

/// Where the names of a graph file belong: "dir/x.txt.gz", "dir/x.mtx" and "dir/x" all give "dir/x.names".
std::string names_path_of(const std::string& graph_path);

/// One part of a synthetic graph of 2^scale vertices and edges_per_vertex * 2^scale edges: R-MAT with the
/// parameters of Graph500 (0.57, 0.19, 0.19, 0.05) and, as there, scattered vertex numbers, so that blocks
/// get similar shares. A function of scale, edges_per_vertex and seed: the parts of any division together are
/// the same graph.
edge_list rmat(int scale, uint64_t edges_per_vertex, uint64_t seed, int part = 0, int parts = 1);

/// Edges of one part by source: the targets of the part's i-th vertex are targets[offsets[i]] to
/// targets[offsets[i + 1]] (exclusive), in the order of the list. offsets has count(part) + 1 elements.
struct csr {
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> targets;
};

/// All edges of the list must belong to `part`.
csr make_csr(const edge_list& list, int part = 0, int parts = 1);

}  // namespace gravel
