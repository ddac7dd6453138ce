// The kernel of a breadth-first search: it stays for all levels, at all PEs.
//
// Problem. In a graph with hubs a search has few levels, and most vertices are found in two of them. Kernels, messages
// and hosts' decisions for each level take longer than the level.
// Solution. One kernel of resident blocks, with a rendezvous between levels (lib/worklist/level_rendezvous.cuh). First
// it expands lists: every PE knows the whole list, and follows the edges to its own vertices. When the list has many
// edges it looks back instead (Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first search", SC12): each
// vertex that has not been found looks for a neighbour that has, in a replicated bitmap
// (lib/worklist/replicated_bitmap.cuh) of all that were found so far. Such a neighbour is in the last level: otherwise
// the vertex would have been found before.
//
// Looking back, for speed:
// - The neighbours with the lowest codes stand in columns, the k-th ones of all vertices one after the other. Nearly
//   all vertices find the parent there.
// - The hub part of the bitmap is in shared memory.
// - The first time, each vertex gets its first neighbour as parent, by wide stores. Later only another parent is
//   stored, and what was never found loses its parent at the end.
// - A block owns strips of vertices. Their bits are in its shared memory while it looks back. Warps keep lists of their
//   own of the vertices that need another look.
//
// Protocol. In an expanding level, bits are set in this PE's copy alone, in its own words, and vertices that were found
// go into the block's queue at all PEs. Before the first level that looks back all blocks store their words at all PEs,
// and have a rendezvous. A level that looks back reads one bitmap and stores words into the other one, at all PEs.
//
// Invariants.
// - Only a PE that owns a vertex finds it, so it is found once. Two parents of one level may both store; each is right.
// - Own words of bitmap 0 are 0 when the kernel begins: blocks clear them at the end, when no block reads them.
// - All blocks see the same totals, so they change the direction, and end, together.
#pragma once
#include "lib/worklist/level_rendezvous.cuh"
#include "lib/worklist/replicated_bitmap.cuh"
#include "lib/worklist/worklist_view.cuh"

namespace gravel::detail {

constexpr uint32_t search_threads = replicated_bitmap::strip, search_warps = search_threads / 32;
/// Columns of neighbours behind the first one.
constexpr uint32_t more_columns = 12;
/// A list has fewer vertices, and one block may add so many to it; with more, vertices look back.
constexpr uint32_t most_listed = 2 * search_threads, most_of_block = GRAVEL_CUDA ? 128 : 16;
/// Edges of a list from which on nobody waits for the answers of atomic operations.
constexpr uint32_t many_edges = GRAVEL_CUDA ? 131072 : 256;
/// A block that has this share of its vertices left goes through all of them, and copies the hub part.
constexpr uint32_t dense_share = 32;

/// What a level did, and when it was over.
struct search_level {
  enum class way : uint32_t { expanded, expanded_many, looked_back, looked_back_sparse };
  uint64_t ns;     ///< since the kernel began, at this PE
  way how;         ///< of the first block
  uint32_t found;  ///< at all PEs; 0 for expanded_many, which does not count
};
struct search_log {
  static constexpr uint32_t most_levels = 64;
  search_level level[most_levels];  ///< the first ones
  uint32_t levels;
  uint32_t gave_up;  ///< 1: looking back took too much work, and the parents are worth nothing
  uint64_t ns;       ///< of the kernel
};

/// All that the kernel reads and writes. Plain data.
struct search_view {
  const uint64_t* offsets;      ///< [own + 1] rows of own vertices
  const uint32_t* codes;        ///< [edges] of their neighbours
  const uint64_t* cut_offsets;  ///< [cut_rows + 1] rows of the vertices of all PEs, by code
  const uint32_t* cut_places;   ///< of their neighbours that are this PE's
  uint64_t cut_rows;
  const uint32_t* columns;  ///< [1 + more_columns][strips] codes of the first neighbours; ~0: there is none. In column
                            ///< 0 with only_one if there is no other
  uint32_t column_size[1 + more_columns];  ///< places from there on have no such neighbour
  const uint32_t* closed;                  ///< [strips / 32] bits of places without neighbours
  const uint32_t* names;                   ///< [codes] what parents are called; null: by their codes
  const uint32_t* first_names;             ///< [strips] name of the first neighbour
  const uint32_t* own_names;               ///< [own]
  uint32_t* parents;                       ///< [own, filled up to strips]
  uint32_t* lists[2];                      ///< [warps of the grid][places_of_warp]
  uint32_t* queues;                        ///< symmetric [2][PE][block][most_of_block] codes
  uint32_t strips_of_block;                ///< filled up to whole groups of 16
  uint32_t hub_words;                      ///< of the hub part, a multiple of 4
  uint32_t most_edges;                     ///< of a list that is expanded
  uint64_t most_looks;                     ///< looks at vertices that are left, before the search gives up
  replicated_bitmap bitmap;
  level_rendezvous rendezvous;
  search_log* log;

