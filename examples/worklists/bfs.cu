// Breadth-first search. By one kernel for all levels (gravel_search) where the job and the graph suit it, otherwise by
// a distributed worklist (gravel::breadth_first_search). The result is checked by the rules of Graph500.
#include <cmath>
#include <cstdio>
#include <deque>
#include <optional>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include <gravel/search.cuh>
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/ranking.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "examples/worklists/check_search.cuh"
#include "examples/worklists/search_parents.cuh"
#include "examples/worklists/worklist_program.hpp"

using namespace app;
using gravel::breadth_first_search;
using gravel::csr;
using gravel::device_array;
using gravel::least_keys;
using gravel::make_csr;
using gravel::worklist_graph;

constexpr const char* program_name = "bfs";

struct bfs_options {
  graph_input graph;
  worklist_program_options work;
  std::optional<uint64_t> source;  ///< its id in the file
  unsigned roots = 0;
  uint32_t width = 0;
  double pull_from = 0.01, push_below = 0.0005;
  bool no_pull = false, no_verify = false;
  std::string method = "automatic", parents = "names", json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
  /// Whether the kernel may be used: no option says how the worklist works.
  bool allows_kernel() const {
    return method == "kernel" || (method == "automatic" && !no_pull && width == 0 && work.execution == "automatic");
  }
};

/// One search. Collective.
struct bfs_job {
  const bfs_options& o;
  breadth_first_search& worklist;
  gravel_search* kernel;      ///< null: by the worklist
  unsigned pulls = 0;         ///< levels in which vertices looked back
  double kernel_seconds = 0;  ///< what the kernel took, and its levels by their kind
  double level_seconds[4] = {};

  void search(const vertex_place& source) {
    pulls = 0;
    if (kernel) {
      if (kernel->run(source.owner, source.place, o.parents == "names" ? gravel_parents::names : gravel_parents::codes))
        return;
      kernel = nullptr;  // at all PEs
    }
    worklist.run(source.owner, source.place);
    pulls = worklist.levels_looked_back();
  }
  /// What the kernel noted about its last run.
  void read_log() {
    const gravel::detail::search_log& log = kernel->log();
    kernel_seconds = static_cast<double>(log.ns) * 1e-9;
    std::fill(std::begin(level_seconds), std::end(level_seconds), 0);
    uint64_t before = 0;
    for (uint32_t i = 0; i < std::min(log.levels, gravel::detail::search_log::most_levels); ++i) {
      const gravel::detail::search_level& level = log.level[i];
      level_seconds[static_cast<uint32_t>(level.how)] += static_cast<double>(level.ns - before) * 1e-9;
      before = level.ns;
      pulls += level.how >= gravel::detail::search_level::way::looked_back;
    }
  }
};

