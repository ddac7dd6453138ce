// What the resident kernels of graphs have in common: a code for each vertex of all PEs, the rows of own vertices by
// these codes, and how many blocks may stay (lib/worklist/search.cuh, components.cuh, ranks.cuh, paths.cuh).
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "host/device_array.hpp"
#include "lib/worklist/check_graph.cuh"
#include "lib/worklist/replicated_bitmap.cuh"
#include "lib/worklist/words_of_all.cuh"

namespace gravel::detail {

/// Finds one more than the largest place that has an edge: of own vertices with edges, and of all vertices that edges
/// lead to.
template <int = 0>
__global__ void find_last_place(const __grid_constant__ worklist_graph graph, uint64_t edges, uint32_t* last_of_all) {
  const uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, step = uint64_t{gridDim.x} * blockDim.x;
  uint32_t last = 0;
  const auto raise = [&last](uint64_t place) {
    if (last <= place) last = static_cast<uint32_t>(place) + 1;
  };
  for (uint64_t v = first; v < graph.own; v += step)
    if (graph.offsets[v] != graph.offsets[v + 1]) raise(v);
  for (uint64_t e = first; e < edges; e += step)
    if (graph.targets[e] < graph.own) raise(graph.targets[e]);
  for (uint64_t i = first; i < graph.n_ghosts; i += step) raise(graph.codes.place(graph.ghosts[i]));
  last = __reduce_max_sync(~0u, last);
  if (threadIdx.x % 32 == 0) atomicMax(last_of_all, last);
}

/// Codes of the neighbours in the rows.
template <int = 0>
__global__ void name_neighbours(const __grid_constant__ worklist_graph graph, uint64_t edges,
                                const __grid_constant__ replicated_bitmap bitmap, uint32_t* codes) {
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < edges; e += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t target = graph.targets[e];
    if (target < graph.own) {
      codes[e] = bitmap.code_of(static_cast<int>(bitmap.me), target);
    } else {
      const uint32_t ghost = graph.ghosts[target - graph.own];
      codes[e] = bitmap.code_of(graph.codes.owner(ghost), graph.codes.place(ghost));
    }
  }
}

/// Stores the words of own places at all PEs. `words`: symmetric [codes].
template <int = 0>
__global__ void spread_words(const __grid_constant__ gravel_t g, const __grid_constant__ replicated_bitmap bitmap,
                             const uint32_t* own_words, uint64_t own, uint32_t* words) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint32_t place = blockIdx.x * blockDim.x + threadIdx.x;
       place < own && place < bitmap.strips * replicated_bitmap::strip; place += gridDim.x * blockDim.x)
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      *others.at(&words[bitmap.code_of(static_cast<int>(g.my_pe), place)], static_cast<int>(pe)) = own_words[place];
}

/// A number for an edge, the same in both directions. If it is added in the row of one end, and taken off in that of
/// the other, the sum over all edges is 0 with near certainty only if each edge is in the rows of both of its ends.
GRAVEL_BOTH uint64_t edge_number(uint32_t one, uint32_t other) {
  uint64_t x = uint64_t{one < other ? one : other} << 32 | (one < other ? other : one);
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

/// Checks what the constructor of such an object gets, at all PEs; `what` begins each error. Returns whether vertices
/// have names. Collective.
inline bool check_coded_graph(const char* what, const worklist_graph& graph, uint64_t edges, const uint32_t* names) {
  const bool takes = graph.own < 1u << 31, has_names = gravel_max_all(names ? 1u : 0u) != 0;
  std::string wrong = faults_of(graph, edges, takes);
  if (!takes) wrong = "a PE may have up to 2^31 - 1 vertices";
  else if (has_names && !names && graph.own != 0) wrong = "other PEs have names for their vertices, this one has none";
  if (gravel_max_all(wrong.empty() ? 0u : 1u) != 0)
    fail_text(std::string(what) + ": " + (wrong.empty() ? std::string("refused at another PE") : wrong));
  return has_names;
}

/// The host's side. number() and make() are collective.
class coded_rows {
 public:
  /// Gives codes to the vertices of all PEs up to the last one with edges. Returns why that cannot be; empty if it can.
  std::string number(const worklist_graph& graph, uint64_t edges) {
    const auto pes = static_cast<uint32_t>(gravel_n_pes());
    constexpr uint32_t strip = replicated_bitmap::strip;
    device_array<uint32_t> last_here(std::vector<uint32_t>(1));
    launch_for(std::max({graph.own, edges, graph.n_ghosts}), find_last_place<>, graph, edges, last_here.data());
    uint32_t last = 0;
    copy_behind_kernels(&last, last_here.data(), sizeof(last));
    last_ = gravel_max_all(uint64_t{last});
    const uint64_t strips = (last_ + strip - 1) / strip;
    if (strips * pes * strip >= uint64_t{1} << 31) return "the PEs have 2^31 vertices or more";
    layout_ = {{}, static_cast<uint32_t>(strips), pes, static_cast<uint32_t>(gravel_my_pe())};
    return {};
  }
  /// Does so, and finds the codes of all neighbours. The graph's memory stays the caller's.
  std::string make(const worklist_graph& graph, uint64_t edges) {
    if (std::string wrong = number(graph, edges); !wrong.empty()) return wrong;
    codes_ = graph.targets;  // the same numbers, if there is one PE
    if (layout_.pes == 1) return {};
    made_ = device_array<uint32_t>(edges);
    launch_for(edges, name_neighbours<>, graph, edges, layout_, made_.data());
    codes_ = made_.data();
    return {};
  }
  void release() { made_.release(); }

  /// One more than the largest place of any PE that has an edge.
  uint64_t last() const { return last_; }
  /// Codes, without bits.
  const replicated_bitmap& layout() const { return layout_; }
  /// [edges] codes of neighbours.
  const uint32_t* codes() const { return codes_; }

 private:
  uint64_t last_ = 0;
  replicated_bitmap layout_{};
  const uint32_t* codes_ = nullptr;
  device_array<uint32_t> made_;
};

/// Dynamic shared memory that a block may have, in words.
inline uint64_t words_of_block() {
#if GRAVEL_CUDA
  int device = 0, bytes = 48 * 1024;  // the latter: what any GPU has
  if (cudaGetDevice(&device) == cudaSuccess)
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
#else
  constexpr int bytes = 227 * 1024;
#endif
  constexpr uint64_t of_kernel = 2048;  // its static shared memory
  return (static_cast<uint64_t>(bytes) - of_kernel) / sizeof(uint32_t);
}
/// Blocks of a kernel that stay at all PEs and may wait for each other, whatever shared memory they turn out to have:
/// at most one on a multiprocessor. Collective; 0 if a PE has no room for any.
template <class... P>
uint32_t resident_blocks(void (*kernel)(P...), unsigned threads) {
  constexpr unsigned on_processors = 2;
  const unsigned most = most_cooperative_blocks(
      kernel, {.block = threads, .shared_bytes = words_of_block() * sizeof(uint32_t)}, gravel_n_pes() > 1);
  return static_cast<uint32_t>(gravel_min_all(uint64_t{GRAVEL_CUDA ? most : std::min(most, on_processors)}));
}

}  // namespace gravel::detail
