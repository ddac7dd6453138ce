// Checks a divided graph that a program has handed over.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "host/device_array.hpp"
#include "host/launch_alone.cuh"
#include "lib/worklist/list_kernels.cuh"

namespace gravel::detail {

/// The first invalid row, edge and ghost of a graph.
struct graph_faults {
  static constexpr uint64_t none = ~uint64_t{0};
  uint64_t row = none, edge = none, ghost = none;
};
/// Finds invalid rows, edges and ghosts. own_of: [PEs] number of vertices of each PE.
template <int = 0>
__global__ void find_faults(const __grid_constant__ worklist_graph g, uint64_t edges, const uint64_t* own_of,
                            uint32_t n_pes, graph_faults* faults) {
  const uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t v = first; v < g.own; v += step)
    if (g.offsets[v] > g.offsets[v + 1] || g.offsets[v + 1] > edges) atomicMin(&faults->row, v);
  for (uint64_t e = first; e < edges; e += step)
    if (g.targets[e] >= g.vertices()) atomicMin(&faults->edge, e);
  for (uint64_t i = first; i < g.n_ghosts; i += step) {
    const auto owner = static_cast<uint32_t>(g.codes.owner(g.ghosts[i]));
    if (owner >= n_pes || g.codes.place(g.ghosts[i]) >= own_of[owner]) atomicMin(&faults->ghost, i);
  }
}
/// Returns what is invalid in the graph: kernels and other PEs' handlers would write outside their memory.
/// Collective. `checks`: false if this PE takes part only for the others.
inline std::string faults_of(const worklist_graph& graph, uint64_t edges, bool checks) {
  std::vector<uint64_t> own(static_cast<size_t>(gravel_n_pes()));
  gravel_allgather(own.data(), &graph.own, 1);
  if (!checks) return {};
  const device_array<uint64_t> own_of(own);
  device_array<graph_faults> found(std::vector<graph_faults>(1));
  launch_alone(find_faults<>, {.grid = vertex_blocks(std::max(edges, graph.vertices())), .block = vertex_threads},
               graph, edges, own_of.data(), static_cast<uint32_t>(own.size()), found.data());
  gravel_synchronize();
  graph_faults first;
  gravel_copy(&first, found.data(), sizeof(first));
  constexpr uint64_t none = graph_faults::none;
  if (first.row != none)
    return "row " + std::to_string(first.row) + " ends before it begins, or after the " + std::to_string(edges) +
           " edges";
  if (first.edge != none)
    return "edge " + std::to_string(first.edge) + " leads to a vertex beyond the " + std::to_string(graph.own) +
           " of this PE and its " + std::to_string(graph.n_ghosts) + " ghosts";
  if (first.ghost == none) return {};
  uint32_t code = 0;
  gravel_copy(&code, &graph.ghosts[first.ghost], sizeof(code));
  return "ghost " + std::to_string(first.ghost) + " is vertex " + std::to_string(graph.codes.place(code)) + " of PE " +
         std::to_string(graph.codes.owner(code)) + ", which does not exist";
}

}  // namespace gravel::detail
