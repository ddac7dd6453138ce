// Shortest paths from one vertex (gravel::shortest_paths): by one kernel where the job and the graph suit it, otherwise
// by a worklist, with priorities or without, to see what they save. The distances are compared with what all edges
// offer, and with a serial run.
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include "bench/rivals/serial_paths.hpp"
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "examples/worklists/worklist_program.hpp"

using namespace app;
using gravel::device_array;
using gravel::fetch_add;
using gravel::least_keys;
using gravel::make_csr;
using gravel::scope;
using gravel::shortest_paths;
using gravel::worklist_graph;
using gravel::detail::distance_of_key;
using gravel::detail::key_of_distance;
using gravel::detail::launch_for;
using gravel::detail::words_of_all;

constexpr const char* program_name = "paths";

struct paths_options {
  graph_input graph;
  worklist_program_options work;
  std::optional<uint64_t> source;  ///< its id in the file
  unsigned roots = 0;
  double delta = 0;
  bool no_priority = false, no_verify = false;
  std::string method = "automatic", json, dump;
  uint64_t serial_limit = 1 << 22;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
  gravel::paths_method how() const {
    if (method == "kernel") return gravel::paths_method::kernel;
    return method == "worklist" ? gravel::paths_method::worklist : gravel::paths_method::automatic;
  }
};

/// Counts vertices whose distance is not the least that their neighbours offer. Edges lead in both directions, with the
/// same weight.
__global__ void count_wrong(worklist_graph graph, const float* weights, const uint32_t* words, uint64_t source_place,
                            uint64_t* wrong) {
  uint64_t mine = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < graph.own;
       v += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t least = v == source_place ? 0 : least_keys::unreached;
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
      const uint32_t key = least_keys::key_of(words[graph.targets[e]]);
      if (key == least_keys::unreached) continue;
      const uint32_t offer = key_of_distance(distance_of_key(key) + weights[e]);
      if (offer < least) least = offer;
    }
    mine += least_keys::key_of(words[v]) != least || least_keys::waits(words[v]);
  }
  if (mine) fetch_add<scope::device>(wrong, mine);
}

