// Shortest paths from one vertex. By one kernel (lib/worklist/paths.cuh) where job and graph suit it. Otherwise by a
// distributed worklist with priorities: vertices nearer than a limit are expanded, the others wait, and the limit moves
// on when nobody has any that are nearer.
#pragma once
#include <cmath>
#include <exception>
#include <limits>
#include <optional>

#include "lib/worklist/paths.cuh"
#include "lib/worklist/words_of_all.cuh"
#include "lib/worklist/worklist.cuh"

namespace gravel::detail {

/// The program of the worklist: keys are distances.
struct path_offers {
  static constexpr const char* name = "shortest_paths";
  using state = least_keys;
  state vertices;
  const float* weights;
  float delta;  ///< how far beyond the nearest vertices are expanded; 0: all are

  GRAVEL_DEVICE uint32_t begin(uint32_t, uint32_t key, uint64_t) const { return key; }
  GRAVEL_DEVICE uint32_t along(uint32_t key, uint64_t edge) const {
    return key_of_distance(distance_of_key(key) + weights[edge]);
  }
  GRAVEL_BOTH uint32_t limit_after(uint32_t key) const {
    if (delta == 0 || key >= least_keys::unreached) return least_keys::unreached;
    const uint32_t limit = key_of_distance(distance_of_key(key) + delta);
    return limit > key ? limit : key + 1;
  }
  GRAVEL_BOTH uint32_t rank_of(uint32_t key) const {
    const float rank = delta == 0 ? 0 : distance_of_key(key) / delta;
    return rank < 0x1p31f ? static_cast<uint32_t>(rank) : uint32_t{1} << 31;
  }
};

/// What weigh_edges() finds at this PE.
struct weights_found {
  double sum = 0;
  uint64_t first_wrong = ~uint64_t{0};  ///< the first edge whose weight is no finite number from 0 on
};
template <int = 0>
__global__ void weigh_edges(const float* weights, uint64_t edges, weights_found* found) {
  double sum = 0;
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < edges; e += uint64_t{gridDim.x} * blockDim.x) {
    const float weight = weights[e];
    if (weight >= 0 && weight <= 3.402823466e38f) sum += weight;
    else atomicMin(&found->first_wrong, e);
  }
  atomicAdd(&found->sum, sum);
}

/// How shortest paths are found.
enum class paths_method {
  automatic,  ///< by one kernel where job and graph suit it and no option says how the worklist works
  kernel,     ///< by one kernel; an error where it does not suit the job and the graph
  worklist    ///< by the worklist
};
/// Options of shortest_paths.
struct shortest_paths_options {
  gravel_worklist_options work = {};
  bool has_priorities = true;  ///< false: all vertices that wait are expanded, near or far
  double delta = 0;            ///< vertices within this distance of the nearest are expanded together; 0: found from
                               ///< weights and degrees
  paths_method method = paths_method::automatic;
};

/// Shortest paths in a graph with weights, directed or not: made once, for paths from any number of vertices.
/// gravel_init names `shortest_paths::delivery` among its handlers.
///
///   gravel::shortest_paths paths(graph, edges, weights);  // collective
///   paths.run(owner, place);                              // collective
///
/// One kernel finds the paths if all PEs have each other's memory mapped, each edge is in the rows of both of its ends,
/// with the same weight, and at least half of the edges lead to the sixteenth of the vertices that has the lowest
/// numbers at each PE: so number vertices by falling degree. If that takes too many steps, as in a deep graph, this run
/// and all later ones go by the worklist.
///
/// Memory: that of a gravel_worklist. For the kernel also 8 bytes of device memory for each edge and for each own
/// vertex; in the symmetric heap 8 bytes for each vertex of all PEs, and about 20 MB for each PE.
/// @scope the program's host thread; collective, except calls that only read. At most one is open
/// @completion on return
/// @errors gravel::error, at all PEs
/// @source Meyer, Sanders: "Delta-stepping: a parallelizable shortest path algorithm", 2003; Groute, chapter 5
class shortest_paths {
 public:
  using delivery = gravel_worklist_delivery<path_offers>;

