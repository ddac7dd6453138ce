// The graph that an example works on: from a file or generated, and this PE's part of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gravel/graph.hpp>
#include "examples/common/command_line.hpp"

namespace app {
using gravel::csr;
using gravel::edge_list;
using gravel::graph_share;
using gravel::partition;
using gravel::vertex_code;
using gravel::vertex_ids;

/// What a program wants of its graph.
struct graph_wish {
  bool weights = false;     ///< files must have them, generated graphs get whole numbers
  bool undirected = false;  ///< always; otherwise where the user asks for it
  bool simple = false;      ///< without loops and repeated edges
  bool reversed = false;    ///< rows are what leads to a vertex
};

struct graph_input {
  /// The options of the command line, and, when they are parsed, whether they go together; throws gravel::error.
  void add_options(command_line& app);
  void check() const;

  /// A share of the edges, under the graph's own numbers. Throws gravel::error.
  edge_list edges(const graph_wish& wish, const graph_share& share = {}) const;
  std::string description() const;
  /// How many vertices a generated graph has at most; 0 of a file.
  uint64_t vertices_of_generated() const;

  std::string file, division = "blocks";
  int rmat_scale = -1, cage_monomers = 0;
  std::vector<uint64_t> mesh_sides, grid_sides;
  double kept = 0.6;
  uint64_t edges_per_vertex = 16, seed = 1;
  uint32_t max_weight = 255;
  bool undirected = false, simple = false, real_weights = false;
  int threads = 1;  ///< that may generate a graph
};

/// One PE's part.
struct graph_part {
  uint64_t vertices = 0;  ///< of the whole graph
  partition by;
  csr rows;  ///< in the numbers of `by`
  vertex_code codes{1};
  vertex_ids ids;  ///< see edge_list
  /// The graph's own number of this PE's vertices.
  std::vector<uint64_t> old_numbers;

  /// What the graph calls this PE's vertices.
  std::vector<uint64_t> own_ids() const;
};

/// What the graph calls any vertex, by its code: 8 bytes for each vertex of the whole graph.
class ids_by_code {
 public:
  explicit ids_by_code(const graph_part& part);
  uint64_t operator()(uint32_t code) const;

 private:
  const graph_part& part_;
  std::vector<uint64_t> old_numbers_;  ///< of all vertices by their new numbers; empty: they are the same
};

/// The option --source ID.
void add_source_option(command_line& app, std::optional<uint64_t>& id);
/// The number of the vertex that the graph calls `id`. Throws gravel::error that says what its vertices are called.
uint64_t find_vertex(const graph_input& input, const graph_part& part, uint64_t id);
/// Fills all but `rows` and `ids`.
void name_part(graph_part& mine, partition by, int part);
/// Throws gravel::error. Division by edges or by METIS takes the memory of the whole graph for a while.
graph_part load_part(const graph_input& input, const graph_wish& wish, int part, int parts);

}  // namespace app