/// What the kernel noted about its last run, in words. Steps of one kind that follow each other come together.
std::string describe_steps(const gravel::detail::paths_log& log) {
  constexpr const char* names[] = {"near", "core", "stages", "redo", "pushes"};
  std::string text = "in one kernel: " + std::to_string(static_cast<double>(log.ns) * 1e-3) + " us:";
  const uint32_t steps = std::min(log.steps, gravel::detail::paths_log::most_steps);
  uint64_t before = 0;
  for (uint32_t i = 0; i < steps; ++i) {
    const gravel::detail::paths_step& step = log.step[i];
    if (i == 0 || step.what != log.step[i - 1].what)
      text += std::string(i == 0 ? " " : "; ") + names[static_cast<uint32_t>(step.what)];
    text += " " + std::to_string((step.ns - before) / 1000) + " (" + std::to_string(step.count) + ")";
    before = step.ns;
  }
  return text;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const paths_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  device_part graph;
  all_succeed(program_name, [&] { graph = load_on_device(o.graph, {.weights = true, .undirected = true}, me, n_pes); });
  const graph_part& part = graph.part;
  const graph_summary all(graph);
  const uint64_t own = graph.own(), vertices = all.vertices, edges = all.edges;
  device_array<uint32_t> ghosts(graph.ghosts.codes);
  const worklist_graph here{graph.offsets.data(),     graph.targets.data(), ghosts.data(), part.codes, own,
                            graph.ghosts.codes.size()};
  std::vector<uint64_t> sources;
  if (o.roots) sources = draw_sources(part.rows, part, o.roots, o.graph.seed);
  else if (!o.source) sources = {most_connected(part.rows, part)};
  all_succeed(program_name, [&] {
    if (o.source) sources = {find_vertex(o.graph, part, *o.source)};
    if (sources.empty()) fail_text("--roots: no vertex has an edge");
  });
  std::optional<shortest_paths> all_paths;
  const double made_seconds = seconds_of([&] {
    all_succeed(program_name, [&] {
      all_paths.emplace(
          here, graph.edges, graph.weights.data(),
          gravel::shortest_paths_options{
              .work = o.work.options(), .has_priorities = !o.no_priority, .delta = o.delta, .method = o.how()});
    });
  });
  shortest_paths& paths = *all_paths;
  const double delta = paths.delta();
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges in both directions, in memory after "
        "%.2f s; %zu "
        "sources, first %llu; %s, ready after %.3f s\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges), graph.seconds,
        sources.size(), static_cast<unsigned long long>(part.ids.of(sources[0])),
        delta > 0 ? ("delta " + std::to_string(delta)).c_str() : "without priorities", made_seconds);
  std::fflush(stdout);

  double seconds = 0, slowest = 0, kernel_seconds = 0;
  uint64_t wrong = 0, unlike = 0, missing = 0, reached = 0;  // the kernel adds to `wrong`
  uint32_t farthest = 0;
  bool serial = false;
  std::vector<uint32_t> found(own);
  words_of_all<uint32_t> words(here);
  device_array<uint64_t> counter(std::vector<uint64_t>(1));
  for (size_t k = 0; k < sources.size(); ++k) {
    const uint64_t source = sources[k];
    const vertex_place at(part, source);
    double best = 0;
    for (unsigned run = 0; run < o.work.repeat; ++run) {
      wait_to_begin_together();
      const double took = gravel_max_all(seconds_of([&] { paths.run(at.owner, at.place); }));
      best = run == 0 ? took : std::min(best, took);
    }
    seconds += best / static_cast<double>(sources.size());
    slowest = std::max(slowest, best);
    if (paths.log())
      kernel_seconds += static_cast<double>(paths.log()->ns) * 1e-9 / static_cast<double>(sources.size());

    words.fetch(paths.vertex_words());
    launch_for(own, count_wrong, here, static_cast<const float*>(graph.weights.data()),
               static_cast<const uint32_t*>(words.words()), at.place_here(), counter.data());
    gravel_synchronize();
    uint64_t too_far = 0;
    gravel_copy(&wrong, counter.data(), sizeof(wrong));
    gravel_copy(found.data(), paths.vertex_words(), own * sizeof(uint32_t));
    reached = 0;
    farthest = 0;
    for (const uint32_t w : found)
      if (const uint32_t key = least_keys::key_of(w); key != least_keys::unreached) {
        ++reached;
        farthest = std::max(farthest, key);
        too_far += std::isinf(distance_of_key(key));
      }
    reached = gravel_sum_all(reached);
    farthest = gravel_max_all(farthest);
    too_far = gravel_sum_all(too_far);
    all_succeed(program_name, [&] { check_range_of_distances(too_far); });
    missing += reached == 0;
    serial = !o.no_verify && edges <= o.serial_limit;
    if (serial && k < 2) {
      std::optional<path_oracle> oracle;
      all_succeed(program_name,
                  [&] { oracle.emplace(make_csr(o.graph.edges({.weights = true, .undirected = true})), source); });
      for (uint64_t i = 0; i < own; ++i) {
        const uint32_t key = least_keys::key_of(found[i]);
        const float distance =
            key == least_keys::unreached ? std::numeric_limits<float>::infinity() : distance_of_key(key);
        unlike += !oracle->is_right(part.old_numbers[i], distance);
      }
    }
  }
  wrong += unlike + missing;
  const bool rounded =
      distance_of_key(farthest) > most_exact_whole && gravel_min_all(uint64_t{graph.whole_weights}) != 0;
  const run_summary run(paths.counts());
  wrong = gravel_sum_all(wrong);
  if (me == 0 && paths.log()) std::printf("%s\n", describe_steps(*paths.log()).c_str());
  if (me == 0 && !paths.refusal().empty()) std::printf("by the worklist: %s\n", paths.refusal().c_str());
  if (me == 0) {
    std::printf(
        "%.6f s (slowest %.6f), %.4g M edges/s; last: %llu vertices reached, the farthest at %.9g; %.3f expansions of "
        "each, %llu edges "
        "followed, %llu values "
        "sent, %llu rounds, "
        "%llu exchanges, %llu kernels\n",
        seconds, slowest, static_cast<double>(edges) / seconds / 1e6, static_cast<unsigned long long>(reached),
        static_cast<double>(distance_of_key(farthest)),
        static_cast<double>(run.expanded) / static_cast<double>(std::max<uint64_t>(reached, 1)),
        static_cast<unsigned long long>(run.followed), static_cast<unsigned long long>(run.sent),
        static_cast<unsigned long long>(run.here.rounds), static_cast<unsigned long long>(run.here.exchanges),
        static_cast<unsigned long long>(run.here.launches));
    std::printf("%llu wrong distances, compared with what all edges offer%s\n", static_cast<unsigned long long>(wrong),
                serial ? " and a serial Dijkstra" : "");
    if (rounded) std::printf("distances are floats: whole ones above 16777216 are rounded\n");
  }
  if (!o.dump.empty()) {
    std::vector<double> lengths;  // -1: not reached
    for (const uint32_t w : found)
      lengths.push_back(least_keys::key_of(w) == least_keys::unreached
                            ? -1
                            : static_cast<double>(distance_of_key(least_keys::key_of(w))));
    dump_columns(program_name, o.dump, "distances", {{"vertex", {}, part.own_ids()}, {"distance", lengths}});
  }
  facts = facts_of_run(program_name, o.graph, o.work, all, run,
                       {{"source", part.ids.of(sources.back())},
                        {"sources", static_cast<uint64_t>(sources.size())},
                        {"method", paths.log() ? "kernel" : "worklist"},
                        {"delta", delta},
                        {"ready_seconds", made_seconds},
                        {"seconds", seconds},
                        {"slowest_seconds", slowest},
                        {"kernel_seconds", kernel_seconds},
                        {"reached", reached},
                        {"farthest", static_cast<double>(distance_of_key(farthest))},
                        {"rounded", rounded},
                        {"compared_with_serial", serial},
                        {"wrong", wrong},
                        {"right", wrong == 0}});
  return wrong == 0;
}

