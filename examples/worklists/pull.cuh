// The levels of a breadth-first search in which many vertices are found: each that has not been found looks among its neighbours for one of the last level,
// a bit for each vertex, and stops at the first. The bits of a level go to all PEs. Also what the rules of Graph500 ask for: parents, and a check.
#pragma once
#include <algorithm>
#include <vector>

#include "examples/together.hpp"
#include "host/device_array.hpp"
#include "lib/graph/ghosts.hpp"
#include "lib/worklist/worklist.cuh"

namespace gravel {

/// Bits in words of 32, own vertices first; those of ghosts begin with a word of their own.
struct bits_view {
  uint32_t* words[2];  ///< of the last level, and of the next
  uint64_t own, own_words;
  uint32_t* parents;       ///< [own] who found a vertex, as its row names it
  uint32_t* levels;        ///< [own + ghosts] symmetric: words of the worklist, of all
  uint32_t* everybody;     ///< [PE][words_of_pe] symmetric: the bits of all PEs' vertices
  uint64_t words_of_pe;
  uint64_t* counter;

  GRAVEL_DEVICE uint64_t bit_of(uint32_t v) const { return v < own ? v : own_words * 32 + (v - own); }
};
constexpr uint32_t no_parent = ~0u;

template <class View>
__global__ void take_near_bits(const __grid_constant__ View w, bits_view b, int turn, uint32_t size, uint32_t* level) {
  const uint32_t* const near = w.near[w.words->near_turn];
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    uint32_t key;
    if (!w.program.vertices.take(near[i], &key)) continue;
    atomicOr(&b.words[turn][near[i] / 32], 1u << near[i] % 32);
    if (load_relaxed<scope::device>(level) > key) atomicMin(level, key);
  }
}
template <class View>
__global__ void give_near_bits(const __grid_constant__ View w, bits_view b, int turn, uint32_t level) {
  const device_lists<typename View::program_type> lists{w, w.words->near_turn, w.words->far_turn};
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < b.own; of_warp += lanes) {
    const uint32_t found = b.words[turn][of_warp / 32];
    const bool mine = of_warp + lane < b.own && (found >> lane & 1);
    if (mine) w.program.vertices.words[of_warp + lane] = 2 * level;
    lists.near(mine, static_cast<uint32_t>(of_warp + lane));
  }
}
/// A block sends its part of this PE's bits to one other PE.
__global__ void send_bits(gravel_t g, bits_view b, int turn, uint32_t blocks_each) {
  const auto to = static_cast<int>((g.my_pe + 1 + blockIdx.x / blocks_each) % g.n_pes);
  const uint64_t each = (b.own_words + blocks_each - 1) / blocks_each / 4 * 4 + 4, first = blockIdx.x % blocks_each * each;
  if (first >= b.own_words) return;
  const uint64_t count = b.own_words - first < each ? b.own_words - first : each;
  gravel_put_bulk(g, b.everybody + g.my_pe * b.words_of_pe + first, b.words[turn] + first, count * sizeof(uint32_t), to);
}
template <class View>
__global__ void take_ghost_bits(const __grid_constant__ View w, bits_view b, int turn) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32, ghosts = w.graph.n_ghosts;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < ghosts; of_warp += lanes) {
    bool found = false;
    if (of_warp + lane < ghosts) {
      const uint32_t code = w.graph.ghosts[of_warp + lane], place = w.graph.codes.place(code);
      found = b.everybody[static_cast<uint64_t>(w.graph.codes.owner(code)) * b.words_of_pe + place / 32] >> place % 32 & 1;
    }
    const uint32_t bits = __ballot_sync(~0u, found);
    if (lane == 0) b.words[turn][b.own_words + of_warp / 32] = bits;
  }
}
template <class View>
__global__ void __launch_bounds__(256) look_back(const __grid_constant__ View w, bits_view b, int turn, uint32_t level) {
  constexpr uint32_t each = 4;
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  const uint32_t* const last = b.words[turn];
  uint64_t all = 0;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < b.own; of_warp += lanes) {
    const uint64_t v = of_warp + lane;
    bool found = false;
    if (v < b.own && least_keys::key_of(w.program.vertices.words[v]) == least_keys::unreached) {
      const uint64_t end = w.graph.offsets[v + 1];
      for (uint64_t e = w.graph.offsets[v]; e < end && !found; e += each) {
        uint32_t target[each];
        bool here[each];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < each; ++j) target[j] = w.graph.targets[e + j < end ? e + j : e];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < each; ++j) here[j] = last[b.bit_of(target[j]) / 32] >> b.bit_of(target[j]) % 32 & 1;
        for (uint32_t j = 0; j < each && !found; ++j)
          if (here[j]) found = true, b.parents[v] = target[j];
      }
      if (found) w.program.vertices.words[v] = 2 * level | 1;
    }
    const uint32_t bits = __ballot_sync(~0u, found);
    if (lane == 0) b.words[1 - turn][of_warp / 32] = bits, all += static_cast<uint64_t>(__popc(bits));
  }
  if (lane == 0 && all) fetch_add<scope::device>(b.counter, all);
}
template <class View>
__global__ void copy_levels(const __grid_constant__ View w, bits_view b) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < b.own; v += uint64_t{gridDim.x} * blockDim.x)
    b.levels[v] = w.program.vertices.words[v];
}
template <class View>
__global__ void get_ghost_levels(gravel_t g, const __grid_constant__ View w, bits_view b) {
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < w.graph.n_ghosts; k += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t code = w.graph.ghosts[k];
    gravel_get(g, &b.levels[b.own + k], &b.levels[w.graph.codes.place(code)], w.graph.codes.owner(code));
  }
}
/// Of those that the worklist found.
template <class View>
__global__ void look_for_parents(const __grid_constant__ View w, bits_view b) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < b.own; v += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t level = least_keys::key_of(b.levels[v]);
    if (level == least_keys::unreached || level == 0 || b.parents[v] != no_parent) continue;
    for (uint64_t e = w.graph.offsets[v]; e < w.graph.offsets[v + 1]; ++e)
      if (least_keys::key_of(b.levels[w.graph.targets[e]]) == level - 1) {
        b.parents[v] = w.graph.targets[e];
        break;
      }
  }
}
/// Counts, a word each: mistakes, vertices that were found, their edges, the deepest level.
template <class View>
__global__ void check_search(const __grid_constant__ View w, bits_view b, uint64_t source_place, uint64_t* counts) {
  uint64_t wrong = 0, reached = 0, edges = 0, deepest = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < b.own; v += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t level = least_keys::key_of(b.levels[v]), parent = b.parents[v];
    const bool found = level != least_keys::unreached;
    if (b.levels[v] != w.program.vertices.words[v] || (found && !(b.levels[v] & 1))) ++wrong;  // it still waits
    if ((level == 0) != (v == source_place)) ++wrong;
    bool has_parent = !found || level == 0;
    for (uint64_t e = w.graph.offsets[v]; e < w.graph.offsets[v + 1]; ++e) {
      const uint32_t other = least_keys::key_of(b.levels[w.graph.targets[e]]);
      const bool other_found = other != least_keys::unreached;
      if (found != other_found || (found && (other > level + 1 || level > other + 1))) ++wrong;
      has_parent |= w.graph.targets[e] == parent && other + 1 == level;
    }
    if (!has_parent) ++wrong;
    if (!found) continue;
    ++reached, edges += w.graph.offsets[v + 1] - w.graph.offsets[v];
    if (deepest < level) deepest = level;
  }
  if (wrong) fetch_add<scope::device>(&counts[0], wrong);
  if (reached) fetch_add<scope::device>(&counts[1], reached);
  if (edges) fetch_add<scope::device>(&counts[2], edges);
  raise_relaxed<scope::device>(&counts[3], deepest);
}

