// Connected components: trees that grow together within each PE, whose names are passed on between PEs. See
// components.cuh.
#include "examples/worklists/components.cuh"

#include <cstdio>
#include <numeric>
#include <unordered_map>

#include <gravel/gravel.cuh>
#include <gravel/worklist.cuh>
#include "examples/common/device_part.hpp"
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"
#include "examples/common/together.hpp"
#include "examples/common/words_of_all.cuh"

using namespace app;
using gravel::copy_behind_kernels;
using gravel::device_array;
using gravel::edge;
using gravel::edge_list;
using gravel::mapped_rendezvous;
using gravel::mapped_sender;
using gravel::worklist_graph;

constexpr const char* program_name = "components";

struct components_options {
  graph_input graph;
  unsigned repeat = 1;
  bool all_edges = false, no_verify = false;
  std::string json, dump;
  uint64_t serial_limit = 1 << 24;

  void add_options(command_line& line);
  void check();
  uint64_t symmetric_bytes() const;
  void complete();
};

/// One PE's part of the job.
class component_finder {
 public:
  component_finder(const worklist_graph& graph, uint64_t ghosts_before)
      : graph_{graph, static_cast<uint32_t>(ghosts_before)},
        comp_(std::max<uint64_t>(graph.vertices(), 1)),
        names_(std::max<uint64_t>(graph.vertices(), 1)),
        reported_(std::max<uint64_t>(graph.n_ghosts, 1)),
        found_(std::vector<uint64_t>(2)),
        sample_(uint64_t{samples}) {
    exchange_ = {graph_,       comp_.data(), names_.data(), reported_.data(),
                 nullptr,      nullptr,      ~0u,           graph.n_ghosts / samples + 1,
                 found_.data()};
    exchange_.heard =
        gravel_malloc<uint32_t>(std::max<uint64_t>(gravel_max_all(graph.vertices()), 1) * sizeof(uint32_t));
    exchange_.said = gravel_malloc<uint32_t>(std::max<uint64_t>(gravel_max_all(graph.own), 1) * sizeof(uint32_t));
  }
  const uint32_t* names() const { return exchange_.said; }
  unsigned exchanges() const { return exchanges_; }

  /// Collective. Without `skip` every edge is looked at.
  void find(bool skip) {
    uint32_t* const comp = comp_.data();
    exchanges_ = 0;
    launch_for(graph_.vertices(), plant_trees, graph_, comp);
    launch_for(graph_.own, join_first, graph_, comp);
    launch_for(graph_.vertices(), flatten, comp, graph_.vertices());
    const uint32_t largest = skip ? find_largest(comp + graph_.before) : ~0u;
    launch_for(graph_.own, join_rest, graph_, comp, largest);
    launch_for(graph_.vertices(), flatten, comp, graph_.vertices());
    if (gravel_n_pes() == 1) {
      // A component's name is its root.
      launch_for(graph_.own, copy_words<uint32_t>, exchange_.said, static_cast<const uint32_t*>(comp), graph_.own);
      gravel_synchronize();
      return;
    }
    const std::vector<uint64_t> names = pass_names(largest);
    // Two PEs that each passed over the edges between their largest trees rely on those having been joined by another.
    if (skip && std::any_of(names.begin(), names.end(), [&](uint64_t name) { return name != names[0]; })) find(false);
  }

 private:
  static constexpr uint32_t samples = 1024;