void paths_options::add_options(command_line& line) {
  graph.add_options(line);
  work.add_options(line);
  add_source_option(line, source);
  line.add_option("--roots", roots, "Instead: from so many vertices with edges, drawn at random; the mean is reported")
      .range(1u, 4096u)
      .excludes("--source");
  line.add_option("--method", method,
                  "One kernel; the worklist; automatic: the kernel where job and graph suit it and no option says how "
                  "the worklist works, else the worklist")
      .one_of({"automatic", "kernel", "worklist"})
      .capture_default_str();
  line.add_option(
          "--delta", delta,
          "Vertices within this distance of the nearest are expanded together; if not given, from weights and degrees")
      .range(1e-30, 1e30);
  line.add_flag("--no-priority", no_priority, "All vertices that wait are expanded, near or far").excludes("--delta");
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial Dijkstra");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void paths_options::check() { graph.check(); }
uint64_t paths_options::symmetric_bytes() const {
  const uint64_t vertices = graph.vertices_of_generated();
  return 8 * vertices + (vertices ? gravel::detail::paths_search::symmetric_bytes(vertices, 1) : 0);
}
void paths_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application<shortest_paths::delivery>(
      {program_name,
       "Shortest paths from one vertex of an undirected, weighted graph, by a distributed worklist with priorities."},
      argc, argv, paths_options{}, solve);
}
