// The levels of a breadth-first search in which many vertices are found: each that has not been found looks among its
// neighbours for one of the last level, a bit for each vertex, and stops at the first. The bits of a level go to all
// PEs. Also the parents of vertices that the worklist found.
#pragma once
#include <algorithm>
#include <vector>

#include "lib/worklist/words_of_all.cuh"
#include "lib/worklist/worklist.cuh"

namespace gravel::detail {

/// Bits in words of 32, own vertices first; those of ghosts begin with a word of their own.
struct bits_view {
  uint32_t* words[2];  ///< of the last level, and of the next
  uint64_t own, own_words;
  uint32_t* parents;    ///< [own] who found a vertex, as its row names it
  uint32_t* levels;     ///< [own + ghosts] words of the worklist, of all
  uint32_t* everybody;  ///< [PE][words_of_pe] symmetric: the bits of all PEs' vertices
  uint64_t words_of_pe;
  uint64_t* counter;

  GRAVEL_DEVICE uint64_t bit_of(uint32_t v) const { return v < own ? v : own_words * 32 + (v - own); }
};

template <class View>
__global__ void take_near_bits(const __grid_constant__ View w, bits_view b, int turn, uint32_t size, uint32_t* level) {
  const uint32_t* const near = w.near[w.words->near_turn];
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    uint32_t key;
    if (!w.program.vertices.take(near[i], &key)) continue;
    atomicOr(&b.words[turn][near[i] / 32], 1u << near[i] % 32);
    if (level && load_relaxed<scope::device>(level) > key) atomicMin(level, key);
  }
}
template <class View>
__global__ void give_near_bits(const __grid_constant__ View w, bits_view b, int turn, uint32_t level) {
  const device_lists<typename View::program_type> lists{w, w.words->near_turn, w.words->far_turn, w.words->limit};
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < b.own;
       of_warp += lanes) {
    const uint32_t found = b.words[turn][of_warp / 32];
    const bool mine = of_warp + lane < b.own && (found >> lane & 1);
    if (mine) w.program.vertices.words[of_warp + lane] = least_keys::word_of(level, true);
    lists.near(mine, static_cast<uint32_t>(of_warp + lane));
  }
}
/// A block sends its part of this PE's bits to one other PE.
template <int = 0>
__global__ void send_bits(gravel_t g, bits_view b, int turn, uint32_t blocks_each) {
  const auto to = static_cast<int>((g.my_pe + 1 + blockIdx.x / blocks_each) % g.n_pes);
  const uint64_t each = (b.own_words + blocks_each - 1) / blocks_each / 4 * 4 + 4,
                 first = blockIdx.x % blocks_each * each;
  if (first >= b.own_words) return;
  const uint64_t count = b.own_words - first < each ? b.own_words - first : each;
  gravel_put_bulk(g, b.everybody + g.my_pe * b.words_of_pe + first, b.words[turn] + first, count * sizeof(uint32_t),
                  to);
}
template <class View>
__global__ void take_ghost_bits(const __grid_constant__ View w, bits_view b, int turn) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32, ghosts = w.graph.n_ghosts;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < ghosts;
       of_warp += lanes) {
    bool found = false;
    if (of_warp + lane < ghosts) {
      const uint32_t code = w.graph.ghosts[of_warp + lane], place = w.graph.codes.place(code);
      found =
          b.everybody[static_cast<uint64_t>(w.graph.codes.owner(code)) * b.words_of_pe + place / 32] >> place % 32 & 1;
    }
    const uint32_t bits = __ballot_sync(~0u, found);
    if (lane == 0) b.words[turn][b.own_words + of_warp / 32] = bits;
  }
}
template <class View>
__global__ void __launch_bounds__(256)
    scan_back(const __grid_constant__ View w, bits_view b, int turn, uint32_t level) {
  constexpr uint32_t each = 4;
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  const uint32_t* const last = b.words[turn];
  uint64_t all = 0;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < b.own;
       of_warp += lanes) {
    const uint64_t v = of_warp + lane;
    bool found = false;
    if (v < b.own && least_keys::key_of(w.program.vertices.words[v]) == least_keys::unreached) {
      const uint64_t end = w.graph.offsets[v + 1];
      for (uint64_t e = w.graph.offsets[v]; e < end && !found; e += each) {
        uint32_t target[each];
        bool here[each];
        for (uint32_t j = 0; j < each; ++j) target[j] = w.graph.targets[e + j < end ? e + j : e];
        for (uint32_t j = 0; j < each; ++j) here[j] = last[b.bit_of(target[j]) / 32] >> b.bit_of(target[j]) % 32 & 1;
        for (uint32_t j = 0; j < each && !found; ++j)
          if (here[j]) {
            found = true;
            b.parents[v] = target[j];
          }
      }
      if (found) w.program.vertices.words[v] = least_keys::word_of(level, false);
    }
    const uint32_t bits = __ballot_sync(~0u, found);
    if (lane == 0) {
      b.words[1 - turn][of_warp / 32] = bits;
      all += static_cast<uint64_t>(__popc(bits));
    }
  }
  if (lane == 0 && all) fetch_add<scope::device>(b.counter, all);
}
/// Of those that the worklist found: of level 1 the source, as this PE names it; others look through their rows. Long
/// rows are left to search_long_rows, in pieces.
constexpr uint64_t long_row = 64, row_piece = 4096;
struct row_part {
  uint32_t vertex, number;
};
template <class View>
__global__ void scan_for_parents(const __grid_constant__ View w, bits_view b, uint32_t source, row_part* parts,
                                 uint32_t* n_parts) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < b.own; v += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t level = least_keys::key_of(b.levels[v]);
    if (level == least_keys::unreached || level == 0 || b.parents[v] != no_parent) continue;
    if (level == 1) {
      b.parents[v] = source;
      continue;
    }
    const uint64_t begin = w.graph.offsets[v], end = w.graph.offsets[v + 1];
    if (end - begin >= long_row) {
      const auto pieces = static_cast<uint32_t>((end - begin + row_piece - 1) / row_piece);
      const uint32_t at = atomicAdd(n_parts, pieces);
      for (uint32_t k = 0; k < pieces; ++k) parts[at + k] = {static_cast<uint32_t>(v), k};
      continue;
    }
    for (uint64_t e = begin; e < end; ++e)
      if (least_keys::key_of(b.levels[w.graph.targets[e]]) == level - 1) {
        b.parents[v] = w.graph.targets[e];
        break;
      }
  }
}
/// A warp for each piece.
template <class View>
__global__ void search_long_rows(const __grid_constant__ View w, bits_view b, const row_part* parts,
                                 const uint32_t* n_parts) {
  const uint32_t warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  for (uint32_t p = (blockIdx.x * blockDim.x + threadIdx.x) / 32; p < *n_parts; p += warps) {
    const uint32_t v = parts[p].vertex, level = least_keys::key_of(b.levels[v]);
    const uint64_t row = w.graph.offsets[v + 1], first = w.graph.offsets[v] + parts[p].number * row_piece,
                   last = row - first > row_piece ? first + row_piece : row;
    bool found = false;
    for (uint64_t e = first; e < last && !found; e += 32) {
      const uint64_t mine = e + lane;
      const bool above = mine < last && least_keys::key_of(b.levels[w.graph.targets[mine]]) == level - 1;
      found = __ballot_sync(~0u, above || load_relaxed<scope::device>(&b.parents[v]) != no_parent) != 0;
      if (above) store_relaxed<scope::device>(&b.parents[v], w.graph.targets[mine]);
    }
  }
}
/// The host's side. The constructor and most calls are collective.
class frontier_bits {
 public:
  frontier_bits(const worklist_graph& graph, uint64_t edges)
      : words_{device_array<uint32_t>(words_for(graph)), device_array<uint32_t>(words_for(graph))},
        parents_(std::max<uint64_t>(graph.own, 1)),
        counters_(std::vector<uint64_t>(4)),
        level_(uint64_t{1}),
        parts_(edges / long_row + edges / row_piece + 1),
        ghosts_(codes_of_ghosts("breadth_first_search", graph)),
        levels_(graph) {
    const auto most = [](uint64_t count) { return std::max<uint64_t>(gravel_max_all(count), 1); };
    view_ = {{words_[0].data(), words_[1].data()},
             graph.own,
             (graph.own + 31) / 32,
             parents_.data(),
             nullptr,
             nullptr,
             0,
             counters_.data()};
    view_.words_of_pe = (most(view_.own_words) + 3) / 4 * 4;
    view_.levels = levels_.words();
    const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
    if (n_pes > 1) view_.everybody = gravel_malloc<uint32_t>(n_pes * view_.words_of_pe * sizeof(uint32_t));
  }
  /// Frees the symmetric memory. gravel_finalize frees it, too.
  void release() {
    levels_.release();
    if (view_.everybody) gravel_free(view_.everybody);
  }
  const bits_view& view() const { return view_; }
  mapped_rendezvous& rendezvous() { return levels_.rendezvous(); }
  void forget_parents() { launch_for(view_.own, fill_words<uint32_t>, view_.parents, view_.own, no_parent); }

