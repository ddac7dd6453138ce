// In-degrees of a directed graph (Gravel paper, figure 9): every lane walks the out-edges of its vertices and
// increments a counter at the PE that owns the target. Rows of a real graph differ in length, so lanes
// diverge: each sends when it has something to send, and the sender gathers what comes.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/graph.hpp>
#include <gravel/gravel.cuh>
#include "bench/rivals/direct_sender.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/program.hpp"
#include "examples/common/progress.hpp"
#include "examples/common/ranking.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"

using namespace app;
using gravel::block_distribution;
using gravel::csr;
using gravel::device_array;
using gravel::edge;
using gravel::edge_list;
using gravel::make_csr;
using gravel::names_path_of;
using gravel::read_graph;
using gravel::rmat;

constexpr const char* program_name = "indegree";

struct indegree_options {
  std::string file, names;
  bool no_names = false, no_verify = false;
  int rmat_scale = -1;
  uint64_t edges_per_vertex = 16, seed = 1;
  uint32_t top = 10;
  std::string sender = "block";
  unsigned grid = 0;
  uint64_t serial_limit = 1 << 24;

  void add_options(command_line& line);
  void check();
  void complete();
};

/// Rows of the graph as kernels see them: `vertices` of them, targets numbered over the whole graph.
struct device_rows {
  const uint64_t* offsets;
  const uint64_t* targets;
  block_distribution distribution;
};

template <class Sender>
GRAVEL_DEVICE void walk(Sender& sender, const device_rows& rows, uint64_t* degree, uint64_t first, uint64_t count) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < count; v += lanes)
    for (uint64_t e = rows.offsets[first + v]; e < rows.offsets[first + v + 1]; ++e) {
      const uint64_t target = rows.targets[e];
      sender.inc(&degree[rows.distribution.local_index(target)], rows.distribution.owner(target));
    }
}

__global__ void walk_gathered(gravel_t g, device_rows rows, uint64_t* degree, uint64_t first, uint64_t count) {
  __shared__ gravel_block_sender<lanes_of_block> sender;
  sender.begin(g);
  walk(sender, rows, degree, first, count);
  sender.end();
}

__global__ void walk_directly(gravel_t g, device_rows rows, uint64_t* degree, uint64_t first, uint64_t count) {
  direct_sender sender{g};
  walk(sender, rows, degree, first, count);
}

edge_list load(const indegree_options& o, int part, int parts) {
  return o.file.empty() ? rmat(o.rmat_scale, o.edges_per_vertex, o.seed, {part, parts})
                        : read_graph(o.file, {part, parts}, {.names = o.names});
}

/// Number of counters that are wrong, over all PEs. Every PE counts its own vertices in the whole
/// graph.
uint64_t compare_with_serial(const indegree_options& o, const block_distribution& distribution,
                             const std::vector<uint64_t>& degree) {
  std::vector<uint64_t> expected(degree.size());
  all_succeed(program_name, [&] {
    for (const edge& e : load(o, 0, 1).edges)
      if (distribution.owner(e.target) == gravel_my_pe()) ++expected[distribution.local_index(e.target)];
  });
  uint64_t wrong = 0;
  for (size_t i = 0; i < degree.size(); ++i) wrong += degree[i] != expected[i];
  return gravel_sum_all(wrong);
}