  uint32_t find_largest(const uint32_t* own) {
    if (graph_.own == 0) return ~0u;
    launch_for(samples, take_sample, own, graph_.own, sample_.data(), samples);
    std::vector<uint32_t> drawn(samples);
    copy_behind_kernels(drawn.data(), sample_.data(), samples * sizeof(uint32_t));
    std::sort(drawn.begin(), drawn.end());
    uint32_t largest = ~0u;
    size_t most = 0;
    for (size_t i = 0, begin = 0; i < drawn.size(); ++i) {
      if (drawn[i] != drawn[begin]) begin = i;
      if (i - begin + 1 > most) {
        most = i - begin + 1;
        largest = drawn[i];
      }
    }
    return largest;
  }
  /// `inside`: an own vertex in the tree whose vertices did not look at all edges. Returns the names of these trees at
  /// the PEs that have one.
  std::vector<uint64_t> pass_names(uint32_t inside) {
    exchange_.inside = inside;
    launch_for(graph_.n_ghosts, check_ghosts, exchange_);
    launch_for(graph_.own, fill_words<uint32_t>, exchange_.heard, graph_.vertices(), ~0u);
    launch_for(graph_.vertices(), name_trees, exchange_, static_cast<uint32_t>(gravel_my_pe()));
    while (true) {
      ++exchanges_;
      launch_for(graph_.own, take_names, exchange_);
      rendezvous_.round();
      if (rendezvous_.is_mapped()) launch_for(graph_.n_ghosts, report_names<mapped_sender>, gravel_handle(), exchange_);
      else
        gravel_launch(report_names<gravel_block_sender<vertex_threads>>, vertex_blocks(graph_.n_ghosts), vertex_threads,
                      gravel_handle(), exchange_);
      rendezvous_.round();
      launch_for(graph_.vertices(), hear_names, exchange_);
      const std::vector<uint64_t> of_all = rendezvous_.gather(found_.data(), 2);
      std::vector<uint64_t> names;
      bool changed = false;
      for (size_t pe = 0; pe < of_all.size() / 2; ++pe) {
        changed |= of_all[2 * pe] != 0;
        if (of_all[2 * pe + 1] != ~0u) names.push_back(of_all[2 * pe + 1]);
      }
      if (!changed) return names;
    }
  }

  ranked_graph graph_;
  device_array<uint32_t> comp_, names_, reported_;
  device_array<uint64_t> found_;
  device_array<uint32_t> sample_;
  name_exchange exchange_{};
  mapped_rendezvous rendezvous_;
  unsigned exchanges_ = 0;
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

  component_finder finder(here, graph.ghosts.first[static_cast<size_t>(me)]);
  double seconds = 0;
  for (unsigned run = 0; run < o.repeat; ++run) {
    wait_to_begin_together();
    const double took = gravel_max_all(seconds_of([&] { finder.find(!o.all_edges); }));
    seconds = run == 0 ? took : std::min(seconds, took);
  }
  words_of_all<uint32_t> names(here);
  names.fetch(finder.names());
  device_array<uint64_t> counts(std::vector<uint64_t>(2));
  launch_for(own, check_names, here, static_cast<uint32_t>(me), static_cast<const uint32_t*>(names.words()),
             counts.data());
  gravel_synchronize();
  uint64_t counted[2];
  gravel_copy(counted, counts.data(), sizeof(counted));
  uint64_t wrong = gravel_sum_all(counted[0]);
  const uint64_t components = gravel_sum_all(counted[1]);
  std::vector<uint32_t> found(own);
  gravel_copy(found.data(), finder.names(), own * sizeof(uint32_t));
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
    std::printf("%.6f s, %.4g M edges/s; %llu components, %u exchanges of names\n", seconds,
                static_cast<double>(edges) / seconds / 1e6, static_cast<unsigned long long>(components),
                finder.exchanges());
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
                             {"exchanges", uint64_t{finder.exchanges()}},
                             {"compared_with_serial", serial},
                             {"wrong", wrong},
                             {"right", wrong == 0}});
  return wrong == 0;
}

void components_options::add_options(command_line& line) {
  graph.add_options(line);
  line.add_option("--repeat", repeat, "Runs, of which the fastest is reported").range(1u, 1000u).capture_default_str();
  line.add_flag("--all-edges", all_edges, "Look at every edge, also within the largest component");
  line.add_flag("--no-verify", no_verify, "Do not compare with a serial run");
  line.add_option("--serial-limit", serial_limit, "Compare up to so many edges").capture_default_str();
}
void components_options::check() { graph.check(); }
uint64_t components_options::symmetric_bytes() const { return 20 * graph.vertices_of_generated(); }
void components_options::complete() { graph.threads = host_threads_of_pe(); }

int main(int argc, char** argv) {
  return run_application({program_name, "Connected components of an undirected graph."}, argc, argv,
                         components_options{}, solve);
}