  /// The vertices that are near become the bits of the last level; returns which that is.
  template <class View>
  uint32_t take_near(const View& w) {
    worklist_words words;
    gravel_copy(&words, w.words, sizeof(words));
    const bool alone = gravel_n_pes() == 1;
    uint32_t level = least_keys::unreached;
    if (alone) gravel_copy(level_.data(), &level, sizeof(level));
    current_backend().zero(view_.words[turn_], view_.own_words * sizeof(uint32_t));
    launch_for(words.near_size[words.near_turn], take_near_bits<View>, w, view_, turn_,
               words.near_size[words.near_turn], alone ? level_.data() : nullptr);
    gravel_synchronize();
    words.near_size[words.near_turn] = 0;
    gravel_copy(w.words, &words, sizeof(words));
    if (!alone) return words.limit - 1;  // of several PEs the limit goes from level to level
    gravel_copy(&level, level_.data(), sizeof(level));
    return level;
  }
  /// What was found last is near again.
  template <class View>
  void give_near(const View& w, uint32_t level) {
    worklist_words words;
    gravel_copy(&words, w.words, sizeof(words));
    words.limit = w.program.limit_after(level);
    gravel_copy(w.words, &words, sizeof(words));
    launch_for(view_.own, give_near_bits<View>, w, view_, turn_, level);
  }
  void notify_others() {
    if (gravel_n_pes() == 1) return;
    constexpr uint32_t blocks_each = GRAVEL_CUDA ? 16 : 1;
    const gravel_launch_config how{.grid = blocks_each * static_cast<unsigned>(gravel_n_pes() - 1),
                                   .block = GRAVEL_CUDA ? 512 : 32};
    if (levels_.rendezvous().is_mapped()) launch_alone(send_bits<>, how, gravel_handle(), view_, turn_, blocks_each);
    else gravel_launch(send_bits<>, how, gravel_handle(), view_, turn_, blocks_each);
    levels_.rendezvous().round();
  }
  /// Finds the vertices of `level`; returns how many there are, at all PEs.
  template <class View>
  uint64_t pull(const View& w, uint32_t level) {
    current_backend().zero(counters_.data(), sizeof(uint64_t));
    if (w.graph.n_ghosts) launch_for(w.graph.n_ghosts, take_ghost_bits<View>, w, view_, turn_);
    launch_for(view_.own, scan_back<View>, w, view_, turn_, level);
    turn_ = 1 - turn_;
    return levels_.rendezvous().sum(counters_.data());
  }
  template <class View>
  void fetch_levels(const View& w) {
    levels_.fetch(w.program.vertices.words);
  }
  /// Finds the parents of vertices that did not find theirs by looking back.
  template <class View>
  void find_parents(const View& w, int owner, uint64_t place) {
    fetch_levels(w);
    auto source = static_cast<uint32_t>(place);
    if (owner != gravel_my_pe())  // if there is no such ghost, no vertex here is next to the source
      source =
          static_cast<uint32_t>(view_.own + static_cast<uint64_t>(std::lower_bound(ghosts_.begin(), ghosts_.end(),
                                                                                   w.graph.codes.code(owner, place)) -
                                                                  ghosts_.begin()));
    uint32_t* const n_parts = level_.data();
    const uint32_t none = 0;
    gravel_copy(n_parts, &none, sizeof(none));
    launch_for(view_.own, scan_for_parents<View>, w, view_, source, parts_.data(), n_parts);
    launch_for(view_.own, search_long_rows<View>, w, view_, static_cast<const row_part*>(parts_.data()),
               static_cast<const uint32_t*>(n_parts));
    gravel_synchronize();
  }

 private:
  static uint64_t words_for(const worklist_graph& graph) {
    return (graph.own + 31) / 32 + (graph.n_ghosts + 31) / 32 + 4;
  }
  device_array<uint32_t> words_[2];
  device_array<uint32_t> parents_;
  device_array<uint64_t> counters_;
  device_array<uint32_t> level_;
  device_array<row_part> parts_;
  std::vector<uint32_t> ghosts_;
  words_of_all<uint32_t> levels_;
  bits_view view_{};
  int turn_ = 0;
};

}  // namespace gravel::detail
