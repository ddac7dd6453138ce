#include "examples/common/graph_input.hpp"

#include <fmt/format.h>

#include "examples/common/program.hpp"

namespace app {

void graph_input::add_options(command_line& app) {
  app.add_option("FILE", file,
                 "The graph: Matrix Market, SNAP edge list, METIS (*.graph) or Galois (.gr), plain or gzip");
  app.add_option("--rmat", rmat_scale, "Instead of a file: an R-MAT graph of 2^SCALE vertices")
      .range(1, 32)
      .type_name("SCALE");
  app.add_option("--edges-per-vertex", edges_per_vertex, "Of the R-MAT graph").range(1, 1024).capture_default_str();
  app.add_option("--mesh", mesh_sides, "A mesh of the triangles of WIDTH x HEIGHT squares")
      .expected(2)
      .type_name("WIDTH HEIGHT");
  app.add_option("--grid", grid_sides, "Like a road network: a grid with gaps").expected(2).type_name("WIDTH HEIGHT");
  app.add_option("--kept", kept, "Share of the grid's edges that are there").range(0.0, 1.0).capture_default_str();
  app.add_option("--cage", cage_monomers, "The matrix cageN, electrophoresis of a polymer of N monomers")
      .range(3, 15)
      .type_name("N");
  app.add_option("--seed", seed, "Of generated graphs, weights and METIS").capture_default_str();
  app.add_option("--max-weight", max_weight, "Weights of generated graphs are from 1 to this")
      .range(1u, 1u << 20)
      .capture_default_str();
  app.add_flag("--real-weights", real_weights, "Weights of a Galois file are float or double, not whole numbers");
  app.add_flag("--undirected", undirected, "Each edge counts in both directions");
  app.add_flag("--simple", simple, "Without loops, and of repeated edges the lightest alone");
  app.add_option("--division", division,
                 "Of the vertices among PEs: blocks of the same number of vertices, edges (of nearly as many edges), "
                 "degrees (those of "
                 "most edges first, in "
                 "turn), metis (few edges cut)")
      .one_of({"blocks", "edges", "degrees", "metis"})
      .capture_default_str();
}

void graph_input::check() const {
  const int given =
      !file.empty() + (rmat_scale >= 0) + !mesh_sides.empty() + !grid_sides.empty() + (cage_monomers != 0);
  if (given != 1) fail_text("give one graph: a FILE, --rmat, --mesh, --grid or --cage");
  if (!file.empty()) need_readable(file);
  if (division == "metis" && !gravel::has_metis())
    fail_text("--division metis: this Gravel was built without METIS (Debian package libmetis-dev)");
}

edge_list graph_input::edges(const graph_wish& wish, const graph_share& share) const {
  graph_share of = share;
  of.undirected = wish.undirected || undirected;
  of.reversed = wish.reversed;
  of.threads = threads;
  edge_list list;
  if (!file.empty())
    list = gravel::read_graph(file, of, {.names = {}, .weights = wish.weights, .real_weights = real_weights});
  else if (rmat_scale >= 0) list = gravel::rmat(rmat_scale, edges_per_vertex, seed, of);
  else if (!mesh_sides.empty()) list = gravel::mesh(mesh_sides[0], mesh_sides[1], seed, of);
  else if (!grid_sides.empty()) list = gravel::road_grid(grid_sides[0], grid_sides[1], kept, seed, of);
  else list = gravel::cage(cage_monomers, of);
  if (wish.weights && file.empty()) gravel::assign_weights(list, max_weight, seed);
  return list;
}

std::string graph_input::description() const {
  if (!file.empty()) return file;
  if (rmat_scale >= 0) return fmt::format("R-MAT of scale {}", rmat_scale);
  if (!mesh_sides.empty()) return fmt::format("mesh {} x {}", mesh_sides[0], mesh_sides[1]);
  if (!grid_sides.empty())
    return fmt::format("grid {} x {} with {:g} of its edges", grid_sides[0], grid_sides[1], kept);
  return fmt::format("cage{}", cage_monomers);
}

uint64_t graph_input::vertices_of_generated() const {
  if (!file.empty()) return 0;
  if (rmat_scale >= 0) return uint64_t{1} << rmat_scale;
  if (!mesh_sides.empty()) return 2 * mesh_sides[0] * mesh_sides[1];
  if (!grid_sides.empty()) return grid_sides[0] * grid_sides[1];
  return gravel::cage_size(cage_monomers).vertices;
}

void name_part(graph_part& mine, partition by, int part) {
  mine.by = std::move(by);
  mine.vertices = mine.by.vertices();
  mine.codes = vertex_code::of(mine.by.most(), mine.by.parts());
  const uint64_t first = mine.by.first[static_cast<size_t>(part)], count = mine.by.count(part);
  mine.old_numbers.resize(count);
  for (uint64_t v = 0; v < (mine.by.number.empty() ? 0 : mine.vertices); ++v)
    if (mine.by.number[v] - first < count) mine.old_numbers[mine.by.number[v] - first] = v;
  if (mine.by.number.empty())
    for (uint64_t i = 0; i < count; ++i) mine.old_numbers[i] = first + i;
}

std::vector<uint64_t> graph_part::own_ids() const {
  std::vector<uint64_t> all;
  all.reserve(old_numbers.size());
  for (const uint64_t v : old_numbers) all.push_back(ids.of(v));
  return all;
}

ids_by_code::ids_by_code(const graph_part& part) : part_(part), old_numbers_(part.by.number.size()) {
  for (uint64_t v = 0; v < old_numbers_.size(); ++v) old_numbers_[part.by.number[v]] = v;
}

uint64_t ids_by_code::operator()(uint32_t code) const {
  const uint64_t number = part_.by.first[static_cast<size_t>(part_.codes.owner(code))] + part_.codes.place(code);
  return part_.ids.of(old_numbers_.empty() ? number : old_numbers_[number]);
}

void add_source_option(command_line& app, std::optional<uint64_t>& id) {
  app.add_option("--source", id,
                 "The vertex to begin at, by its id in the file (Matrix Market and METIS count from 1; generated "
                 "graphs and Galois files from "
                 "0); if not given, one with the most edges");
}

uint64_t find_vertex(const graph_input& input, const graph_part& part, uint64_t id) {
  if (const auto vertex = part.ids.find(id, part.vertices)) return *vertex;
  const uint64_t first = part.ids.of(0), last = part.ids.of(part.vertices - 1);
  std::string called = fmt::format("are counted from 0 to {}", last);
  if (!part.ids.listed.empty()) called = fmt::format("have the ids that its edges name, from {} to {}", first, last);
  else if (first == 1) called = fmt::format("are counted from 1 to {}, as Matrix Market and METIS do", last);
  fail("there is no vertex {} in {}: its {} vertices {}", id, input.description(), part.vertices, called);
}

graph_part load_part(const graph_input& input, const graph_wish& wish, int part, int parts) {
  graph_part mine;
  const bool blocks = input.division == "blocks";
  uint64_t vertices = 0;
  partition by;
  {
    edge_list list = input.edges(wish, blocks ? graph_share{.part = part, .parts = parts} : graph_share{});
    vertices = list.vertices;
    mine.ids = std::move(list.ids);
    mine.rows = blocks ? gravel::make_csr(list, part, parts) : gravel::make_csr(list);
    if (input.division == "degrees") by = gravel::by_degrees(list, parts);
  }
  if (wish.simple || input.simple)
    gravel::simplify(mine.rows, blocks ? gravel::block_distribution(vertices, parts).first(part) : 0);
  if (blocks) {
    name_part(mine, gravel::contiguous(vertices, parts), part);
  } else {
    if (input.division == "edges") by = gravel::by_edges(mine.rows, parts);
    if (input.division == "metis") by = gravel::by_metis(mine.rows, parts, input.seed);
    name_part(mine, std::move(by), part);
    mine.rows = gravel::rows_of(mine.rows, mine.by, part);
  }
  return mine;
}

}  // namespace app