  static constexpr uint32_t only_one = 1u << 31;
  GRAVEL_BOTH uint32_t places() const { return bitmap.strips * replicated_bitmap::strip; }
  GRAVEL_BOTH uint32_t places_of_warp() const { return strips_of_block * 32; }
};
/// Where the search begins.
struct search_root {
  uint32_t code;
  uint32_t place;       ///< ~0: at another PE
  uint32_t last_place;  ///< of the search before
};

/// Dynamic shared memory: words of the block's strips, which of them changed, what each block has found and how many
/// before it, and either the list or the hub part.
struct search_layout {
  static constexpr uint32_t stride = replicated_bitmap::strip_words + 4;  ///< words of a strip, in different banks
  uint32_t strips, blocks_of_all, hub_words;

  GRAVEL_BOTH uint32_t changed_at() const { return strips * stride; }
  GRAVEL_BOTH uint32_t found_at() const { return changed_at() + 2 * strips; }
  GRAVEL_BOTH uint32_t list_at() const { return (found_at() + blocks_of_all + 1 + 3) / 4 * 4; }
  /// Words of the list: a vertex, its first edge in the level, and where its row lies.
  static constexpr uint32_t list_words = 4 * most_listed + 4;
  GRAVEL_BOTH uint32_t words() const { return list_at() + (hub_words > list_words ? hub_words : list_words); }
};

struct search_shared {
  level_block blocks;
  uint32_t sums[33];
  uint32_t count, found;
  uint64_t work;
};

/// One block of the kernel. Thread scope of all calls where nothing else is said: block, converged.
struct search_block {
  const gravel_t& g;
  const search_view& v;
  search_shared& s;
  uint32_t* const own;      ///< [strips_of_block][stride] bits of the block's strips
  uint32_t* const changed;  ///< [2][strips_of_block] groups of four words that changed in a level
  uint32_t* const found_of;
  uint32_t* const hub;  ///< or the list:
  uint32_t* const listed;
  uint32_t* const edge_of;  ///< [most_listed + 1] edges of the list before each vertex
  uint64_t* const row_of;   ///< where its row begins, less edge_of
  uint32_t levels = 0;
  uint64_t since = 0;

  static constexpr uint32_t stride = search_layout::stride, strip = replicated_bitmap::strip;

  GRAVEL_DEVICE search_block(const gravel_t& handle, const search_view& view, search_shared& shared, uint32_t* words,
                             const search_layout& at)
      : g(handle),
        v(view),
        s(shared),
        own(words),
        changed(words + at.changed_at()),
        found_of(words + at.found_at()),
        hub(words + at.list_at()),
        listed(hub),
        edge_of(hub + most_listed),
        row_of(reinterpret_cast<uint64_t*>(hub + 2 * most_listed + 4)) {}

