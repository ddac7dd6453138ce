// Expansion: distributes the edges of vertices among the lanes of a warp, by the vertices' degrees.
//
// One lane follows a short row alone, or short rows are mixed over all lanes. The warp follows a longer row together.
// Edges of hubs are cut into pieces, one for each block. Every lane follows several edges at once, so that their loads,
// then their atomics, are in flight together.
#pragma once
#include "lib/worklist/worklist_view.cuh"

namespace gravel::detail {

constexpr uint32_t edges_at_once = 4;

/// Up to edges_at_once edges of one lane.
template <class Value>
struct edge_group {
  uint64_t edge[edges_at_once];
  Value from[edges_at_once];
  uint32_t have;  ///< bit j: edge[j] exists
};

/// Makes offers along the edges of all lanes, and lists the vertices that are to be listed. READ_FIRST: reads a
/// vertex's word before the atomic, which saves most atomics. Thread scope: warp, converged.
template <bool READ_FIRST, class Program, class Lists>
GRAVEL_DEVICE void follow(const worklist_view<Program>& w, const Lists& lists,
                          const edge_group<typename worklist_view<Program>::value>& edges) {
  using value = typename worklist_view<Program>::value;
  uint32_t target[edges_at_once], have = edges.have;
  value offer[edges_at_once];
  listing found[edges_at_once];
  for (uint32_t j = 0; j < edges_at_once; ++j) target[j] = have >> j & 1 ? w.graph.targets[edges.edge[j]] : 0;
  for (uint32_t j = 0; j < edges_at_once; ++j)
    offer[j] = have >> j & 1 ? w.program.along(edges.from[j], edges.edge[j]) : value{};
  if constexpr (READ_FIRST) {
    for (uint32_t j = 0; j < edges_at_once; ++j)
      if (!w.program.vertices.may_take(target[j], offer[j])) have &= ~(1u << j);
  }
  for (uint32_t j = 0; j < edges_at_once; ++j)
    found[j] = have >> j & 1 ? lists.offer(target[j], offer[j]) : listing::none;
  for (uint32_t j = 0; j < edges_at_once; ++j) {
    if (__ballot_sync(~0u, found[j] != listing::none) == 0) continue;
    const bool ghost = w.is_ghost(target[j]);
    lists.near(found[j] == listing::near && !ghost, target[j]);
    lists.remote(found[j] != listing::none && ghost, target[j]);
    if constexpr (worklist_view<Program>::state::is_ordered) lists.far(found[j] == listing::far && !ghost, target[j]);
  }
}

/// Distributes edges `begin` to `end` of every lane among all lanes, fewer than 2^32 of each. follow_group(group) gets
/// some of them. Thread scope: warp, converged, also of `follow_group`.
template <class Value, class Follow>
GRAVEL_DEVICE void distribute_edges(uint64_t begin, uint64_t end, Value from, const Follow& follow_group) {
  constexpr uint32_t of_warp = 32 * edges_at_once;
  const uint32_t lane = threadIdx.x % 32, degree = static_cast<uint32_t>(end - begin);
  edge_group<Value> group;
  for (unsigned rest = __ballot_sync(~0u, degree >= 64); rest; rest &= rest - 1) {
    const int of = __ffs(static_cast<int>(rest)) - 1;
    const uint64_t first = __shfl_sync(~0u, begin, of), last = __shfl_sync(~0u, end, of);
    const auto passed = __shfl_sync(~0u, from, of);
    for (uint64_t e = first + lane; e < last + lane; e += of_warp) {
      group.have = 0;
      for (uint32_t j = 0; j < edges_at_once; ++j) {
        group.edge[j] = e + 32 * j;
        group.from[j] = passed;
        group.have |= static_cast<uint32_t>(group.edge[j] < last) << j;
      }
      follow_group(group);
    }
  }
  const uint32_t mine = degree < 64 ? degree : 0, longest = __reduce_max_sync(~0u, mine);
  if (longest <= 2 * edges_at_once) {
    for (uint32_t k = 0; k < longest; k += edges_at_once) {
      group.have = 0;
      for (uint32_t j = 0; j < edges_at_once; ++j) {
        group.edge[j] = begin + k + j;
        group.from[j] = from;
        group.have |= static_cast<uint32_t>(k + j < mine) << j;
      }
      follow_group(group);
    }
    return;
  }
  // The prefix sum `to_here` says which lane's row an edge belongs to.
  uint32_t to_here = mine;
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, to_here, step);
    if (lane >= step) to_here += below;
  }
  const uint32_t all = __shfl_sync(~0u, to_here, 31);
  for (uint32_t first = 0; first < all; first += of_warp) {
    group.have = 0;
    for (uint32_t j = 0; j < edges_at_once; ++j) {
      const uint32_t k = first + lane + 32 * j;
      int of = 0;
      for (int step = 16; step; step /= 2)
        if (__shfl_sync(~0u, to_here, of + step - 1) <= k) of += step;
      group.edge[j] = __shfl_sync(~0u, begin, of) + (k - __shfl_sync(~0u, to_here - mine, of));
      group.from[j] = __shfl_sync(~0u, from, of);
      group.have |= static_cast<uint32_t>(k < all) << j;
    }
    follow_group(group);
  }
}

