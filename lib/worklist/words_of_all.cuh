// A number for each of this PE's vertices, and for its ghosts what their owners have: for kernels that need both ends
// of an edge.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "host/launch_alone.cuh"
#include "host/mapped_rendezvous.cuh"
#include "host/mapped_sender.cuh"
#include "lib/worklist/list_kernels.cuh"

namespace gravel::detail {

/// Launches a kernel that sends nothing, and whose lanes each take some of the `vertices`.
template <class... P, class... A>
void launch_for(uint64_t vertices, void (*kernel)(P...), A... arguments) {
  launch_alone(kernel, {.grid = vertex_blocks(vertices), .block = vertex_threads}, arguments...);
}

template <class T>
__global__ void copy_words(T* to, const T* from, uint64_t count) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x)
    to[i] = from[i];
}
template <class T>
__global__ void get_of_ghosts(gravel_t g, T* all, worklist_graph graph) {
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < graph.n_ghosts;
       k += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t code = graph.ghosts[k];
    gravel_get(g, &all[graph.own + k], &all[graph.codes.place(code)], graph.codes.owner(code));
  }
}
template <class T>
__global__ void load_of_ghosts(gravel_t g, T* all, worklist_graph graph) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < graph.n_ghosts;
       k += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t code = graph.ghosts[k];
    all[graph.own + k] = others.get(&all[graph.codes.place(code)], graph.codes.owner(code));
  }
}

/// Symmetric memory for such numbers. Host thread; the constructor, fetch() and release() are collective.
template <class T>
class words_of_all {
 public:
  explicit words_of_all(const worklist_graph& graph)
      : graph_(graph), words_(gravel_malloc<T>(std::max<uint64_t>(gravel_max_all(graph.vertices()), 1) * sizeof(T))) {}
  /// [own + ghosts], symmetric.
  T* words() const { return words_; }
  mapped_rendezvous& rendezvous() { return rendezvous_; }
  /// Copies `mine`, the numbers of own vertices, and fetches those of ghosts.
  void fetch(const T* mine) {
    launch_for(graph_.own, copy_words<T>, words_, mine, graph_.own);
    if (gravel_n_pes() == 1) return;
    rendezvous_.round();
    if (rendezvous_.is_mapped()) launch_for(graph_.n_ghosts, load_of_ghosts<T>, gravel_handle(), words_, graph_);
    else
      gravel_launch(get_of_ghosts<T>, vertex_blocks(graph_.n_ghosts), vertex_threads, gravel_handle(), words_, graph_);
    rendezvous_.round();
  }
  /// Frees the memory. gravel_finalize frees it, too.
  void release() {
    gravel_synchronize();
    rendezvous_.release();
    gravel_free(words_);
  }

 private:
  worklist_graph graph_;
  T* words_;
  mapped_rendezvous rendezvous_;
};

/// Returns the codes of this PE's ghosts. Collective. Throws unless they ascend at all PEs, as find_ghosts lists them.
inline std::vector<uint32_t> codes_of_ghosts(const char* call, const worklist_graph& graph) {
  std::vector<uint32_t> codes(graph.n_ghosts);
  if (!codes.empty()) gravel_copy(codes.data(), graph.ghosts, codes.size() * sizeof(uint32_t));
  const bool ascend = std::adjacent_find(codes.begin(), codes.end(), std::greater_equal<>()) == codes.end();
  if (gravel_min_all(ascend ? 1u : 0u) == 0)
    fail_text(std::string(call) + (ascend ? ": refused at another PE"
                                          : ": the codes of ghosts do not ascend: gravel::find_ghosts lists them so"));
  return codes;
}
/// The number of vertices of each PE, to check what programs name as a source. The constructor is collective.
class vertices_of_pes {
 public:
  explicit vertices_of_pes(const worklist_graph& graph) : own_(static_cast<size_t>(gravel_n_pes())) {
    gravel_allgather(own_.data(), &graph.own, 1);
  }
  /// Throws unless PE `owner` has a vertex `place`.
  void check(const char* call, int owner, uint64_t place) const {
    if (owner < 0 || owner >= gravel_n_pes() || place >= own_[static_cast<size_t>(owner)])
      fail_text(std::string(call) + ": there is no vertex " + std::to_string(place) + " of PE " +
                std::to_string(owner));
  }
  uint64_t sum() const { return std::accumulate(own_.begin(), own_.end(), uint64_t{0}); }

 private:
  std::vector<uint64_t> own_;
};

}  // namespace gravel::detail
