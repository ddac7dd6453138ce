// Graphs from files, plain or gzip.
//
// All calls of this file:
// @param path of the file, plain or gzip
// @param source bytes in memory, or an open file (lib/graph/byte_source.hpp)
// @param share which edges to keep
// @param options format, names, weights
// @return the content of the file
// @scope any host thread
// @completion on return
// @errors gravel::error with file, line (for text) and what was expected there
// @source file formats of SNAP, Matrix Market, METIS and Galois
#pragma once
#include <string>
#include <vector>

#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

class byte_source;

enum class graph_format { automatic, snap, matrix_market, metis, galois };

struct read_options {
  std::string names = {};  ///< a file of one name per line: see read_graph
  bool weights =
      false;  ///< edges have weights, finite numbers from 0; without this option weights in the file are not kept
  bool real_weights = false;  ///< weights of a Galois file are floating-point numbers, otherwise unsigned integers
  graph_format format = graph_format::automatic;
};

/// Reads one part of a directed graph. Formats, and how `automatic` recognizes them:
///
/// - **Matrix Market** (begins with %%MatrixMarket): coordinate file of a square matrix (pattern, integer or real;
///   general or symmetric). Entry (i, j) is an edge from vertex i-1 to vertex j-1; its value is the weight. A
///   `symmetric` file has the lower triangle only; the mirrored edge of each entry off the diagonal is added. A file
///   that is named *.mtx must begin with the banner.
/// - **METIS** (named *.graph or *.metis, before a .gz): line i of neighbours is vertex i-1. Weights of vertices are
///   ignored. As METIS's graphchk requires, both ends of an edge list it, with the same weight; there are no loops and
///   no repetitions.
/// - **Galois** (begins with the binary word 1 or 2): a .gr file of version 1 or 2.
/// - **SNAP**, all others: lines "source<blanks>target", with weights "source<blanks>target<blanks>weight"; comments
///   begin with '#'. Ids are any 64-bit numbers. The vertices are the ids that occur, in ascending order.
///
/// With `names` the vertices are the lines of that file: an id in a SNAP file is a line number from 0 and the vertex's
/// number, and vertices without edges are kept. All parts must pass the same files.
///
/// `ids` of the result has the ids of the vertices in the file: SNAP's ids; indices from 1 for Matrix Market and METIS;
/// numbers from 0 for Galois and for files with names.
///
/// Repeated edges are kept; a METIS file must not have any. A weight is a number from 0 to 3.4e38, and a whole number
/// must be one that float holds exactly; others are refused (see weight.hpp). Decimal numbers are rounded when they
/// become float; a number below the smallest float becomes 0.
///
/// Memory: the share of edges; for SNAP 8 bytes per vertex of the whole graph, and while reading the table of id_index;
/// for Galois the whole file while reading; for text the longest line. Throws gravel::error with file, line (for text)
/// and what was expected there.
edge_list read_graph(const std::string& path, const graph_share& share = {}, const read_options& options = {});
/// Reads one part of a directed graph from bytes in memory, or from an open file.
edge_list read_graph(byte_source& source, const graph_share& share = {}, const read_options& options = {});

/// Returns the lines of a names file.
std::vector<std::string> read_names(const std::string& path);

/// Returns the path of the names of a graph file: "dir/x.txt.gz", "dir/x.mtx" and "dir/x" all have "dir/x.names".
/// @param graph_path of the graph's file
/// @errors none
std::string names_path_of(const std::string& graph_path);

}  // namespace gravel::detail