std::vector<uint32_t> search_serially(const bfs_options& o, uint64_t source) {
  const csr rows = make_csr(o.graph.edges({.undirected = true}));
  std::vector<uint32_t> level(rows.rows(), least_keys::unreached);
  std::deque<uint64_t> next{source};
  level[source] = 0;
  for (; !next.empty(); next.pop_front()) {
    const uint64_t v = next.front();
    for (uint64_t e = rows.offsets[v]; e < rows.offsets[v + 1]; ++e)
      if (level[rows.targets[e]] == least_keys::unreached) {
        level[rows.targets[e]] = level[v] + 1;
        next.push_back(rows.targets[e]);
      }
  }
  return level;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const bfs_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  device_part graph;
  all_succeed(program_name, [&] { graph = load_on_device(o.graph, {.undirected = true}, me, n_pes); });
  const graph_part& part = graph.part;
  const csr& rows = part.rows;
  const graph_summary all(graph);
  const uint64_t own = graph.own(), vertices = all.vertices, edges = all.edges;
  device_array<uint32_t> ghosts(graph.ghosts.codes);
  const worklist_graph here{graph.offsets.data(),     graph.targets.data(), ghosts.data(), part.codes, own,
                            graph.ghosts.codes.size()};
  const device_array<uint32_t> numbers(std::vector<uint32_t>(part.old_numbers.begin(), part.old_numbers.end()));
  std::optional<gravel_search> kernel;
  std::string refusal;
  parent_names names{};
  device_array<uint32_t> code_of_number;
  double table_seconds = 0;
  if (o.allows_kernel()) {
    const bool with_names = o.parents == "names";
    all_succeed(program_name, [&] {
      if (with_names && vertices >= gravel_search::no_parent)
        fail_text("--parents names: the graph has 2^32 - 1 vertices or more; use --parents codes");
    });
    table_seconds = seconds_of([&] { kernel.emplace(here, graph.edges, with_names ? numbers.data() : nullptr); });
    refusal = kernel->refusal();
    if (!kernel->fits()) kernel.reset();
    all_succeed(program_name, [&] {
      if (!kernel && o.method == "kernel") fail_text("--method kernel: " + refusal);
    });
    if (kernel && with_names) code_of_number = codes_by_number(part, kernel->bitmap());
    if (kernel) names = {kernel->bitmap(), code_of_number.data(), vertices};
  }
  breadth_first_search search(here, graph.edges,
                              {.work = o.work.options(),
                               .width = o.width,
                               .looks_back = !o.no_pull,
                               .look_back_from = o.pull_from,
                               .work_on_below = o.push_below});
  // Graph500: vertices that have edges, drawn at random.
  std::vector<uint64_t> sources;
  if (o.roots) sources = draw_sources(rows, part, o.roots, o.graph.seed);
  else if (!o.source) sources = {most_connected(rows, part)};
  all_succeed(program_name, [&] {
    if (o.source) sources = {find_vertex(o.graph, part, *o.source)};
    if (sources.empty()) fail_text("--roots: no vertex has an edge");
  });
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges in both directions, in memory after "
        "%.2f s; %zu "
        "searches\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges), graph.seconds,
        sources.size());
  std::fflush(stdout);

  bfs_job job{o, search, kernel ? &*kernel : nullptr};
  double kernel_seconds = 0, level_seconds[4] = {};
  uint64_t wrong = 0, reached = 0, levels = 0, searched_edges = 0;
  double seconds = 0, rate_sum = 0, slowest = 0;
  bool serial = false;
  for (size_t k = 0; k < sources.size(); ++k) {
    const uint64_t source = sources[k];
    const vertex_place at(part, source);
    double best = 0;
    for (unsigned run = 0; run < o.work.repeat; ++run) {
      wait_to_begin_together();
      const double took = gravel_max_all(seconds_of([&] { job.search(at); }));
      best = run == 0 ? took : std::min(best, took);
    }
    if (job.kernel) {
      job.read_log();
      kernel_seconds += job.kernel_seconds;
      for (int way = 0; way < 4; ++way) level_seconds[way] += job.level_seconds[way];
      wrong += gravel_sum_all(take_parents(search.bits(), search.kernels_view(), kernel->parents(), names,
                                           names.bitmap.code_of(at.owner, static_cast<uint32_t>(at.place)), vertices));
    }
    search.bits().fetch_levels(search.kernels_view());
    const bfs_check check = check_by_graph500(search.bits(), search.kernels_view(), at.place_here());
    wrong += gravel_sum_all(check.wrong);
    reached = gravel_sum_all(check.reached);
    levels = gravel_max_all(uint64_t{check.deepest}) + 1;
    searched_edges = gravel_sum_all(check.edges) / 2;  // each undirected edge is there twice
    wrong += at.owner == me && check.reached == 0;
    wrong = gravel_max_all(wrong);
    seconds += best;
    slowest = std::max(slowest, best);
    rate_sum += best / static_cast<double>(std::max<uint64_t>(searched_edges, 1));
    serial = !o.no_verify && edges <= o.serial_limit && k < 2;
    if (serial) {
      std::vector<uint32_t> expected, mine(own);
      all_succeed(program_name, [&] { expected = search_serially(o, source); });
      gravel_copy(mine.data(), search.vertex_words(), own * sizeof(uint32_t));
      uint64_t unlike = 0;
      for (uint64_t i = 0; i < own; ++i) unlike += least_keys::key_of(mine[i]) != expected[part.old_numbers[i]];
      wrong += gravel_sum_all(unlike);
    }
  }
  const double mean = seconds / static_cast<double>(sources.size()),
               rate = static_cast<double>(sources.size()) / rate_sum;
  const run_summary run(search.counts());
  const bool by_kernel = job.kernel != nullptr;
  const auto us_of_search = [&](double all) { return all / static_cast<double>(sources.size()) * 1e6; };
  if (me == 0 && by_kernel)
    std::printf(
        "in one kernel: %.1f us, of them %.1f us expanding, %.1f us of many edges, %.1f us looking back, %.1f us "
        "for the last vertices; parents by %s; tables made in %.3f s\n",
        us_of_search(kernel_seconds), us_of_search(level_seconds[0]), us_of_search(level_seconds[1]),
        us_of_search(level_seconds[2]), us_of_search(level_seconds[3]), o.parents.c_str(), table_seconds);
  if (kernel && !by_kernel) refusal = "the graph is too deep for one kernel";
  if (me == 0 && !refusal.empty()) std::printf("by the worklist: %s\n", refusal.c_str());
  if (me == 0) {
    std::printf(
        "%.6f s a search (slowest %.6f), harmonic mean %.4g G edges/s as Graph500 counts; last: %llu vertices in %llu "
        "levels, %llu "
        "expanded, "
        "%llu edges followed, %llu values sent, %u levels by looking back, %llu rounds, %llu kernels\n",
        mean, slowest, rate / 1e9, static_cast<unsigned long long>(reached), static_cast<unsigned long long>(levels),
        static_cast<unsigned long long>(run.expanded), static_cast<unsigned long long>(run.followed),
        static_cast<unsigned long long>(run.sent), job.pulls, static_cast<unsigned long long>(run.here.rounds),
        static_cast<unsigned long long>(run.here.launches));
    std::printf("%llu mistakes found by Graph500's rules%s\n", static_cast<unsigned long long>(wrong),
                serial ? " and a serial search" : "");
  }
  if (!o.dump.empty()) {
    std::vector<uint32_t> words(own);
    gravel_copy(words.data(), search.vertex_words(), own * sizeof(uint32_t));
    std::vector<double> depth;  // -1: not reached
    for (const uint32_t w : words)
      depth.push_back(least_keys::key_of(w) == least_keys::unreached ? -1 : static_cast<double>(least_keys::key_of(w)));
    dump_columns(program_name, o.dump, "levels", {{"vertex", {}, part.own_ids()}, {"level", depth}});
  }
  facts = facts_of_run(program_name, o.graph, o.work, all, run,
                       {{"load_seconds", graph.seconds},
                        {"searches", static_cast<uint64_t>(sources.size())},
                        {"seconds", mean},
                        {"slowest_seconds", slowest},
                        {"harmonic_mean_teps", rate},
                        {"reached", reached},
                        {"levels", levels},
                        {"levels_by_scanning_back", uint64_t{job.pulls}},
                        {"method", by_kernel ? "kernel" : "worklist"},
                        {"parents", by_kernel ? o.parents : "codes"},
                        {"tables_seconds", table_seconds},
                        {"kernel_us", us_of_search(kernel_seconds)},
                        {"expanding_us", us_of_search(level_seconds[0])},
                        {"expanding_many_us", us_of_search(level_seconds[1])},
                        {"looking_back_us", us_of_search(level_seconds[2])},
                        {"looking_back_sparse_us", us_of_search(level_seconds[3])},
                        {"compared_with_serial", serial},
                        {"wrong", wrong},
                        {"right", wrong == 0}});
  return wrong == 0;
}