void print_best(const std::vector<ranked<uint64_t>>& best, const edge_list& graph) {
  if (best.empty()) return;
  std::printf("highest in-degrees:\n");
  for (const ranked<uint64_t>& r : best) {
    if (!graph.names.empty())
      std::printf("%12llu  %s\n", static_cast<unsigned long long>(r.score), graph.names[r.vertex].c_str());
    else
      std::printf("%12llu  vertex %llu\n", static_cast<unsigned long long>(r.score),
                  static_cast<unsigned long long>(graph.ids.of(r.vertex)));
  }
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool count_degrees(const indegree_options& o, fact_list&) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  edge_list graph;
  csr rows;
  all_succeed(program_name, [&] {
    graph = load(o, me, n_pes);
    rows = make_csr(graph, me, n_pes);
    graph.edges = {};
  });
  const block_distribution distribution(graph.vertices, n_pes);
  const uint64_t own_vertices = distribution.count(me), own_edges = rows.targets.size();
  if (me == 0)
    std::printf("%s: %d PEs on %d nodes, %s backend, %s sender\ngraph: %s, %llu vertices, %llu edges\n", program_name,
                n_pes, gravel_n_nodes(), gravel_backend(), o.sender.c_str(), o.file.empty() ? "R-MAT" : o.file.c_str(),
                static_cast<unsigned long long>(graph.vertices), static_cast<unsigned long long>(graph.total_edges));

  auto* degree = gravel_malloc<uint64_t>(distribution.block * sizeof(uint64_t));
  device_array<uint64_t> offsets(rows.offsets), targets(rows.targets);
  const device_rows on_device{offsets.data(), targets.data(), distribution};
  uint64_t hash = 0;  // of all edges, by where they lead
  for (const uint64_t target : rows.targets) hash += mix(target);
  hash = gravel_sum_all(hash);
  rows = {};
  wait_to_begin_together();
  const double seconds = seconds_of([&] {
    progress report(program_name, me == 0);
    in_pieces(own_vertices, 1 << 20, report, [&](uint64_t first, uint64_t count) {
      const auto kernel = o.sender == "direct" ? walk_directly : walk_gathered;
      gravel_launch(kernel, o.grid, lanes_of_block, gravel_handle(), on_device, degree, first, count);
      gravel_synchronize();
    });
    gravel_barrier_all();
  });

  std::vector<uint64_t> counted(own_vertices);
  gravel_copy(counted.data(), degree, own_vertices * sizeof(uint64_t));
  uint64_t sum = 0, hash_of_counts = 0;
  for (uint64_t i = 0; i < own_vertices; ++i) {
    sum += counted[i];
    hash_of_counts += counted[i] * mix(distribution.first(me) + i);
  }
  sum = gravel_sum_all(sum);
  const bool hash_right = gravel_sum_all(hash_of_counts) == hash;
  const uint64_t edges = gravel_sum_all(own_edges);
  bool right = sum == graph.total_edges && edges == graph.total_edges && hash_right;
  const bool serial = !o.no_verify && graph.total_edges <= o.serial_limit;
  const uint64_t wrong = serial ? compare_with_serial(o, distribution, counted) : 0;
  right &= wrong == 0;
  std::vector<ranked<uint64_t>> scores;
  for (uint64_t i = 0; i < own_vertices; ++i) scores.push_back({counted[i], distribution.first(me) + i});
  const auto best = gather_best(std::move(scores), o.top);
  if (me == 0) {
    std::printf("%.3f s: %.4g M edges/s; in-degrees sum up to %llu of %llu, and their hash is %s of all edges\n",
                seconds, static_cast<double>(edges) / seconds / 1e6, static_cast<unsigned long long>(sum),
                static_cast<unsigned long long>(graph.total_edges), hash_right ? "that" : "NOT that");
    if (serial)
      std::printf("%llu wrong in-degrees, compared with a serial count\n", static_cast<unsigned long long>(wrong));
    print_best(best, graph);
  }
  return right;
}

void indegree_options::add_options(command_line& line) {
  line.add_option("FILE", file, "The graph");
  line.add_option("--rmat", rmat_scale, "Instead of a file: an R-MAT graph of 2^SCALE vertices")
      .range(0, 32)
      .type_name("SCALE");
  line.add_option("--edges-per-vertex", edges_per_vertex, "Of the R-MAT graph").range(1, 1024).capture_default_str();
  line.add_option("--seed", seed, "Of the R-MAT graph").capture_default_str();
  line.add_option("--names", names,
                  "Names of the vertices, one a line; if not given, FILE's own name ending in .names, if there is one");
  line.add_flag("--no-names", no_names, "Do not look for a file of names").excludes("--names");
  line.add_option("--top", top, "Print so many vertices of the highest in-degrees")
      .range(0, 100000)
      .capture_default_str();
  line.add_option("--sender", sender, "block (gathered and sorted in thread blocks) or direct (warp by warp)")
      .one_of({"block", "direct"})
      .capture_default_str();
  line.add_option("--grid", grid, "Thread blocks; 0: as many as fill the device")
      .range(0, 1 << 20)
      .capture_default_str();
  line.add_flag("--no-verify", no_verify, "Do not check the result");
  line.add_option("--serial-limit", serial_limit,
                  "Compare with a serial count up to so many edges (else only by sum and hash)")
      .capture_default_str();
}
void indegree_options::check() {
  if (file.empty() == (rmat_scale < 0)) fail_text("give either a graph FILE or --rmat SCALE");
  if (file.empty()) {
    if (!names.empty()) fail_text("--names goes with a graph FILE");
    return;
  }
  need_readable(file);
  if (names.empty() && !no_names) {
    const std::string beside = names_path_of(file);
    struct stat found;
    if (stat(beside.c_str(), &found) == 0) names = beside;
  }
  if (!names.empty()) need_readable(names);
}
void indegree_options::complete() {
  if (grid == 0) grid = blocks_to_fill_device();
}

int main(int argc, char** argv) {
  return run_application(
      {program_name,
       "In-degrees of a directed graph: SNAP edge list or Matrix Market file, plain or gzip, or a synthetic "
       "one."},
      argc, argv, indegree_options{}, count_degrees);
}