  GRAVEL_DEVICE static uint32_t lane() { return threadIdx.x % 32; }
  GRAVEL_DEVICE static uint32_t warp() { return threadIdx.x / 32; }
  GRAVEL_DEVICE static uint32_t rank_in(unsigned lanes) {
    return static_cast<uint32_t>(__popc(lanes & ((1u << lane()) - 1)));
  }
  GRAVEL_DEVICE uint32_t name_of(uint32_t code) const { return v.names ? v.names[code] : code; }
  /// Place of vertex `at % strip` of the block's strip `at / strip`.
  GRAVEL_DEVICE uint32_t place_at(uint32_t at) const {
    return (at / strip * gridDim.x + blockIdx.x) * strip + at % strip;
  }
  GRAVEL_DEVICE void note(search_level::way how, uint64_t found) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && levels < search_log::most_levels)
      v.log->level[levels] = {globaltimer_ns() - since, how, static_cast<uint32_t>(found)};
    ++levels;
  }
  /// Sum of what the threads before this one have. `all`: the sum of all.
  GRAVEL_DEVICE uint32_t sum_before(uint32_t mine, uint32_t* all) const {
    uint32_t sum = mine;
    for (uint32_t step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, sum, step);
      if (lane() >= step) sum += other;
    }
    __syncthreads();
    if (lane() == 31) s.sums[warp()] = sum;
    __syncthreads();
    if (warp() == 0) {
      const uint32_t of_warp = lane() < search_warps ? s.sums[lane()] : 0;
      uint32_t up_to = of_warp;
      for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, up_to, step);
        if (lane() >= step) up_to += other;
      }
      if (lane() < search_warps) s.sums[lane()] = up_to - of_warp;
      if (lane() == 31) s.sums[32] = up_to;
    }
    __syncthreads();
    *all = s.sums[32];
    return s.sums[warp()] + sum - mine;
  }

  // Expanding.

  GRAVEL_DEVICE uint32_t* queue_of(uint32_t turn, uint32_t block_of_all) const {
    return v.queues + (uint64_t{turn} * g.n_pes * gridDim.x + block_of_all) * most_of_block;
  }
  /// Makes the list of what all blocks have found, `n` vertices in the queues of `turn`. found_of becomes the sums.
  GRAVEL_DEVICE void gather_list(uint32_t n, uint32_t turn) {
    const uint32_t blocks = g.n_pes * gridDim.x, each = (blocks + search_threads - 1) / search_threads,
                   begin = threadIdx.x * each;
    uint32_t mine = 0, all;
    for (uint32_t i = begin; i < begin + each && i < blocks; ++i) mine += found_of[i];
    uint32_t before = sum_before(mine, &all);
    for (uint32_t i = begin; i < begin + each && i < blocks; ++i) {
      const uint32_t here = found_of[i];
      found_of[i] = before;
      before += here;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += search_threads) {
      const uint32_t block = last_up_to(found_of, blocks, i);
      listed[i] = queue_of(turn, block)[i - found_of[block]];
    }
    __syncthreads();
  }
  /// The last of `count` rising sums that is not above `x`. Thread scope: lane.
  GRAVEL_DEVICE static uint32_t last_up_to(const uint32_t* sums, uint32_t count, uint32_t x) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      if (sums[middle] <= x) low = middle;
      else high = middle;
    }
    return low;
  }
  /// Fills in edge_of and row_of of the list; returns its edges to own vertices.
  GRAVEL_DEVICE uint32_t find_rows(uint32_t n) {
    constexpr uint32_t each = most_listed / search_threads;
    uint64_t row[each];
    uint32_t degree[each], sum = 0, edges;
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < each; ++j) {
      const uint32_t i = threadIdx.x * each + j;
      degree[j] = 0;
      row[j] = 0;
      if (i < n && listed[i] < v.cut_rows) {
        row[j] = v.cut_offsets[listed[i]];
        degree[j] = static_cast<uint32_t>(v.cut_offsets[listed[i] + 1] - row[j]);
      }
      sum += degree[j];
    }
    uint32_t at = sum_before(sum, &edges);
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < each; ++j) {
      const uint32_t i = threadIdx.x * each + j;
      if (i < n) {
        edge_of[i] = at;
        row_of[i] = row[j] - at;
      }
      at += degree[j];
    }
    if (threadIdx.x == 0) edge_of[n] = edges;
    __syncthreads();
    return edges;
  }
  /// Follows edges `begin` to `end` of the list of n vertices, and puts what it finds into the queues of `turn`.
  GRAVEL_DEVICE void expand(uint32_t n, uint32_t begin, uint32_t end, uint32_t turn) {
    uint32_t* const queue = queue_of(turn, g.my_pe * gridDim.x + blockIdx.x);
    uint64_t work = 0;
    for (uint32_t of_block = begin; of_block < end; of_block += 4 * search_threads) {
      uint32_t place[4], from[4], before[4];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t e = of_block + j * search_threads + threadIdx.x;
        place[j] = ~0u;
        from[j] = 0;
        if (e >= end) continue;
        const uint32_t i = last_up_to(edge_of, n, e);
        from[j] = listed[i];
        place[j] = v.cut_places[row_of[i] + e];
        if (v.bitmap.code_of(static_cast<int>(g.my_pe), place[j]) == from[j]) place[j] = ~0u;  // a loop
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) {
        before[j] = ~0u;
        if (place[j] != ~0u) before[j] = atomicOr(&v.bitmap.words[0][v.bitmap.own_word(place[j])], 1u << place[j] % 32);
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) {
        const bool hit = !(before[j] >> place[j] % 32 & 1);
        const unsigned hits = __ballot_sync(~0u, hit);
        if (hits == 0) continue;
        uint32_t at = 0;
        if (lane() == 0) at = atomicAdd_block(&s.count, static_cast<uint32_t>(__popc(hits)));
        at = __shfl_sync(~0u, at, 0) + rank_in(hits);
        if (!hit) continue;
        v.parents[place[j]] = name_of(from[j]);
        work += v.offsets[place[j] + 1] - v.offsets[place[j]];
        if (at >= most_of_block) continue;
        for (uint32_t pe = 0; pe < g.n_pes; ++pe)
          *s.blocks.others.at(&queue[at], static_cast<int>(pe)) = v.bitmap.code_of(static_cast<int>(g.my_pe), place[j]);
      }
    }
    if (work) fetch_add<scope::shared>(&s.work, work);
  }
  /// The same for a list of many edges: no list is made and nothing is counted, so nothing waits for the atomic
  /// operations. A thread takes 8 edges in sequence, which often lead to one word.
  GRAVEL_DEVICE void expand_many(uint32_t n, uint32_t begin, uint32_t end) {
    constexpr uint32_t each = 8;
    for (uint32_t first = begin + threadIdx.x * each; first < end; first += search_threads * each) {
      uint32_t place[each], from[each], word[each], i = last_up_to(edge_of, n, first);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < each; ++k) {
        const uint32_t e = first + k;
        place[k] = ~0u;
        from[k] = 0;
        if (e >= end) continue;
        while (e >= edge_of[i + 1]) ++i;
        from[k] = listed[i];
        place[k] = v.cut_places[row_of[i] + e];
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < each; ++k) {
        word[k] = 0;
        if (place[k] != ~0u && !(k > 0 && place[k] / 32 == place[k - 1] / 32))
          word[k] = load_relaxed<scope::device>(&v.bitmap.words[0][v.bitmap.own_word(place[k])]);
      }
      uint32_t bits = 0;
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < each; ++k) {
        if (place[k] == ~0u) continue;
        if (k > 0 && place[k] / 32 == place[k - 1] / 32) word[k] = word[k - 1];
        const bool is_new =
            !(word[k] >> place[k] % 32 & 1) && v.bitmap.code_of(static_cast<int>(g.my_pe), place[k]) != from[k];
        if (is_new) {
          bits |= 1u << place[k] % 32;
          store_relaxed<scope::device>(&v.parents[place[k]], name_of(from[k]));
        }
        const bool is_last = k == each - 1 || place[k + 1 < each ? k + 1 : k] / 32 != place[k] / 32;
        if (bits && is_last) {
          atomicOr(&v.bitmap.words[0][v.bitmap.own_word(place[k])], bits);
          bits = 0;
        }
      }
    }
  }
  /// Expands levels until a list is too long. Returns whether there is more to find.
  GRAVEL_DEVICE bool expand_levels(const search_root& root) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      const uint32_t last = root.last_place, in_strips = v.places();
      // Nobody else clears the parent of a vertex without neighbours.
      if (last != ~0u && (last >= in_strips || (v.closed[last / 32] >> last % 32 & 1))) v.parents[last] = no_parent;
      if (root.place != ~0u) {
        v.parents[root.place] = v.own_names ? v.own_names[root.place] : root.code;
        if (root.place < in_strips) atomicOr(&v.bitmap.words[0][v.bitmap.own_word(root.place)], 1u << root.place % 32);
      }
    }
    if (threadIdx.x == 0) listed[0] = root.code;
    __syncthreads();
    uint32_t n = 1;
    for (uint32_t turn = 0;; turn = 1 - turn) {
      const uint32_t edges = find_rows(n), even = (edges + gridDim.x - 1) / gridDim.x, share = even < 32 ? 32 : even,
                     begin = blockIdx.x * share, end = begin + share < edges ? begin + share : edges;
      const bool has_many = edges >= many_edges;
      if (threadIdx.x == 0) {
        s.count = 0;
        s.work = 0;
      }
      __syncthreads();
      if (has_many) expand_many(n, begin, end);
      else expand(n, begin, end, turn);
      __syncthreads();
      level_report mine{s.count, level_report::most};
      if (!has_many && s.count <= most_of_block && s.work < mine.work) mine.work = static_cast<uint32_t>(s.work);
      const level_totals all = s.blocks.rendezvous(g, v.rendezvous, mine, found_of);
      note(has_many ? search_level::way::expanded_many : search_level::way::expanded, all.found);
      if (all.found == 0 && all.work == 0) return false;
      if (all.found >= most_listed || all.work > v.most_edges) return true;
      n = static_cast<uint32_t>(all.found);
      gather_list(n, turn);
    }
  }

  // Looking back.

  /// Thread scope: lane.
  GRAVEL_DEVICE void mark(uint32_t at, uint32_t turn) const {
    atomicOr_block(&own[at / strip * stride + at % strip / 32], 1u << at % 32);
    atomicOr_block(&changed[turn * v.strips_of_block + at / strip], 1u << at % strip / 128);
  }
  /// Reads the bits of the block's strips. Vertices without neighbours count as found.
  GRAVEL_DEVICE void read_own() {
    for (uint32_t i = threadIdx.x; i < v.strips_of_block * search_warps; i += search_threads) {
      const uint32_t place = place_at(i * 32);
      uint32_t word = ~0u;
      if (place < v.places())
        word = load_relaxed<scope::device>(&v.bitmap.words[0][v.bitmap.own_word(place)]) | v.closed[place / 32];
      own[i / search_warps * stride + i % search_warps] = word;
    }
    for (uint32_t i = threadIdx.x; i < 2 * v.strips_of_block; i += search_threads) changed[i] = 0;
    __syncthreads();
  }
  /// Stores own words into bitmap `turn` of all PEs, of this one if `here`: all, or those that have changed.
  GRAVEL_DEVICE void publish_own(uint32_t turn, bool here, bool all) const {
    constexpr uint32_t groups = strip / 128;
    for (uint32_t i = threadIdx.x; i < v.strips_of_block * groups; i += search_threads) {
      const uint32_t k = i / groups, group = i % groups, place = place_at(i * 128);
      if (place >= v.places()) continue;
      if (!all && !((changed[k] | changed[v.strips_of_block + k]) >> group & 1)) continue;
      v.bitmap.publish(s.blocks.others, turn, place, *reinterpret_cast<const word4*>(&own[k * stride + group * 4]),
                       here);
    }
  }
  /// How many of a warp's words have vertices left: those are the words `warp` of all strips.
  GRAVEL_DEVICE uint32_t left_of_lane() const {
    uint32_t left = 0;
    for (uint32_t k = lane(); k < v.strips_of_block; k += 32)
      left += static_cast<uint32_t>(__popc(~own[k * stride + warp()]));
    return left;
  }
  template <int N>
  GRAVEL_DEVICE static uint32_t first_in(const uint32_t* code, uint32_t mask) {
    uint32_t first = ~0u;
    GRAVEL_UNROLL
    for (int k = N - 1; k >= 0; --k)
      if (mask >> k & 1) first = code[k];
    return first;
  }
  /// The lanes of `having` each have a vertex `at`, whose row the warp goes through together, from edge `from` on.
  /// Returns how many this lane has found. Thread scope: warp, converged.
  GRAVEL_DEVICE uint32_t search_rows(unsigned having, uint32_t at, uint32_t from, uint32_t bits_turn,
                                     uint32_t hub_codes, uint32_t turn) const {
    uint32_t found = 0;
    for (; having; having &= having - 1) {
      const uint32_t of_one = __shfl_sync(~0u, at, __ffs(static_cast<int>(having)) - 1), place = place_at(of_one);
      const uint64_t end = v.offsets[place + 1];
      for (uint64_t e = v.offsets[place] + from; e < end; e += 128) {
        uint32_t code[4];
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < 4; ++k) {
          const uint64_t mine = e + k * 32 + lane();
          code[k] = mine < end ? v.codes[mine] : ~0u;
        }
        const uint32_t hits = v.bitmap.test<4>(bits_turn, code, hub, hub_codes);
        const unsigned lanes = __ballot_sync(~0u, hits != 0);
        if (lanes == 0) continue;
        if (rank_in(lanes) == 0 && hits != 0) {
          v.parents[place] = name_of(first_in<4>(code, hits));
          mark(of_one, turn);
          ++found;
        }
        break;
      }
    }
    return found;
  }
  /// A level in which all vertices that are left look at their first neighbours. `is_first`: all get their first
  /// neighbour as parent. Returns how many this lane has found.
  GRAVEL_DEVICE uint32_t look_at_all(uint32_t bits_turn, uint32_t turn, bool is_first) {
    const uint32_t hub_codes = v.hub_words * 32;
    v.bitmap.copy_hub_part(bits_turn, reinterpret_cast<word4*>(hub), v.hub_words);
    __syncthreads();
    const uint64_t list_at = (uint64_t{blockIdx.x} * search_warps + warp()) * v.places_of_warp();
    uint32_t *const list = v.lists[0] + list_at, *const long_rows = v.lists[1] + list_at;
    // A warp takes 128 vertices of every fourth strip, and a lane four of them.
    constexpr uint32_t groups = strip / 128, at_once = 4, step = search_warps / groups;
    static_assert(step == 4);
    const uint32_t group = warp() % groups;
    uint32_t found = 0, n = 0, n_long = 0;
    for (uint32_t of_strips = warp() / groups; of_strips < v.strips_of_block; of_strips += at_once * step) {
      word4 first[at_once];
      uint32_t left[at_once];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        const uint32_t k = of_strips + step * j;
        left[j] = ~(own[k * stride + group * 4 + lane() / 8] >> lane() % 8 * 4) & 15;
        first[j] = {};
        if (left[j])
          first[j] = *reinterpret_cast<const word4*>(&v.columns[place_at(k * strip + group * 128) + lane() * 4]);
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        if (!__any_sync(~0u, left[j] != 0)) continue;
        const uint32_t k = of_strips + step * j, at = k * strip + group * 128 + lane() * 4, place = place_at(at);
        uint32_t code[4], alone = 0;
        GRAVEL_UNROLL
        for (uint32_t t = 0; t < 4; ++t) {
          code[t] = first[j].word[t] & ~search_view::only_one;
          alone |= (first[j].word[t] >> 31) << t;
        }
        const uint32_t hits = v.bitmap.test<4>(bits_turn, code, hub, hub_codes) & left[j];
        found += static_cast<uint32_t>(__popc(hits));
        if (is_first && left[j]) set_first_parents(place, left[j], code);
        const uint32_t both = hits | __shfl_down_sync(~0u, hits, 1) << 4;
        if (lane() % 2 == 0 && both)
          reinterpret_cast<unsigned char*>(&own[k * stride + group * 4])[lane() / 2] |=
              static_cast<unsigned char>(both);
        const uint32_t again = left[j] & ~hits & ~alone;
        if (!__any_sync(~0u, again != 0)) continue;
        GRAVEL_UNROLL
        for (uint32_t t = 0; t < 4; ++t) {
          const unsigned lanes = __ballot_sync(~0u, again >> t & 1);
          if (again >> t & 1) list[n + rank_in(lanes)] = at + t;
          n += static_cast<uint32_t>(__popc(lanes));
        }
      }
    }
    __syncwarp();
    for (uint32_t begin = 0; begin < n; begin += 4 * 32) {
      uint32_t at[4], code[4][4];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) at[j] = begin + j * 32 + lane() < n ? list[begin + j * 32 + lane()] : ~0u;
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) load_columns<1, 4>(at[j], code[j]);
      const uint32_t hits = v.bitmap.test<16>(bits_turn, code[0], hub, hub_codes);
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t of_one = hits >> 4 * j & 15;
        if (of_one) {
          v.parents[place_at(at[j])] = name_of(first_in<4>(code[j], of_one));
          mark(at[j], turn);
          ++found;
        }
        const bool is_long = !of_one && code[j][3] != ~0u;
        const unsigned lanes = __ballot_sync(~0u, is_long);
        if (is_long) long_rows[n_long + rank_in(lanes)] = at[j];
        n_long += static_cast<uint32_t>(__popc(lanes));
      }
    }
    __syncwarp();
    for (uint32_t begin = 0; begin < n_long; begin += 32) {
      const uint32_t at = begin + lane() < n_long ? long_rows[begin + lane()] : ~0u;
      found += look_at_long_row(at, bits_turn, hub_codes, turn);
    }
    return found;
  }
  /// Thread scope: lane.
  GRAVEL_DEVICE void set_first_parents(uint32_t place, uint32_t left, const uint32_t* code) const {
    word4 parent{{code[0], code[1], code[2], code[3]}};
    if (v.first_names) parent = *reinterpret_cast<const word4*>(&v.first_names[place]);
    if (left == 15) {
      *reinterpret_cast<word4*>(&v.parents[place]) = parent;
      return;
    }
    GRAVEL_UNROLL
    for (uint32_t t = 0; t < 4; ++t)
      if (left >> t & 1) v.parents[place + t] = parent.word[t];
  }
  /// Loads columns FIRST to FIRST + N - 1 of vertex `at`, if it is one. Thread scope: lane.
  template <uint32_t FIRST, uint32_t N>
  GRAVEL_DEVICE void load_columns(uint32_t at, uint32_t* code) const {
    const uint32_t place = at == ~0u ? ~0u : place_at(at);
    GRAVEL_UNROLL
    for (uint32_t k = FIRST; k < FIRST + N; ++k)
      code[k - FIRST] = place < v.column_size[k] ? v.columns[uint64_t{k} * v.places() + place] : ~0u;
  }
  /// Looks back for a vertex with more than five neighbours, `at`, of each lane: along the other columns, the first
  /// edges of its row, which need not have the order of the codes, and, by all lanes together, the rest of the row.
  /// Returns how many this lane has found. Thread scope: warp, converged.
  GRAVEL_DEVICE uint32_t look_at_long_row(uint32_t at, uint32_t bits_turn, uint32_t hub_codes, uint32_t turn) const {
    constexpr uint32_t parts = 3;
    uint32_t code[8], found = 0;
    load_columns<5, 8>(at, code);
    bool goes_on = code[7] != ~0u;
    uint64_t begin = 0, end = 0;
    if (goes_on) {
      begin = v.offsets[place_at(at)];
      end = v.offsets[place_at(at) + 1];
    }
    for (uint32_t part = 0;; ++part) {
      const uint32_t hits = v.bitmap.test<8>(bits_turn, code, hub, hub_codes);
      if (hits) {
        v.parents[place_at(at)] = name_of(first_in<8>(code, hits));
        mark(at, turn);
        ++found;
      }
      goes_on &= hits == 0 && begin < end;
      if (part == parts || !__any_sync(~0u, goes_on)) break;
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < 8; ++k) code[k] = goes_on && begin + k < end ? v.codes[begin + k] : ~0u;
      begin += 8;
    }
    return found + search_rows(__ballot_sync(~0u, goes_on), at, parts * 8, bits_turn, hub_codes, turn);
  }

  /// A vertex that is left, and its first five neighbours. Of one lane.
  struct candidate {
    uint32_t at, code[5];
    bool is_left, has_more;
  };
  GRAVEL_DEVICE candidate candidate_of(bool have, uint32_t at) const {
    candidate c{at, {}, have, false};
    if (!have) return c;
    c.code[0] = v.columns[place_at(at)] & ~search_view::only_one;
    load_columns<1, 4>(at, c.code + 1);
    c.has_more = c.code[4] != ~0u;
    return c;
  }
  /// Looks back for one candidate of each lane. Thread scope: warp, converged.
  GRAVEL_DEVICE uint32_t look_at(candidate& c, uint32_t bits_turn, uint32_t turn) const {
    uint32_t found = 0;
    if (c.is_left) {
      const uint32_t hits = v.bitmap.test<5>(bits_turn, c.code, hub, 0);
      if (hits) {
        // The first time all got the first neighbour.
        if (!(hits & 1)) v.parents[place_at(c.at)] = name_of(first_in<5>(c.code, hits));
        mark(c.at, turn);
        c.is_left = false;
        ++found;
      }
    }
    const unsigned lanes = __ballot_sync(~0u, c.is_left && c.has_more);
    if (lanes == 0) return found;
    found += search_rows(lanes, c.at, 0, bits_turn, 0, turn);
    __syncwarp();
    if (c.is_left) c.is_left = !(own[c.at / strip * stride + c.at % strip / 32] >> c.at % 32 & 1);
    return found;
  }

  /// Levels that look back, until nothing is found. Returns false if that takes too much work.
  GRAVEL_DEVICE bool look_back() {
    uint32_t bits_turn = 0;  // which bitmap is read
    if (g.n_pes > 1) {
      publish_own(0, false, true);
      s.blocks.rendezvous(g, v.rendezvous, {0, 0}, found_of);
    }
    if (threadIdx.x == 0) s.count = 0;
    __syncthreads();
    const uint32_t here = __reduce_add_sync(~0u, left_of_lane());
    if (lane() == 0 && here) atomicAdd_block(&s.count, here);
    __syncthreads();
    uint32_t left = s.count, found_before = 1;
    uint64_t looks = 0;
    bool is_tail = false, was_dense = true;
    candidate mine{};
    uint32_t* const list = v.lists[0] + (uint64_t{blockIdx.x} * search_warps + warp()) * v.places_of_warp();
    for (bool is_first = true;; is_first = false) {
      const uint32_t turn = bits_turn;  // of `changed`
      const bool is_dense = is_first || uint64_t{left} * dense_share > uint64_t{v.strips_of_block} * strip;
      if (threadIdx.x == 0) s.found = 0;
      __syncthreads();
      uint32_t found = 0;
      if (is_dense) {
        found = look_at_all(bits_turn, turn, is_first);
      } else {
        uint32_t n = 32;
        if (!is_tail) {
          n = list_left(list);
          is_tail = n <= 32;
          if (is_tail) mine = candidate_of(lane() < n, lane() < n ? list[lane()] : 0);
        }
        if (is_tail) {
          found = look_at(mine, bits_turn, turn);
        } else {
          for (uint32_t begin = 0; begin < n; begin += 32) {
            const bool have = begin + lane() < n;
            candidate c = candidate_of(have, have ? list[begin + lane()] : 0);
            found += look_at(c, bits_turn, turn);
          }
        }
      }
      const uint32_t of_warp = __reduce_add_sync(~0u, found);
      if (lane() == 0 && of_warp) atomicAdd_block(&s.found, of_warp);
      __syncthreads();
      const uint32_t of_block = s.found;
      // The other bitmap lacks what this level and the one before have found.
      const bool writes = is_first || of_block || found_before;
      if (writes) publish_own(1 - bits_turn, true, is_dense || was_dense);
      found_before = of_block;
      left -= of_block;
      const uint32_t looked = left > search_threads ? left : 0;
      const level_totals all = s.blocks.rendezvous(g, v.rendezvous, {of_block, looked}, found_of, writes);
      note(is_dense ? search_level::way::looked_back : search_level::way::looked_back_sparse, all.found);
      looks += all.work;
      if (all.found == 0) return true;
      if (looks > v.most_looks) return false;
      was_dense = is_dense;
      bits_turn = 1 - bits_turn;
      for (uint32_t i = threadIdx.x; i < v.strips_of_block; i += search_threads)
        changed[bits_turn * v.strips_of_block + i] = 0;
    }
  }
  /// Lists the vertices of the warp's words that are left; returns how many. Thread scope: warp, converged.
  GRAVEL_DEVICE uint32_t list_left(uint32_t* list) const {
    const uint32_t mine = left_of_lane();
    uint32_t up_to = mine;
    for (uint32_t step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, up_to, step);
      if (lane() >= step) up_to += other;
    }
    uint32_t next = up_to - mine;
    for (uint32_t k = lane(); k < v.strips_of_block; k += 32)
      for (uint32_t word = ~own[k * stride + warp()]; word; word &= word - 1)
        list[next++] = k * strip + warp() * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(word)) - 1);
    __syncwarp();
    return __shfl_sync(~0u, up_to, 31);
  }
  /// What was not found has no parent. Clears the own words of bitmap 0 for the next search.
  GRAVEL_DEVICE void finish() const {
    for (uint32_t k = 0; k < v.strips_of_block; ++k) {
      const uint32_t word = own[k * stride + warp()], place = place_at(k * strip + threadIdx.x);
      if (place >= v.places()) break;
      if (!(word >> lane() & 1)) v.parents[place] = no_parent;
      if (lane() == 0) v.bitmap.words[0][v.bitmap.own_word(place)] = 0;
    }
  }
};

/// The search. A cooperative launch of v.rendezvous.blocks blocks of search_threads, at all PEs.
template <int = 0>
__global__ void __launch_bounds__(search_threads, 1)
    search_all_levels(const __grid_constant__ gravel_t g, const __grid_constant__ search_view v, search_root root) {
  __shared__ search_shared s;
  auto* const words = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  search_block b(g, v, s, words, {v.strips_of_block, g.n_pes * gridDim.x, v.hub_words});
  b.since = globaltimer_ns();
  s.blocks.begin(g, v.rendezvous);
  const bool has_more = b.expand_levels(root);
  b.read_own();
  const bool is_done = !has_more || b.look_back();
  b.finish();
  s.blocks.end(v.rendezvous);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    v.log->levels = b.levels;
    v.log->gave_up = !is_done;
    v.log->ns = globaltimer_ns() - b.since;
  }
}

}  // namespace gravel::detail