struct bfs_check {
  uint64_t wrong, reached, edges, deepest;
};

/// The host's side. Constructor, destructor and most calls are collective.
class frontier_bits {
 public:
  frontier_bits(const worklist_graph& graph, const ghost_list&, int n_pes)
      : words_{device_array<uint32_t>(words_for(graph)), device_array<uint32_t>(words_for(graph))},
        parents_(std::max<uint64_t>(graph.own, 1)),
        counters_(std::vector<uint64_t>(4)),
        level_(uint64_t{1}) {
    const auto most = [](uint64_t count) { return std::max<uint64_t>(gravel_max_all(count), 1); };
    view_ = {{words_[0].data(), words_[1].data()}, graph.own, (graph.own + 31) / 32, parents_.data(), nullptr, nullptr, 0, counters_.data()};
    view_.words_of_pe = (most(view_.own_words) + 3) / 4 * 4;
    view_.levels = gravel_malloc<uint32_t>(most(graph.vertices()) * sizeof(uint32_t));
    if (n_pes > 1) view_.everybody = gravel_malloc<uint32_t>(static_cast<uint64_t>(n_pes) * view_.words_of_pe * sizeof(uint32_t));
  }
  void forget_parents() { launch(fill_words<uint32_t>, wide(view_.own), view_.parents, view_.own, no_parent); }