/// Follows edges `begin` to `end` of every lane, fewer than hub_edges. Thread scope: warp, converged.
template <bool READ_FIRST, class Program, class Lists>
GRAVEL_DEVICE void distribute(const worklist_view<Program>& w, const Lists& lists, uint64_t begin, uint64_t end,
                              typename worklist_view<Program>::value from) {
  using group = edge_group<typename worklist_view<Program>::value>;
  distribute_edges(begin, end, from, [&](const group& edges) { follow<READ_FIRST>(w, lists, edges); });
}

/// Counts what a lane has expanded. A kernel adds it to the words of the worklist when it ends.
struct work_done {
  uint64_t expanded = 0, edges = 0;
  /// Thread scope: warp, converged.
  GRAVEL_DEVICE void add_to(worklist_words* words) const {
    const uint32_t some = __reduce_add_sync(~0u, static_cast<uint32_t>(expanded));
    uint64_t all = edges;
    for (int step = 16; step; step /= 2) all += __shfl_xor_sync(~0u, all, step);
    if (threadIdx.x % 32 != 0) return;
    if (some) fetch_add<scope::device>(&words->expanded, uint64_t{some});
    if (all) fetch_add<scope::device>(&words->edges, all);
  }
};

/// Cuts the edges of each lane that has a hub into pieces. The hub was taken with the value `from`. Thread scope: warp,
/// converged.
template <class Program>
GRAVEL_DEVICE void cut_up(const worklist_view<Program>& w, bool hub, uint32_t v, uint64_t degree,
                          typename worklist_view<Program>::value from) {
  if (__ballot_sync(~0u, hub) == 0) return;
  const auto pieces = hub ? static_cast<uint32_t>((degree + piece_edges - 1) / piece_edges) : 0;
  uint32_t at = pieces ? atomicAdd(&w.words->hub_size, pieces) : 0;
  for (uint32_t k = 0; k < pieces; ++k) w.hubs[at++] = {v, k, to_word(from)};
}

/// One round of the whole grid, without hubs: expands the current near list and fills the other one. Thread scope: all
/// blocks, of any number of whole warps.
template <class Program>
GRAVEL_DEVICE void expand_near_list(const worklist_view<Program>& w, work_done& done) {
  using view = worklist_view<Program>;
  const uint32_t turn = w.words->near_turn, size = w.words->near_size[turn], lane = threadIdx.x % 32;
  const device_lists<Program> lists{w, 1 - turn, w.words->far_turn, w.words->limit};
  for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size;
       of_warp += gridDim.x * blockDim.x) {
    uint64_t begin = 0, end = 0;
    typename view::value from{};
    uint32_t v = 0;
    bool hub = false;
    if (of_warp + lane < size) v = w.near[turn][of_warp + lane];
    if (of_warp + lane < size && w.program.vertices.take(v, &from)) {
      begin = w.graph.offsets[v];
      end = w.graph.offsets[v + 1];
      from = w.program.begin(v, from, end - begin);
      ++done.expanded;
      done.edges += end - begin;
      hub = end - begin >= hub_edges;
    }
    cut_up(w, hub, v, end - begin, from);
    if (hub) end = begin;
    distribute<true>(w, lists, begin, end, from);
  }
}
template <class Program>
__global__ void __launch_bounds__(256) expand_near(const __grid_constant__ worklist_view<Program> w) {
  work_done done;
  expand_near_list(w, done);
  done.add_to(w.words);
}

/// Expands the hubs that expand_near_list found, a block for each piece. Thread scope: all blocks.
template <class Program>
GRAVEL_DEVICE void expand_pieces(const worklist_view<Program>& w) {
  using value = typename worklist_view<Program>::value;
  const uint32_t pieces = w.words->hub_size, lane = threadIdx.x % 32;
  const device_lists<Program> lists{w, 1 - w.words->near_turn, w.words->far_turn, w.words->limit};
  edge_group<value> group;
  for (uint32_t p = blockIdx.x; p < pieces; p += gridDim.x) {
    const hub_piece piece = w.hubs[p];
    const auto from = from_word<value>(piece.from);
    const uint64_t first = w.graph.offsets[piece.vertex] + piece.number * piece_edges,
                   all = w.graph.offsets[piece.vertex + 1],
                   last = all - first > piece_edges ? first + piece_edges : all;
    for (uint64_t e = first + threadIdx.x / 32 * 32 * edges_at_once; e < last; e += blockDim.x * edges_at_once) {
      group.have = 0;
      for (uint32_t j = 0; j < edges_at_once; ++j) {
        group.edge[j] = e + lane + 32 * j;
        group.from[j] = from;
        group.have |= static_cast<uint32_t>(group.edge[j] < last) << j;
      }
      follow<true>(w, lists, group);
    }
  }
}
template <class Program>
__global__ void __launch_bounds__(256) expand_hubs(const __grid_constant__ worklist_view<Program> w) {
  expand_pieces(w);
}

/// Makes the other near list the current one. One thread.
GRAVEL_DEVICE void turn_near_over(worklist_words& words) {
  words.near_size[words.near_turn] = 0;
  words.near_turn = 1 - words.near_turn;
  words.pieces += words.hub_size;
  words.hub_size = 0;
  ++words.rounds;
}
template <class Program>
__global__ void turn_over(const __grid_constant__ worklist_view<Program> w) {
  turn_near_over(*w.words);
}

}  // namespace gravel::detail
