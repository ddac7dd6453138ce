// Small kernels that fill and scan the lists of a worklist, between the kernels that expand vertices. Where nothing
// else is said, grids and blocks have any size in whole warps.
#pragma once
#include <algorithm>

#include "host/launch_alone.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/worklist/worklist_view.cuh"

namespace gravel::detail {

/// Threads of a block whose lanes take vertices in turn.
constexpr unsigned vertex_threads = GRAVEL_CUDA ? 256 : 32;
/// The number of such blocks for a device. `multiprocessors`: from backend::multiprocessors; 0 if the device is no GPU.
struct device_blocks {
  uint32_t multiprocessors;

  /// Blocks for so many vertices: no more than run at once.
  unsigned for_vertices(uint64_t vertices) const {
    const uint64_t most = multiprocessors ? uint64_t{multiprocessors} * 8 : 2;
    return static_cast<unsigned>(std::clamp<uint64_t>((vertices + vertex_threads - 1) / vertex_threads, 1, most));
  }
  /// Blocks of a kernel that stays until all is done. `alone`: no other PE sends, so the kernel has the device for
  /// itself. `gathers`: the kernel of all PEs' rounds, with inboxes.
  unsigned resident(bool alone, bool gathers) const {
    if (multiprocessors == 0) return 3;
    if (alone) return multiprocessors;
    return gathers ? 2 * multiprocessors : std::max(multiprocessors / 2, 1u);
  }
};
inline unsigned vertex_blocks(uint64_t vertices) {
  return device_blocks{current_backend().multiprocessors()}.for_vertices(vertices);
}
/// How a cooperative kernel that stays until all is done is launched. `asked`: blocks that the program wants, 0: as
/// many as suit the device and run at once on it. The numbers of blocks may differ between PEs. `alone`, `gathers`: as
/// device_blocks::resident().
template <class... P>
gravel_launch_config resident_launch(void (*kernel)(P...), unsigned asked, bool alone, bool gathers) {
  gravel_launch_config how{.block = vertex_threads, .cooperative = true};
  unsigned blocks = asked;
  if (blocks == 0) {
    blocks = device_blocks{current_backend().multiprocessors()}.resident(alone, gathers);
    blocks = std::min(blocks, most_cooperative_blocks(kernel, how, !alone));
  }
  // In an asynchronous kernel one warp keeps the watch; another must work.
  how.grid = std::max(blocks, vertex_threads > 32 ? 1u : 2u);
  return how;
}

/// Offers one value, for the host.
template <class Program>
__global__ void offer_one(const __grid_constant__ worklist_view<Program> w, uint32_t v,
                          typename worklist_view<Program>::value offer) {
  const device_lists<Program> lists{w, w.words->near_turn, w.words->far_turn, w.words->limit};
  const listing found = threadIdx.x == 0 ? lists.offer(v, offer) : listing::none;
  lists.near(found == listing::near, v);
  lists.far(found == listing::far, v);
}
/// Offers to each own vertex the value that the program's `first(v)` returns.
template <class Program>
__global__ void offer_first(const __grid_constant__ worklist_view<Program> w) {
  const device_lists<Program> lists{w, w.words->near_turn, w.words->far_turn, w.words->limit};
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < w.graph.own;
       of_warp += lanes) {
    const auto v = static_cast<uint32_t>(of_warp + lane);
    const listing found = v < w.graph.own ? lists.offer(v, w.program.first(v)) : listing::none;
    lists.near(found == listing::near, v);
    lists.far(found == listing::far, v);
  }
}
/// Sets hub_size to 1 if any vertex is a hub.
template <class Program>
__global__ void find_hubs(const __grid_constant__ worklist_view<Program> w) {
  uint32_t mine = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < w.graph.own;
       v += uint64_t{gridDim.x} * blockDim.x)
    mine |= w.graph.offsets[v + 1] - w.graph.offsets[v] >= hub_edges;
  if (mine) store_relaxed<scope::device>(&w.words->hub_size, 1u);
}
template <class T>
__global__ void fill_words(T* words, uint64_t count, T value) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x)
    words[i] = value;
}
/// Finds the least key of the far list. Thread scope: all blocks.
template <class Program>
GRAVEL_DEVICE void scan_for_least(const worklist_view<Program>& w) {
  if constexpr (worklist_view<Program>::state::is_ordered) {
    const uint32_t turn = w.words->far_turn, size = w.words->far_size[turn];
    uint32_t least = ~0u;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
      const uint32_t word = load_relaxed<scope::device>(&w.program.vertices.words[w.far[turn][i]]);
      if (least_keys::waits(word) && least_keys::key_of(word) < least) least = least_keys::key_of(word);
    }
    if (least != ~0u) atomicMin(&w.words->least, least);
  }
}
template <class Program>
__global__ void find_least(const __grid_constant__ worklist_view<Program> w) {
  scan_for_least(w);
}
/// Splits the far list: vertices below `limit` become near, the others go into the other far list. begin_limit must
/// follow. Thread scope: all blocks.
template <class Program>
GRAVEL_DEVICE void split_far_list(const worklist_view<Program>& w, uint32_t limit) {
  if constexpr (worklist_view<Program>::state::is_ordered) {
    const uint32_t turn = w.words->far_turn, size = w.words->far_size[turn], lane = threadIdx.x % 32;
    const device_lists<Program> lists{w, w.words->near_turn, 1 - turn, limit};
    for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
         of_warp += gridDim.x * blockDim.x) {
      uint32_t v = 0, word = least_keys::initial_word;
      if (of_warp + lane < size) {
        v = w.far[turn][of_warp + lane];
        word = load_relaxed<scope::device>(&w.program.vertices.words[v]);
      }
      const bool waits = least_keys::waits(word), is_near = least_keys::key_of(word) < limit;
      lists.near(waits && is_near, v);
      lists.far(waits && !is_near, v);
    }
  }
}
template <class Program>
__global__ void split_far(const __grid_constant__ worklist_view<Program> w, uint32_t limit) {
  split_far_list(w, limit);
}
/// Adds up the edges of the vertices that are near.
template <class Program>
__global__ void count_near_edges(const __grid_constant__ worklist_view<Program> w) {
  const uint32_t turn = w.words->near_turn, size = w.words->near_size[turn];
  uint64_t edges = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
    edges += w.graph.offsets[w.near[turn][i] + 1] - w.graph.offsets[w.near[turn][i]];
  for (int step = 16; step; step /= 2) edges += __shfl_xor_sync(~0u, edges, step);
  if (threadIdx.x % 32 == 0 && edges) fetch_add<scope::device>(&w.words->near_edges, edges);
}
/// Makes `limit` the limit, after split_far_list. One thread.
GRAVEL_DEVICE void begin_limit(worklist_words& words, uint32_t limit) {
  words.far_size[words.far_turn] = 0;
  words.far_turn = 1 - words.far_turn;
  words.limit = limit;
  words.least = ~0u;
}
template <class Program>
__global__ void set_limit(const __grid_constant__ worklist_view<Program> w, uint32_t limit) {
  begin_limit(*w.words, limit);
}

}  // namespace gravel::detail
