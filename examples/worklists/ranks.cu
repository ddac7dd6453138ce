// PageRank by a distributed worklist (gravel::page_rank). The ranks are compared with what the definition says, and
// with a serial power iteration.
#include <cmath>
#include <cstdio>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "examples/worklists/worklist_program.hpp"

using namespace app;
using gravel::csr;
using gravel::device_array;
using gravel::make_csr;
using gravel::page_rank;
using gravel::simplify;
using gravel::worklist_graph;
using gravel::detail::launch_for;
using gravel::detail::words_of_all;

constexpr const char* program_name = "ranks";

struct ranks_options {
  graph_input graph;
  worklist_program_options work;
  double damping = 0.85, tolerance = 1e-6;
  bool no_verify = false;
  std::string json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// What each own vertex gives each of its neighbours: rank / degree.
__global__ void share_ranks(worklist_graph graph, const double* ranks, double* shares) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < graph.own;
       v += uint64_t{gridDim.x} * blockDim.x) {
    const uint64_t degree = graph.offsets[v + 1] - graph.offsets[v];
    shares[v] = degree ? ranks[v] / static_cast<double>(degree) : 0;
  }
}
/// Sums of |1 + damping * shares of neighbours - rank|, and of the ranks.
__global__ void sum_up_errors(worklist_graph graph, const double* ranks, const double* shares, double damping,
                              double* sums) {
  double error = 0, all = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < graph.own;
       v += uint64_t{gridDim.x} * blockDim.x) {
    double sum = 0;
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) sum += shares[graph.targets[e]];
    error += fabs(1 + damping * sum - ranks[v]);
    all += ranks[v];
  }
  atomicAdd(&sums[0], error);
  atomicAdd(&sums[1], all);
}

/// Power iteration, of doubles.
std::vector<double> rank_serially(const ranks_options& o) {
  csr rows = make_csr(o.graph.edges({.undirected = true}));
  if (o.graph.simple) simplify(rows);
  std::vector<double> rank(rows.rows(), 1), next(rows.rows());
  for (double change = 1; change > o.tolerance / 100;) {
    std::fill(next.begin(), next.end(), 1.0);
    for (uint64_t v = 0; v < rows.rows(); ++v)
      for (uint64_t e = rows.offsets[v]; e < rows.offsets[v + 1]; ++e)
        next[rows.targets[e]] += o.damping * rank[v] / static_cast<double>(rows.degree(v));
    change = 0;
    for (uint64_t v = 0; v < rows.rows(); ++v) change = std::max(change, std::fabs(next[v] - rank[v]));
    rank.swap(next);
  }
  return rank;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const ranks_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  device_part graph;
  all_succeed(program_name, [&] { graph = load_on_device(o.graph, {.undirected = true}, me, n_pes); });
  const graph_part& part = graph.part;
  const graph_summary all(graph);
  const uint64_t own = graph.own(), vertices = all.vertices, edges = all.edges;
  device_array<uint32_t> ghosts(graph.ghosts.codes);
  const worklist_graph here{graph.offsets.data(),     graph.targets.data(), ghosts.data(), part.codes, own,
                            graph.ghosts.codes.size()};
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges in both directions, in memory after "
        "%.2f s; damping %g, "
        "tolerance %g\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges), graph.seconds, o.damping,
        o.tolerance);
  std::fflush(stdout);

  page_rank work(here, graph.edges, {.work = o.work.options(), .damping = o.damping, .tolerance = o.tolerance});
  double seconds = 0;
  for (unsigned run = 0; run < o.work.repeat; ++run) {
    wait_to_begin_together();
    const double took = gravel_max_all(seconds_of([&] { work.run(); }));
    seconds = run == 0 ? took : std::min(seconds, took);
  }
  const run_summary run(work.counts());

  device_array<double> shares(std::max<uint64_t>(own, 1));
  words_of_all<double> all_shares(here);
  launch_for(own, share_ranks, here, work.ranks(), shares.data());
  all_shares.fetch(shares.data());
  device_array<double> sums(std::vector<double>(2));
  launch_for(own, sum_up_errors, here, work.ranks(), static_cast<const double*>(all_shares.words()), o.damping,
             sums.data());
  gravel_synchronize();
  double of_pe[2];
  gravel_copy(of_pe, sums.data(), sizeof(of_pe));
  // Per vertex.
  const double n = static_cast<double>(std::max<uint64_t>(vertices, 1)), error = gravel_sum_all(of_pe[0]) / n,
               mean = gravel_sum_all(of_pe[1]) / n;
  bool right = error <= o.tolerance;
  double distance = 0;
  const bool serial = !o.no_verify && edges <= o.serial_limit;
  std::vector<double> found(own);
  gravel_copy(found.data(), work.ranks(), own * sizeof(double));
  if (serial) {
    std::vector<double> expected;
    all_succeed(program_name, [&] { expected = rank_serially(o); });
    for (uint64_t i = 0; i < own; ++i)
      distance =
          std::max(distance, std::fabs(found[i] - expected[part.old_numbers[i]]) / expected[part.old_numbers[i]]);
    distance = gravel_max_all(distance);
    right = right && distance <= o.tolerance;
  }
  if (me == 0) {
    std::printf(
        "%.6f s, %.4g M edges/s; %.2f expansions of each vertex, %.2f sweeps over all edges, %llu values sent, %llu "
        "rounds, %llu "
        "exchanges, %llu kernels\n",
        seconds, static_cast<double>(run.followed) / seconds / 1e6, static_cast<double>(run.expanded) / n,
        static_cast<double>(run.followed) / static_cast<double>(std::max<uint64_t>(edges, 1)),
        static_cast<unsigned long long>(run.sent), static_cast<unsigned long long>(run.here.rounds),
        static_cast<unsigned long long>(run.here.exchanges), static_cast<unsigned long long>(run.here.launches));
    std::printf("mean residual %.3g of what a vertex begins with; mean rank %.6g", error, mean);
    if (serial) std::printf("; greatest relative distance to a serial power iteration: %.3g", distance);
    std::printf("\n");
  }
  if (!o.dump.empty()) dump_columns(program_name, o.dump, "ranks", {{"vertex", {}, part.own_ids()}, {"rank", found}});
  facts = facts_of_run(program_name, o.graph, o.work, all, run,
                       {{"damping", o.damping},
                        {"tolerance", o.tolerance},
                        {"seconds", seconds},
                        {"mean_residual", error},
                        {"compared_with_serial", serial},
                        {"distance_to_serial", distance},
                        {"right", right}});
  return right;
}

void ranks_options::add_options(command_line& line) {
  graph.add_options(line);
  work.add_options(line);
  line.add_option("--damping", damping, "Share of a rank that is passed on").range(0.0, 0.999).capture_default_str();
  line.add_option("--tolerance", tolerance, "Of a rank, as a share of what each vertex has from the beginning")
      .range(1e-9, 1.0)
      .capture_default_str();
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial power iteration");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void ranks_options::check() { graph.check(); }
uint64_t ranks_options::symmetric_bytes() const { return 16 * graph.vertices_of_generated(); }
void ranks_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application<page_rank::delivery>(
      {program_name, "PageRank of an undirected graph by a distributed worklist of residuals."}, argc, argv,
      ranks_options{}, solve);
}