  /// Makes the worklist. The memory of graph and weights stays the caller's.
  /// @param graph this PE's rows: the edges that leave its vertices
  /// @param edges number of edges of this PE's rows
  /// @param weights [edges] of each edge, in device memory: finite, from 0 on
  /// @param options the same at all PEs
  shortest_paths(const worklist_graph& graph, uint64_t edges, const float* weights,
                 const shortest_paths_options& options = {})
      : exceptions_(std::uncaught_exceptions()),
        vertices_(graph),
        delta_(delta_of(edges, weights, options)),
        work_(path_offers{{}, weights, static_cast<float>(delta_)}, graph, edges, options.work) {
    const bool may_use = options.method == paths_method::kernel ||
                         (options.method == paths_method::automatic && options.has_priorities && options.delta == 0 &&
                          options.work.execution == gravel_execution::automatic);
    if (!may_use) return;
    kernel_.emplace(graph, edges, weights);
    refusal_ = kernel_->refusal();
    if (!kernel_->fits()) kernel_.reset();
    if (!kernel_ && options.method == paths_method::kernel) fail_text("shortest_paths by one kernel: " + refusal_);
  }
  ~shortest_paths() {
    // If an exception passes, other PEs may not be here. gravel_finalize frees the memory, too.
    if (kernel_ && std::uncaught_exceptions() == exceptions_) kernel_->release();
  }
  /// @internal
  shortest_paths(const shortest_paths&) = delete;
  shortest_paths& operator=(const shortest_paths&) = delete;

  /// Finds the distances of all vertices from one. All PEs pass the same.
  /// @param owner the vertex's PE
  /// @param place its number there
  void run(int owner, uint64_t place) {
    vertices_.check("shortest_paths", owner, place);
    if (kernel_) {
      if (kernel_->run(owner, place)) return;
      refusal_ = "the graph is too deep for one kernel";
      kernel_->release();
      kernel_.reset();
    }
    work_.start();
    if (owner == gravel_my_pe()) work_.offer(static_cast<uint32_t>(place), 0);
    work_.run();
  }

  /// Returns the words of own vertices: [own], in device memory. distance_of() reads them.
  const uint32_t* vertex_words() const { return kernel_ ? kernel_->words() : work_.vertex_words(); }
  /// Returns the distance in a vertex's word: infinite if the vertex was not reached, and beyond the largest float.
  /// @param word of a vertex
  GRAVEL_BOTH static float distance_of(uint32_t word) {
    const uint32_t key = least_keys::key_of(word);
    return key == least_keys::unreached ? from_word<float>(0x7f800000u) : distance_of_key(key);
  }
  /// Returns why the last run, or the next one, goes by the worklist; empty if it does not, or if options say so.
  const std::string& refusal() const { return refusal_; }
  /// Returns what the kernel noted about its last run; nullptr: it went by the worklist.
  const paths_log* log() const { return kernel_ ? &kernel_->log() : nullptr; }
  /// Returns delta as the worklist uses it; 0: without priorities.
  double delta() const { return delta_; }
  /// Returns what the last run by the worklist did at this PE.
  const gravel_worklist_counts& counts() const { return work_.counts(); }

 private:
  /// Collective.
  double delta_of(uint64_t edges, const float* weights, const shortest_paths_options& options) {
    device_array<weights_found> memory(std::vector<weights_found>(1));
    weights_found here;
    if (edges) {
      launch_for(edges, weigh_edges<>, weights, edges, memory.data());
      copy_behind_kernels(&here, memory.data(), sizeof(here));
    }
    const bool is_wrong = here.first_wrong != ~uint64_t{0};
    std::string text = "shortest_paths: refused at another PE";
    if (is_wrong) {
      float weight = 0;
      gravel_copy(&weight, &weights[here.first_wrong], sizeof(weight));
      text = "shortest_paths: edge " + std::to_string(here.first_wrong) + " of this PE has the weight " +
             std::to_string(weight) + ": weights are finite numbers from 0 on";
    }
    if (gravel_max_all(is_wrong ? 1u : 0u) != 0) fail_text(text);
    if (!options.has_priorities) return 0;
    if (options.delta > 0) return options.delta;
    // So many times the mean weight of an edge over the mean degree; on a grid like a road network 36 was faster than
    // 12, though more is expanded twice.
    const double all = static_cast<double>(std::max<uint64_t>(gravel_sum_all(edges), 1)),
                 mean_degree = all / static_cast<double>(std::max<uint64_t>(vertices_.sum(), 1)),
                 mean_weight = gravel_sum_all(here.sum) / all;
    return std::max((mean_degree < 8 ? 36.0 : 12.0) * mean_weight / mean_degree, 1e-6);
  }

  int exceptions_;
  vertices_of_pes vertices_;
  double delta_;
  gravel_worklist<path_offers> work_;
  std::optional<paths_search> kernel_;
  std::string refusal_;
};

}  // namespace gravel::detail
