// Connected components: trees that grow together within each PE, whose names are passed on between PEs.
#pragma once
#include "lib/worklist/algorithms/component_kernels.cuh"
#include "lib/worklist/check_graph.cuh"

namespace gravel::detail {

/// Connected components of an undirected graph: made once, and found as often as its edges change.
///
///   gravel::connected_components components(graph, edges);  // collective
///   components.run();                                       // collective
///
/// Memory of the device: 8 bytes for each own vertex, 12 for each ghost; in the symmetric heap 8 bytes for each own
/// vertex, 4 for each ghost.
/// @scope the program's host thread; collective, except calls that only read
/// @completion on return
/// @errors gravel::error, at all PEs
/// @source Groute, section 5.1; Jaiganesh, Burtscher, HPDC18; Sutton, Ben-Nun, Barak, IPDPS18
class connected_components {
 public:
  /// Allocates the memory. The graph's memory stays the caller's.
  /// @param graph this PE's rows; each edge is in the rows of both of its ends, and the codes of ghosts ascend
  /// @param edges number of edges of this PE's rows
  connected_components(const worklist_graph& graph, uint64_t edges)
      : exceptions_(std::uncaught_exceptions()),
        graph_{checked(graph, edges), ghosts_before(graph)},
        comp_(std::max<uint64_t>(graph.vertices(), 1)),
        names_(std::max<uint64_t>(graph.vertices(), 1)),
        reported_(std::max<uint64_t>(graph.n_ghosts, 1)),
        found_(std::vector<uint64_t>(2)),
        sample_(uint64_t{samples}),
        has_few_edges_(gravel_sum_all(edges) <= few_edges * gravel_sum_all(graph.own)) {
    exchange_ = {graph_,       comp_.data(), names_.data(), reported_.data(),
                 nullptr,      nullptr,      ~0u,           graph.n_ghosts / samples + 1,
                 found_.data()};
    exchange_.heard =
        gravel_malloc<uint32_t>(std::max<uint64_t>(gravel_max_all(graph.vertices()), 1) * sizeof(uint32_t));
    exchange_.said = gravel_malloc<uint32_t>(std::max<uint64_t>(gravel_max_all(graph.own), 1) * sizeof(uint32_t));
  }
  ~connected_components() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (std::uncaught_exceptions() != exceptions_) return;
    gravel_synchronize();
    rendezvous_.release();
    gravel_free(exchange_.said);
    gravel_free(exchange_.heard);
  }
  /// @internal
  connected_components(const connected_components&) = delete;
  connected_components& operator=(const connected_components&) = delete;

  /// Finds the components.
  /// @param all_edges look at every edge, also within the largest component, from both ends: for comparison
  void run(bool all_edges = false) { find(!all_edges); }

  /// Returns the names of own vertices' components: [own], in device memory. The name of a component is the least code
  /// of its vertices.
  const uint32_t* names() const { return exchange_.said; }
  /// Returns how often the PEs exchanged names in the last run.
  unsigned exchanges() const { return exchanges_; }

 private:
  static constexpr uint32_t samples = 1024;
  /// Entries of a row on average, up to which looking at each edge once is faster than to find the largest tree first.
  static constexpr uint64_t few_edges = 8;

  /// Collective.
  static const worklist_graph& checked(const worklist_graph& graph, uint64_t edges) {
    const std::string wrong = faults_of(graph, edges, true);
    if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
      fail_text("connected_components: " + (wrong.empty() ? std::string("refused at another PE") : wrong));
    return graph;
  }
  /// Returns the number of ghosts of PEs before this one. Collective.
  static uint32_t ghosts_before(const worklist_graph& graph) {
    const std::vector<uint32_t> codes = codes_of_ghosts("connected_components", graph);
    const auto first_behind = std::lower_bound(codes.begin(), codes.end(), graph.codes.code(gravel_my_pe(), 0));
    return static_cast<uint32_t>(first_behind - codes.begin());
  }

  /// Without `skip` every edge is looked at.
  void find(bool skip) {
    uint32_t* const comp = comp_.data();
    exchanges_ = 0;
    uint32_t largest = ~0u;
    const auto flatten_into = [&](uint32_t* roots) {
      launch_for(graph_.vertices(), flatten<>, static_cast<const uint32_t*>(comp), graph_.vertices(), roots);
    };
    launch_for(graph_.vertices(), plant_trees<>, graph_, comp);
    if (skip && has_few_edges_) {
      launch_for(graph_.own, join_below<>, graph_, comp);
    } else {
      launch_for(graph_.own, join_first<>, graph_, comp);
      flatten_into(comp);
      if (skip) largest = find_largest(comp + graph_.before);
      launch_for(graph_.own, join_rest<>, graph_, comp, largest);
    }
    if (gravel_n_pes() == 1) {
      flatten_into(exchange_.said);  // a component's name is its root
      gravel_synchronize();
      return;
    }
    flatten_into(comp);
    const std::vector<uint64_t> names = pass_names(largest);
    // Two PEs that each passed over the edges between their largest trees rely on those having been joined by another.
    if (skip && std::any_of(names.begin(), names.end(), [&](uint64_t name) { return name != names[0]; })) find(false);
  }
  uint32_t find_largest(const uint32_t* own) {
    if (graph_.own == 0) return ~0u;
    launch_for(samples, take_sample<>, own, graph_.own, sample_.data(), samples);
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
    launch_for(graph_.n_ghosts, check_ghosts<>, exchange_);
    launch_for(graph_.own, fill_words<uint32_t>, exchange_.heard, graph_.vertices(), ~0u);
    launch_for(graph_.vertices(), name_trees<>, exchange_, static_cast<uint32_t>(gravel_my_pe()));
    while (true) {
      ++exchanges_;
      launch_for(graph_.own, take_names<>, exchange_);
      rendezvous_.round();
      if (rendezvous_.is_mapped()) launch_for(graph_.n_ghosts, report_names<mapped_sender>, gravel_handle(), exchange_);
      else
        gravel_launch(report_names<gravel_block_sender<vertex_threads>>, vertex_blocks(graph_.n_ghosts), vertex_threads,
                      gravel_handle(), exchange_);
      rendezvous_.round();
      launch_for(graph_.vertices(), hear_names<>, exchange_);
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

  int exceptions_;
  ranked_graph graph_;
  device_array<uint32_t> comp_, names_, reported_;
  device_array<uint64_t> found_;
  device_array<uint32_t> sample_;
  bool has_few_edges_;
  name_exchange exchange_{};
  mapped_rendezvous rendezvous_;
  unsigned exchanges_ = 0;
};

}  // namespace gravel::detail
