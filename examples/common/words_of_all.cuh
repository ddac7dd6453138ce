// A number for each of this PE's vertices, and for its ghosts what their owners have: for checks of results, and for
// what needs both ends of an edge.
#pragma once
#include <algorithm>

#include <gravel/launch_alone.cuh>
#include <gravel/mapped_rendezvous.cuh>
#include <gravel/mapped_sender.cuh>
#include "examples/common/together.hpp"
#include "lib/worklist/list_kernels.cuh"

namespace app {
using gravel::launch_alone;
using gravel::mapped_rendezvous;
using gravel::mapped_sender;
using gravel::detail::fill_words;
using gravel::detail::vertex_blocks;
using gravel::detail::vertex_threads;
using gravel::detail::worklist_graph;

/// A kernel that sends nothing.
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

/// The constructor and fetch() are collective.
template <class T>
class words_of_all {
 public:
  explicit words_of_all(const worklist_graph& graph)
      : graph_(graph), words_(gravel_malloc<T>(std::max<uint64_t>(gravel_max_all(graph.vertices()), 1) * sizeof(T))) {}
  /// [own + ghosts], symmetric.
  T* words() const { return words_; }
  mapped_rendezvous& rendezvous() { return rendezvous_; }
  /// `mine`: of own vertices.
  void fetch(const T* mine) {
    launch_for(graph_.own, copy_words<T>, words_, mine, graph_.own);
    if (gravel_n_pes() == 1) return;
    rendezvous_.round();
    if (rendezvous_.is_mapped()) launch_for(graph_.n_ghosts, load_of_ghosts<T>, gravel_handle(), words_, graph_);
    else
      gravel_launch(get_of_ghosts<T>, vertex_blocks(graph_.n_ghosts), vertex_threads, gravel_handle(), words_, graph_);
    rendezvous_.round();
  }

 private:
  worklist_graph graph_;
  T* words_;
  mapped_rendezvous rendezvous_;
};

}  // namespace app
