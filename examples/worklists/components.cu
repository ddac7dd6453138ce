// Connected components. By one kernel (gravel_components) where the job and the graph suit it, otherwise by trees whose
// names are passed on (gravel::connected_components). On demand through routers, as in Groute. The result is compared
// with all edges and with a serial run.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <unordered_map>

#include <gravel/algorithms.cuh>
#include <gravel/gravel.cuh>
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "examples/worklists/check_names.cuh"
#include "examples/worklists/routed_components.cuh"

using namespace app;
using gravel::connected_components;
using gravel::device_array;
using gravel::edge;
using gravel::edge_list;
using gravel::worklist_graph;
using gravel::detail::launch_for;
using gravel::detail::words_of_all;

constexpr const char* program_name = "components";

struct components_options {
  graph_input graph;
  unsigned repeat = 1;
  bool all_edges = false, no_verify = false, compare = false;
  std::string method = "automatic", json, dump;
  uint64_t serial_limit = 1 << 24;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
  /// Whether the kernel may be used: no option says how trees are joined.
  bool allows_kernel() const { return method == "kernel" || (method == "automatic" && !all_edges); }
};

/// The least vertex of each one's component.
std::vector<uint64_t> find_serially(const components_options& o) {
  const edge_list list = o.graph.edges({.undirected = true});
  std::vector<uint64_t> above(list.vertices);
  std::iota(above.begin(), above.end(), uint64_t{0});
  const auto root = [&](uint64_t v) {
    while (above[v] != v) v = above[v] = above[above[v]];
    return v;
  };
  for (const edge& e : list.edges) {
    const uint64_t a = root(e.source), b = root(e.target);
    above[std::max(a, b)] = std::min(a, b);
  }
  for (uint64_t v = 0; v < list.vertices; ++v) above[v] = root(v);
  return above;
}