  /// The vertices that are near become the bits of the last level; returns which that is.
  template <class View>
  uint32_t take_near(const View& w) {
    worklist_words words;
    gravel_copy(&words, w.words, sizeof(words));
    const uint32_t none = least_keys::unreached;
    gravel_copy(level_.data(), &none, sizeof(none));
    current_backend().zero(view_.words[turn_], view_.own_words * sizeof(uint32_t));
    launch(take_near_bits<View>, wide(words.near_size[words.near_turn]), w, view_, turn_, words.near_size[words.near_turn], level_.data());
    gravel_synchronize();
    words.near_size[words.near_turn] = 0;
    gravel_copy(w.words, &words, sizeof(words));
    uint32_t level = 0;
    gravel_copy(&level, level_.data(), sizeof(level));
    return gravel_n_pes() == 1 ? level : gravel_min_all(level);
  }
  /// What was found last is near again.
  template <class View>
  void give_near(const View& w, uint32_t level) {
    worklist_words words;
    gravel_copy(&words, w.words, sizeof(words));
    words.limit = w.program.limit_after(level);
    gravel_copy(w.words, &words, sizeof(words));
    launch(give_near_bits<View>, wide(view_.own), w, view_, turn_, level);
    gravel_synchronize();
  }
  void tell_others() {
    if (gravel_n_pes() == 1) return;
    constexpr uint32_t blocks_each = GRAVEL_CUDA ? 16 : 1;
    gravel_launch(send_bits, blocks_each * static_cast<unsigned>(gravel_n_pes() - 1), GRAVEL_CUDA ? 512 : 32, gravel_handle(), view_, turn_, blocks_each);
    gravel_barrier_all();
  }
  /// Finds the vertices of `level`; returns how many there are, at all PEs.
  template <class View>
  uint64_t pull(const View& w, uint32_t level) {
    current_backend().zero(counters_.data(), sizeof(uint64_t));
    if (w.graph.n_ghosts) launch(take_ghost_bits<View>, wide(w.graph.n_ghosts), w, view_, turn_);
    launch(look_back<View>, wide(view_.own), w, view_, turn_, level);
    turn_ = 1 - turn_;
    uint64_t found = 0;
    gravel_synchronize();
    gravel_copy(&found, counters_.data(), sizeof(found));
    return gravel_n_pes() == 1 ? found : gravel_sum_all(found);
  }
  template <class View>
  void fetch_ghost_levels(const View& w) {
    launch(copy_levels<View>, wide(view_.own), w, view_);
    if (gravel_n_pes() > 1) {
      gravel_barrier_all();
      gravel_launch(get_ghost_levels<View>, wide(w.graph.n_ghosts), threads, gravel_handle(), w, view_);
      gravel_barrier_all();
    }
  }
  template <class View>
  void find_parents(const View& w) {
    fetch_ghost_levels(w);
    launch(look_for_parents<View>, wide(view_.own), w, view_);
    gravel_synchronize();
  }
  /// By the rules of Graph500: levels of neighbours differ by one at most, both or none of two neighbours were found, the parent is a neighbour one
  /// level above, and level 0 is the source alone. Of this PE's vertices.
  template <class View>
  bfs_check validate(const View& w, uint64_t source_place) {
    current_backend().zero(counters_.data(), 4 * sizeof(uint64_t));
    launch(check_search<View>, wide(view_.own), w, view_, source_place, counters_.data());
    gravel_synchronize();
    bfs_check check;
    gravel_copy(&check, counters_.data(), sizeof(check));
    return check;
  }

 private:
  static constexpr unsigned threads = GRAVEL_CUDA ? 256 : 32;
  static uint64_t words_for(const worklist_graph& graph) { return (graph.own + 31) / 32 + (graph.n_ghosts + 31) / 32 + 4; }
  static unsigned wide(uint64_t items) {
    const uint64_t most = GRAVEL_CUDA ? 132 * 8 : 2;
    return static_cast<unsigned>(std::clamp<uint64_t>((items + threads - 1) / threads, 1, most));
  }
  template <class... P, class... A>
  static void launch(void (*kernel)(P...), unsigned grid, A... arguments) {
    launch_alone(kernel, {.grid = grid, .block = threads}, arguments...);
  }

  device_array<uint32_t> words_[2];
  device_array<uint32_t> parents_;
  device_array<uint64_t> counters_;
  device_array<uint32_t> level_;
  bits_view view_{};
  int turn_ = 0;
};

}  // namespace gravel