void bfs_options::add_options(command_line& line) {
  graph.add_options(line);
  work.add_options(line);
  add_source_option(line, source);
  line.add_option(
          "--roots", roots,
          "Instead: as Graph500, from so many vertices with edges, drawn at random; the harmonic mean is reported")
      .range(1u, 4096u)
      .excludes("--source");
  line.add_option(
          "--method", method,
          "One kernel for all levels; the worklist; automatic: the kernel where job and graph suit it and no option "
          "says how the worklist works, else the worklist")
      .one_of({"automatic", "kernel", "worklist"})
      .capture_default_str();
  line.add_option("--parents", parents, "How the kernel calls parents: by the graph's own numbers, or by codes")
      .one_of({"names", "codes"})
      .capture_default_str();
  line.add_option("--pull-from", pull_from, "Share of all edges from which on vertices that are not found look back")
      .range(0.0, 1.0)
      .capture_default_str();
  line.add_option("--push-below", push_below,
                  "Share of all vertices, found in a level, below which the worklist goes on")
      .range(0.0, 1.0)
      .capture_default_str();
  line.add_option("--width", width,
                  "Of several PEs: levels that each works on before they exchange; 0: 64 by the worklist alone, else 1 "
                  "(the least that "
                  "looking back allows)")
      .range(0u, 1u << 20)
      .capture_default_str();
  line.add_flag("--no-pull", no_pull, "By the worklist alone");
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial search; Graph500's rules are always checked");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void bfs_options::check() {
  graph.check();
  if (!no_pull && width > 1) fail_text("--width above 1 goes with --no-pull: who looks back must know a whole level");
}
uint64_t bfs_options::symmetric_bytes() const {
  const uint64_t vertices = graph.vertices_of_generated();
  return 12 * vertices + (allows_kernel() && vertices ? gravel_search::symmetric_bytes(vertices, 1, true) : 0);
}
void bfs_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application<breadth_first_search::delivery>(
      {program_name, "Breadth-first search of an undirected graph, by a distributed worklist."}, argc, argv,
      bfs_options{}, solve);
}