/// All between gravel_init and gravel_finalize. Collective; the same answer on all PEs: is the result right?
bool solve(const components_options& o, fact_list& facts) {
  const int me = gravel_my_pe(), n_pes = gravel_n_pes();
  device_part graph;
  all_succeed(program_name, [&] { graph = load_on_device(o.graph, {.undirected = true}, me, n_pes); });
  const graph_part& part = graph.part;
  const uint64_t own = graph.own(), vertices = part.vertices, edges = gravel_sum_all(graph.edges);
  device_array<uint32_t> ghosts(graph.ghosts.codes);
  const worklist_graph here{graph.offsets.data(),     graph.targets.data(), ghosts.data(), part.codes, own,
                            graph.ghosts.codes.size()};
  if (me == 0)
    std::printf(
        "%s: %d PEs on %d nodes, %s backend\ngraph: %s, %llu vertices, %llu edges in both directions, in memory after "
        "%.2f s\n",
        program_name, n_pes, gravel_n_nodes(), gravel_backend(), o.graph.description().c_str(),
        static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges), graph.seconds);
  std::fflush(stdout);

  std::optional<gravel_components> kernel;
  std::optional<connected_components> trees;
  std::optional<routed_components> routers;
  std::string refusal;
  double table_seconds = 0;
  if (o.allows_kernel()) {
    table_seconds = seconds_of([&] { kernel.emplace(here, graph.edges); });
    refusal = kernel->refusal();
    if (!kernel->fits()) kernel.reset();
    all_succeed(program_name, [&] {
      if (!kernel && o.method == "kernel") fail_text("--method kernel: " + refusal);
    });
  }
  if (o.method == "routers") routers.emplace(here);
  if ((!kernel && !routers) || (kernel && o.compare)) trees.emplace(here, graph.edges);
  // The least time and the median.
  const auto time_of = [&](const auto& run) {
    std::vector<double> all_seconds;
    for (unsigned i = 0; i < o.repeat; ++i) {
      if (routers) routers->open();
      wait_to_begin_together();
      all_seconds.push_back(gravel_max_all(seconds_of(run)));
    }
    std::sort(all_seconds.begin(), all_seconds.end());
    return std::pair(all_seconds.front(), all_seconds[all_seconds.size() / 2]);
  };
  const auto run_trees = [&] { trees->run(o.all_edges); };
  std::pair<double, double> times;
  const uint32_t* found_here = nullptr;
  std::string method = "names";
  if (kernel) {
    method = "kernel";
    times = time_of([&] { kernel->run(); });
    found_here = kernel->names();
  } else if (routers) {
    method = "routers";
    times = time_of([&] { routers->run(); });
    found_here = routers->names();
  } else {
    times = time_of(run_trees);
    found_here = trees->names();
  }
  const auto [seconds, median] = times;
  if (o.compare && kernel) {
    const auto [least, middle] = time_of(run_trees);
    if (me == 0) std::printf("by passing names: %.6f s (median %.6f)\n", least, middle);
  }
  std::vector<uint64_t> edges_taken(static_cast<size_t>(n_pes));
  gravel_allgather(edges_taken.data(), routers ? routers->edges_taken() : 0);
  const unsigned exchanges = trees ? trees->exchanges() : 0;
  words_of_all<uint32_t> names(here);
  names.fetch(found_here);
  device_array<uint64_t> counts(std::vector<uint64_t>(2));
  name_order order{part.codes, {}};
  if (kernel) order.layout.pes = static_cast<uint32_t>(n_pes);
  launch_for(own, check_names, here, order, static_cast<uint32_t>(me), static_cast<const uint32_t*>(names.words()),
             counts.data());
  gravel_synchronize();
  uint64_t counted[2];
  gravel_copy(counted, counts.data(), sizeof(counted));
  uint64_t wrong = gravel_sum_all(counted[0]);
  const uint64_t components = gravel_sum_all(counted[1]);
  std::vector<uint32_t> found(own);
  gravel_copy(found.data(), found_here, own * sizeof(uint32_t));
  const bool serial = !o.no_verify && edges <= o.serial_limit;
  if (serial) {
    // The same partition: equal names here where the least vertices are equal there, and the other way round.
    std::vector<uint64_t> expected;
    all_succeed(program_name, [&] { expected = find_serially(o); });
    std::unordered_map<uint32_t, uint64_t> one;
    std::unordered_map<uint64_t, uint32_t> other;
    for (uint64_t i = 0; i < own; ++i) {
      const uint64_t least = expected[part.old_numbers[i]];
      wrong += one.try_emplace(found[i], least).first->second != least ||
               other.try_emplace(least, found[i]).first->second != found[i];
    }
    uint64_t all = 0;
    for (uint64_t v = 0; v < vertices; ++v) all += expected[v] == v;
    wrong += all != components;
  }
  wrong = gravel_max_all(wrong);
  if (me == 0) {
    if (kernel) {
      const gravel::detail::components_log& log = kernel->log();
      const auto us = [](uint64_t end, uint64_t begin) { return static_cast<double>(end - begin) * 1e-3; };
      std::printf(
          "in one kernel: %.1f us, of them %.1f us hubs, %.1f us roots, %.1f us pairs, %.1f us rendezvous, %.1f us the "
          "rest; %llu pairs in %u rounds; tables made in %.3f s\n",
          us(log.ns, 0), us(log.hubs_ns, 0), us(log.roots_ns, log.hubs_ns), us(log.pairs_ns, log.roots_ns),
          us(log.rendezvous_ns, log.pairs_ns), us(log.ns, log.rendezvous_ns),
          static_cast<unsigned long long>(log.pairs), log.rounds, table_seconds);
    }
    if (routers) {
      std::printf("through routers: edges hooked by each PE:");
      for (const uint64_t taken : edges_taken) std::printf(" %llu", static_cast<unsigned long long>(taken));
      std::printf("\n");
    }
    if (!refusal.empty()) std::printf("by passing names: %s\n", refusal.c_str());
    std::printf("%.6f s (median %.6f), %.4g M edges/s; %llu components, %u exchanges of names\n", seconds, median,
                static_cast<double>(edges) / seconds / 1e6, static_cast<unsigned long long>(components), exchanges);
    std::printf("%llu mistakes, compared with all edges%s\n", static_cast<unsigned long long>(wrong),
                serial ? " and a serial run" : "");
    if (!serial)
      std::printf("not checked: that components without an edge between them have different names (--serial-limit)\n");
  }
  if (!o.dump.empty()) {
    // A component's name is the code of one of its vertices.
    const ids_by_code id_of(part);
    std::vector<uint64_t> names;
    for (const uint32_t name : found) names.push_back(id_of(name));
    dump_columns(program_name, o.dump, "components", {{"vertex", {}, part.own_ids()}, {"component", {}, names}});
  }
  facts = facts_of_job(program_name);
  facts.insert(facts.end(), {{"graph", o.graph.description()},
                             {"division", o.graph.division},
                             {"vertices", vertices},
                             {"edges", edges},
                             {"seconds", seconds},
                             {"components", components},
                             {"exchanges", uint64_t{exchanges}},
                             {"method", method},
                             {"median_seconds", median},
                             {"tables_seconds", table_seconds},
                             {"kernel_us", kernel ? static_cast<double>(kernel->log().ns) * 1e-3 : 0.0},
                             {"compared_with_serial", serial},
                             {"wrong", wrong},
                             {"right", wrong == 0}});
  return wrong == 0;
}

void components_options::add_options(command_line& line) {
  graph.add_options(line);
  line.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1u, 1000u).capture_default_str();
  line.add_option("--method", method,
                  "kernel: one for all; names: trees whose names are passed on; routers: edges and trees go through "
                  "routers; automatic: the kernel where job and graph suit it and no option says how trees are joined, "
                  "else by names")
      .one_of({"automatic", "kernel", "names", "routers"})
      .capture_default_str();
  line.add_flag("--compare", compare, "Also measure the other method, if the kernel is taken");
  line.add_flag("--all-edges", all_edges, "Look at every edge, also within the largest component");
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial run");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void components_options::check() {
  graph.check();
  if (method == "kernel" && all_edges) fail_text("--all-edges goes with --method names: the kernel passes edges over");
  if (method == "routers" && (all_edges || compare))
    fail_text("--method routers excludes --all-edges and --compare: they say how names are passed on");
}
uint64_t components_options::symmetric_bytes() const {
  const uint64_t vertices = graph.vertices_of_generated();
  if (method == "routers") return 20 * vertices + routed_components::symmetric_bytes(2 * vertices);
  return 20 * vertices + (allows_kernel() && vertices ? gravel_components::symmetric_bytes(vertices, 1, false) : 0);
}
void components_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application({program_name, "Connected components of an undirected graph."}, argc, argv,
                         components_options{}, solve);
}
