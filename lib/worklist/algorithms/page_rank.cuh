// PageRank by a distributed worklist: a vertex distributes what it has received since it was last expanded (its
// residual), if that is large enough. Vertices whose rank no longer changes cost nothing.
#pragma once
#include "lib/worklist/words_of_all.cuh"
#include "lib/worklist/worklist.cuh"

namespace gravel::detail {

/// The program of the worklist. Ranks here are multiples of (1 - damping) / vertices.
struct rank_residuals {
  static constexpr const char* name = "page_rank";
  using state = double_sums;
  state vertices;
  double* ranks;  ///< [own]
  double damping;

  GRAVEL_DEVICE double first(uint32_t) const { return 1; }
  /// In an asynchronous run another warp may have the vertex again before this one is done.
  GRAVEL_DEVICE double begin(uint32_t v, double residual, uint64_t degree) const {
    atomicAdd(&ranks[v], residual);
    return degree ? damping * residual / static_cast<double>(degree) : 0;
  }
  GRAVEL_DEVICE double along(double part, uint64_t) const { return part; }
};

/// Options of page_rank.
struct page_rank_options {
  gravel_worklist_options work = {};
  double damping = 0.85;    ///< share of a rank that is passed on, 0 to 1 (exclusive)
  double tolerance = 1e-6;  ///< of a rank, as a share of what each vertex has from the beginning; above 0
};

/// PageRank of a graph, directed or not. gravel_init names `page_rank::delivery` among its handlers.
///
///   gravel::page_rank ranks(graph, edges);  // collective
///   ranks.run();                            // collective
///
/// The rank of a vertex is 1 plus `damping` times what its neighbours pass on: each passes its rank on, in equal parts,
/// along the edges that leave it. A vertex that no edge leaves keeps its rank. So ranks are multiples of (1 - damping)
/// / vertices; divided by their sum over all vertices they are also the ranks of those who let such vertices pass their
/// rank on to all vertices alike.
///
/// Memory: that of a gravel_worklist, and 8 bytes for each own vertex.
/// @scope the program's host thread; collective, except calls that only read. At most one is open
/// @completion on return
/// @errors gravel::error, at all PEs
/// @source Groute, chapter 5; Whang and others, Euro-Par 2015
class page_rank {
 public:
  using delivery = gravel_worklist_delivery<rank_residuals>;

  /// Makes the worklist. The graph's memory stays the caller's.
  /// @param graph this PE's rows: the edges that leave its vertices
  /// @param edges number of edges of this PE's rows
  /// @param options the same at all PEs
  page_rank(const worklist_graph& graph, uint64_t edges, const page_rank_options& options = {})
      : own_(graph.own),
        ranks_(std::max<uint64_t>(graph.own, 1)),
        work_(rank_residuals{{nullptr, threshold_of(options)}, ranks_.data(), options.damping}, graph, edges,
              options.work) {}
  /// @internal
  page_rank(const page_rank&) = delete;
  page_rank& operator=(const page_rank&) = delete;

  /// Finds the ranks.
  void run() {
    work_.start();
    launch_for(own_, fill_words<double>, ranks_.data(), own_, 0.0);
    work_.offer_all();
    work_.run();
  }

  /// Returns the ranks of own vertices: [own], in device memory.
  const double* ranks() const { return ranks_.data(); }
  /// Returns what the last run did at this PE.
  const gravel_worklist_counts& counts() const { return work_.counts(); }

 private:
  /// What is left, up to the threshold at each vertex and each of its ghosts, would bring each rank up to
  /// threshold / (1 - damping).
  static double threshold_of(const page_rank_options& options) {
    const bool fits = options.damping >= 0 && options.damping < 1 && options.tolerance > 0;
    if (!fits)
      fail_text("page_rank: damping " + std::to_string(options.damping) + ", tolerance " +
                std::to_string(options.tolerance) + ": damping is from 0 to 1 (exclusive), tolerance above 0");
    return options.tolerance * (1 - options.damping) / gravel_n_pes();
  }

  uint64_t own_;
  device_array<double> ranks_;
  gravel_worklist<rank_residuals> work_;
};

}  // namespace gravel::detail
