// The kernel of PageRank by power iteration in an undirected graph with hubs: it stays for all steps, at all PEs.
//
// Problem. A step loads the share of a neighbour for each edge and direction, from the L2 cache at best, which bounds
// the rate.
// Solution. The vertices with the lowest codes are the hubs, and nearly all edges have one of them as an end if codes
// are in the order of falling degree. Hubs are divided into *tiles* (lib/worklist/replicated_bitmap.cuh has the codes).
// A block works for one tile: it has the shares of the tile's hubs and their sums in shared memory. An edge between a
// hub of the tile and a vertex of a higher code stands once, in 16 bits, with that vertex, at the vertex's PE. The
// hub's share is added to the vertex's sum in a register, and the vertex's share to the hub's sum in shared memory.
// All other edges, *the rest*, are followed from both ends through the L2 cache.
//
// The sums of hubs are fixed-point numbers, as additions of integers are fast in shared memory, and do not depend on
// their order. The unit is chosen in each step such that no sum can overflow: the largest share times the most edges
// that one block has to one hub is less than 2^32 units.
//
// Protocol of a step:
//   block                                                            who reads it
//   sums of its vertices; its tile's sums of hubs, in `parts`
//   rendezvous a                                                     blocks of this PE
//   each hub's sum over the blocks, in `hub_sums` of its owner; new
//   shares of own vertices that are no hubs, at all PEs
//   rendezvous b                                                     blocks of the hub's owner
//   new shares of own hubs, at all PEs; the block's record
//   rendezvous c                                                     all blocks: shares, and whether to go on
//
// Invariants.
// - A step reads one copy of the shares and writes the other one.
// - All blocks read the same records behind rendezvous c, and add them in the same order, so they end together.
// - What a step writes is read before the rendezvous c of that step, or, the shares, before rendezvous a of the next.
#pragma once
#include "lib/worklist/level_rendezvous.cuh"
#include "lib/worklist/replicated_bitmap.cuh"
#include "lib/worklist/worklist_view.cuh"

namespace gravel::detail {

constexpr uint32_t rank_threads = replicated_bitmap::strip, rank_warps = rank_threads / 32;
/// Hubs of a tile: shares and sums take 192 KiB of shared memory. Few on the CPU backend, so that small graphs have
/// several tiles.
constexpr uint32_t tile_hubs = GRAVEL_CUDA ? 24576 : 128;
constexpr uint32_t most_tiles = 8;
/// Edges of tiles behind the first one stand with the first vertices of a PE alone: others have too few.
constexpr uint32_t places_of_all_tiles = GRAVEL_CUDA ? 1u << 21 : 512;
/// Vertices of a group: a lane takes two of them. Groups are made within windows of vertices.
constexpr uint32_t group_vertices = 64, window_vertices = 8 * replicated_bitmap::strip;
/// Warps of a block that begin with the tile; the others begin with the rest.
constexpr uint32_t tile_warps = rank_warps / 2;

/// A group of vertices with many edges is cut into parts of so many turns of a warp, which all warps share out.
constexpr uint32_t turns_of_part = GRAVEL_CUDA ? 64 : 2;

/// Groups of vertices and their edges, in parts.
struct rank_parts {
  const uint32_t* offsets;  ///< [count + 1] where the edges of each part begin
  const uint32_t* groups;   ///< [count] the group of each part; with `is_cut` if the group has other parts
  uint32_t count;
  uint32_t cut_places;  ///< groups of places from there on are whole

  static constexpr uint32_t is_cut = 1u << 31;
  /// Stores or adds what a part brings to a vertex. Thread scope: lane.
  GRAVEL_DEVICE static void bring(uint32_t group, float* sum, float brought) {
    if (group & is_cut) atomicAdd(sum, brought);
    else *sum = brought;
  }
  /// Reads a sum. Those to which parts add are 0 then. Thread scope: lane.
  GRAVEL_DEVICE float take(float* sums, uint32_t place) const {
    const float all = sums[place];
    if (place < cut_places) sums[place] = 0;
    return all;
  }
};
/// The edges of a tile that stand with this PE's vertices.
struct rank_tile {
  const uint16_t* hubs;  ///< of each part: two of each vertex after the other; 0xffff: none
  rank_parts parts;
  const uint32_t* places;  ///< [groups * group_vertices] of the vertices: those of a window by falling number of edges
  float* sums;             ///< [places] what the tile's hubs bring to each vertex; 0 for those without such edges
  uint32_t first_block, blocks;  ///< that work for it
};

/// What a block reports of a step.
struct rank_record {
  float change, largest;  ///< of ranks, their sum; the largest new share
};
struct ranks_log {
  uint64_t ns;
  uint64_t tiles_ns, rendezvous_ns, sums_ns;  ///< of all steps, at this PE's first block
  uint32_t steps;
  float change;  ///< of the last step
};

/// What two uint32_t are, which are loaded at once.
struct alignas(8) word2 {
  uint32_t word[2];
};
struct alignas(16) float4_of_ranks {
  float of[4];
};

/// All that the kernel reads and writes. Plain data.
struct ranks_view {
  rank_tile tile[most_tiles];
  uint32_t tiles;
  uint32_t places_in_tiles;     ///< places below it may have edges of tiles behind the first one
  const uint32_t* rest;         ///< codes: one of each vertex of the group after the other; ~0: none
  rank_parts rest_parts;        ///< groups of places as they are
  uint32_t* next_rest;          ///< [2] group of the rest that is next, in two steps in turn
  const float* inverse_degree;  ///< [places] 0: no edges
  float* shares[2];             ///< symmetric [codes, filled up to tiles]: rank / degree
  uint32_t* parts;              ///< [block][tile_hubs]
  float* hub_sums;              ///< symmetric [PE][tiles * tile_hubs]
  float* rest_sums;             ///< [places]
  rank_record* records;         ///< symmetric [PE][block]
  float* ranks;                 ///< [own, filled up to strips]
  float first_rank, base, damping, tolerance;
  uint32_t most_steps;
  uint32_t most_of_hub;  ///< edges that one block has to one hub, at most
  bool counts;           ///< only `parts`: how many edges each block has to each hub
  replicated_bitmap layout;
  level_rendezvous rendezvous;
  ranks_log* log;

  GRAVEL_BOTH uint32_t places() const { return layout.strips * replicated_bitmap::strip; }
  GRAVEL_BOTH uint32_t hubs() const { return tiles * tile_hubs; }
  /// The tile that has the edge between two vertices; most_tiles: the rest has it. Not for the edge of a vertex to
  /// itself, which is of the rest.
  GRAVEL_BOTH uint32_t tile_of(uint32_t one, uint32_t other) const {
    const uint32_t low = one < other ? one : other, high = one < other ? other : one, k = low / tile_hubs;
    const bool has = low != high && k < tiles && (k == 0 || layout.place_of(high) < places_in_tiles);
    return has ? k : most_tiles;
  }
};

struct ranks_shared {
  level_block blocks;
  uint32_t next;  ///< group of the tile
  float change[rank_warps], largest[rank_warps];
};

/// One block of the kernel. Thread scope of all calls where nothing else is said: block, converged.
struct ranks_block {
  const gravel_t& g;
  const ranks_view& v;
  ranks_shared& s;
  float* const share;   ///< [tile_hubs] of the tile's hubs
  uint32_t* const sum;  ///< [tile_hubs]
  uint32_t* const found_of;
  uint32_t tile = 0;
  float largest = 0, change = 0;

  GRAVEL_DEVICE ranks_block(const gravel_t& handle, const ranks_view& view, ranks_shared& shared, uint32_t* words)
      : g(handle),
        v(view),
        s(shared),
        share(reinterpret_cast<float*>(words)),
        sum(words + tile_hubs),
        found_of(words + 2 * tile_hubs) {
    while (tile + 1 < v.tiles && blockIdx.x >= v.tile[tile].first_block + v.tile[tile].blocks) ++tile;
  }

  GRAVEL_DEVICE static uint32_t lane() { return threadIdx.x % 32; }
  GRAVEL_DEVICE static uint32_t warp() { return threadIdx.x / 32; }
  GRAVEL_DEVICE uint32_t code_of(uint32_t place) const {
    return v.layout.code_of(static_cast<int>(v.layout.me), place);
  }
  GRAVEL_DEVICE void rendezvous() { s.blocks.rendezvous(g, v.rendezvous, {0, 0}, found_of); }

  /// Adds one edge between vertex and hub. Thread scope: lane.
  GRAVEL_DEVICE void add_edge(uint32_t hub, uint32_t units, float& of_vertex) const {
    if (hub == 0xffff) return;
    of_vertex += share[hub];
    atomicAdd_block(&sum[hub], units);
  }
  /// Adds two edges of each of this lane's two vertices. Thread scope: lane.
  GRAVEL_DEVICE void add_edges(const word2& four, const uint32_t* units, float* of_vertices) const {
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      add_edge(four.word[i] & 0xffff, units[i], of_vertices[i]);
      add_edge(four.word[i] >> 16, units[i], of_vertices[i]);
    }
  }
  /// A part of a group of the tile, and this lane's two vertices.
  struct tile_group {
    uint32_t group, begin, turns;
    word2 place;
  };
  static constexpr uint32_t no_group = ~0u;
  /// The next part of a group of the tile for this warp. Thread scope: warp, converged.
  GRAVEL_DEVICE tile_group next_group() {
    const rank_tile& t = v.tile[tile];
    uint32_t turn = 0;
    if (lane() == 0) turn = atomicAdd_block(&s.next, 1u);
    const uint32_t part = __shfl_sync(~0u, turn, 0) * t.blocks + (blockIdx.x - t.first_block);
    tile_group next{no_group, 0, 0, {{0, 0}}};
    if (part >= t.parts.count) return next;
    next.group = t.parts.groups[part];
    next.begin = t.parts.offsets[part];
    next.turns = (t.parts.offsets[part + 1] - next.begin) / (2 * group_vertices);
    const uint64_t first = uint64_t{next.group & ~rank_parts::is_cut} * group_vertices;
    next.place = reinterpret_cast<const word2*>(t.places + first)[lane()];
    return next;
  }
  /// Follows the edges of the tile. `units`: of a share; with v.counts each share is one unit. Thread scope: warp.
  GRAVEL_DEVICE void follow_tile(const float* shares, float units) {
    const rank_tile& t = v.tile[tile];
    tile_group next = next_group();
    while (next.group != no_group) {
      const tile_group here = next;
      const word2 place = here.place;
      const uint32_t turns = here.turns;
      uint32_t mine[2];
      float of[2] = {};
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 2; ++i)
        mine[i] = v.counts ? 1 : static_cast<uint32_t>(shares[code_of(place.word[i])] * units + 0.5f);
      next = next_group();  // its loads are under way while the edges are followed
      if (turns == 0) continue;
      const auto* const edges = reinterpret_cast<const word2*>(t.hubs + here.begin) + lane();
      constexpr uint32_t at_once = 4;
      uint32_t turn = 0;
      for (; turn + at_once <= turns; turn += at_once) {
        word2 four[at_once];
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) four[j] = load_once(edges + (turn + j) * 32);
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) add_edges(four[j], mine, of);
      }
      word2 last[at_once - 1] = {};
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once - 1; ++j)
        if (turn + j < turns) last[j] = load_once(edges + (turn + j) * 32);
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once - 1; ++j)
        if (turn + j < turns) add_edges(last[j], mine, of);
      if (v.counts) continue;
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 2; ++i) rank_parts::bring(here.group, &t.sums[place.word[i]], of[i]);
    }
  }
  /// Follows the rest. Thread scope: warp.
  GRAVEL_DEVICE void follow_rest(const float* shares, uint32_t* next) const {
    struct rest_group {
      uint32_t group, begin, end;
    };
    const auto take_next = [&] {
      rest_group taken{0, 0, 0};
      if (lane() == 0) taken.group = atomicAdd(next, 1u);
      taken.group = __shfl_sync(~0u, taken.group, 0);
      const uint32_t part = taken.group;
      taken.group = no_group;
      if (part >= v.rest_parts.count) return taken;
      taken.group = v.rest_parts.groups[part];
      taken.begin = v.rest_parts.offsets[part];
      taken.end = v.rest_parts.offsets[part + 1];
      return taken;
    };
    rest_group after = take_next();
    while (after.group != no_group) {
      const rest_group here = after;
      const uint32_t group = here.group, begin = here.begin, turns = (here.end - begin) / group_vertices;
      after = take_next();
      const auto* const edges = reinterpret_cast<const word2*>(v.rest + begin) + lane();
      float of[2] = {};
      constexpr uint32_t at_once = 4;
      for (uint32_t turn = 0; turn < turns; turn += at_once) {
        word2 four[at_once];
        float brought[at_once][2];
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j)
          four[j] = turn + j < turns ? load_once(edges + (turn + j) * 32) : word2{{~0u, ~0u}};
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) {
          GRAVEL_UNROLL
          for (uint32_t i = 0; i < 2; ++i)
            brought[j][i] = four[j].word[i] == ~0u ? 0 : load_shared_by_all(shares + four[j].word[i]);
        }
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) {
          GRAVEL_UNROLL
          for (uint32_t i = 0; i < 2; ++i) of[i] += brought[j][i];
        }
      }
      float* const to = v.rest_sums + uint64_t{group & ~rank_parts::is_cut} * group_vertices + 2 * lane();
      rank_parts::bring(group, to, of[0]);
      rank_parts::bring(group, to + 1, of[1]);
    }
  }
  /// Adds what the blocks of each tile have of each hub, and stores it at the hub's owner. 16 lanes take four hubs.
  GRAVEL_DEVICE void add_parts(float unit) {
    constexpr uint32_t team = 16;
    const uint32_t quads = v.hubs() / 4, of_lane = threadIdx.x % team;
    const auto low = static_cast<uint32_t>(uint64_t{quads} * blockIdx.x / gridDim.x),
               high = static_cast<uint32_t>(uint64_t{quads} * (blockIdx.x + 1) / gridDim.x);
    for (uint32_t begin = low; begin < high; begin += rank_threads / team) {
      const uint32_t quad = begin + threadIdx.x / team, hub = quad * 4;
      float of[4] = {};
      if (quad < high) {
        const rank_tile& t = v.tile[hub / tile_hubs];
        for (uint32_t block = of_lane; block < t.blocks; block += team) {
          const word4 four =
              *reinterpret_cast<const word4*>(&v.parts[uint64_t{t.first_block + block} * tile_hubs + hub % tile_hubs]);
          GRAVEL_UNROLL
          for (uint32_t i = 0; i < 4; ++i) of[i] += static_cast<float>(four.word[i]);
        }
      }
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < 4; ++i)
        for (int step = team / 2; step; step /= 2) of[i] += __shfl_xor_sync(~0u, of[i], step);
      if (quad >= high || of_lane != 0 || hub >= v.layout.codes()) continue;
      const float4_of_ranks all{{of[0] * unit, of[1] * unit, of[2] * unit, of[3] * unit}};
      *reinterpret_cast<float4_of_ranks*>(
          s.blocks.others.at(&v.hub_sums[uint64_t{g.my_pe} * v.hubs() + hub], v.layout.owner_of(hub))) = all;
    }
  }
  /// Makes the new share of an own vertex from its sum. Thread scope: lane.
  GRAVEL_DEVICE void take_sum(uint32_t place, uint32_t turn, float brought) {
    const uint32_t code = code_of(place);
    const float inverse = v.inverse_degree[place];
    const float now = inverse == 0 ? 0 : (v.base + v.damping * brought) * inverse;
    const float before = v.shares[turn][code];
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      *s.blocks.others.at(&v.shares[1 - turn][code], static_cast<int>(pe)) = now;
    if (inverse != 0) change += fabsf(now - before) / inverse;
    largest = now > largest ? now : largest;
  }
  /// What the rest and the tiles bring to a vertex; once in a step. Thread scope: lane.
  GRAVEL_DEVICE float take_sums(uint32_t place) const {
    float all = v.rest_parts.take(v.rest_sums, place) + v.tile[0].parts.take(v.tile[0].sums, place);
    if (place < v.places_in_tiles)
      for (uint32_t k = 1; k < v.tiles; ++k) all += v.tile[k].parts.take(v.tile[k].sums, place);
    return all;
  }

  /// Reports the block's numbers, and reads those of all: their sum and their maximum.
  GRAVEL_DEVICE rank_record rendezvous_with_records() {
    for (int step = 16; step; step /= 2) {
      change += __shfl_xor_sync(~0u, change, step);
      const float other = __shfl_xor_sync(~0u, largest, step);
      largest = other > largest ? other : largest;
    }
    if (lane() == 0) {
      s.change[warp()] = change;
      s.largest[warp()] = largest;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      rank_record mine{0, 0};
      for (uint32_t i = 0; i < rank_warps; ++i) {
        mine.change += s.change[i];
        mine.largest = s.largest[i] > mine.largest ? s.largest[i] : mine.largest;
      }
      for (uint32_t pe = 0; pe < g.n_pes; ++pe)
        *s.blocks.others.at(&v.records[g.my_pe * gridDim.x + blockIdx.x], static_cast<int>(pe)) = mine;
    }
    change = largest = 0;
    rendezvous();
    rank_record all{0, 0};
    for (uint32_t i = lane(); i < g.n_pes * gridDim.x; i += 32) {
      const rank_record one = v.records[i];
      all.change += one.change;
      all.largest = one.largest > all.largest ? one.largest : all.largest;
    }
    for (int step = 16; step; step /= 2) {
      all.change += __shfl_xor_sync(~0u, all.change, step);
      const float other = __shfl_xor_sync(~0u, all.largest, step);
      all.largest = other > all.largest ? other : all.largest;
    }
    return all;
  }
  /// All vertices with edges have first_rank.
  GRAVEL_DEVICE rank_record begin_ranks() {
    for (uint32_t place = blockIdx.x * rank_threads + threadIdx.x; place < v.places();
         place += gridDim.x * rank_threads) {
      const float now = v.first_rank * v.inverse_degree[place];
      for (uint32_t pe = 0; pe < g.n_pes; ++pe)
        *s.blocks.others.at(&v.shares[0][code_of(place)], static_cast<int>(pe)) = now;
      largest = now > largest ? now : largest;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) v.next_rest[0] = v.next_rest[1] = 0;
    for (uint32_t i = threadIdx.x; i < tile_hubs; i += rank_threads) sum[i] = 0;
    return rendezvous_with_records();
  }
  /// One step. `last`: the records of the step before.
  GRAVEL_DEVICE rank_record step(uint32_t number, const rank_record& last, ranks_log& at) {
    const uint32_t turn = number % 2;
    const float* const shares = v.shares[turn];
    // Less than 2^32: rounding may bring half a unit for each edge.
    const float units = 4.0e9f / (last.largest * static_cast<float>(v.most_of_hub));
    uint64_t since = globaltimer_ns();
    const auto lap = [&](uint64_t& of) {
      const uint64_t now = globaltimer_ns();
      of += now - since;
      since = now;
    };
    load_hubs(shares);
    if (warp() < tile_warps) {
      follow_tile(shares, units);
      follow_rest(shares, &v.next_rest[turn]);
    } else {
      follow_rest(shares, &v.next_rest[turn]);
      follow_tile(shares, units);
    }
    store_parts();
    lap(at.tiles_ns);
    rendezvous();
    lap(at.rendezvous_ns);
    if (blockIdx.x == 0 && threadIdx.x == 0) v.next_rest[1 - turn] = 0;
    add_parts(1 / units);
    const uint32_t lanes = gridDim.x * rank_threads, hubs = v.hubs();
    for (uint32_t place = blockIdx.x * rank_threads + threadIdx.x; place < v.places(); place += lanes)
      if (code_of(place) >= hubs) take_sum(place, turn, take_sums(place));
    lap(at.sums_ns);
    rendezvous();
    for (uint32_t place = blockIdx.x * rank_threads + threadIdx.x; place < v.places() && code_of(place) < hubs;
         place += lanes) {
      float all = take_sums(place);
      for (uint32_t pe = 0; pe < g.n_pes; ++pe) all += v.hub_sums[uint64_t{pe} * hubs + code_of(place)];
      take_sum(place, turn, all);
    }
    const rank_record found = rendezvous_with_records();
    lap(at.rendezvous_ns);
    return found;
  }
  /// Only counts: into `parts`.
  GRAVEL_DEVICE void count_edges() {
    for (uint32_t i = threadIdx.x; i < tile_hubs; i += rank_threads) sum[i] = 0;
    load_hubs(nullptr);
    follow_tile(nullptr, 0);
    store_parts();
  }
  GRAVEL_DEVICE void end_ranks(uint32_t turn) const {
    for (uint32_t place = blockIdx.x * rank_threads + threadIdx.x; place < v.places();
         place += gridDim.x * rank_threads)
      if (v.inverse_degree[place] != 0) v.ranks[place] = v.shares[turn][code_of(place)] / v.inverse_degree[place];
  }

 private:
  GRAVEL_DEVICE void load_hubs(const float* shares) {
    if (shares)
      for (uint32_t i = threadIdx.x; i < tile_hubs / 4; i += rank_threads)
        reinterpret_cast<float4_of_ranks*>(share)[i] =
            reinterpret_cast<const float4_of_ranks*>(shares + tile * tile_hubs)[i];
    if (threadIdx.x == 0) s.next = 0;
    __syncthreads();
  }
  GRAVEL_DEVICE void store_parts() {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < tile_hubs / 4; i += rank_threads) {
      auto* const from = reinterpret_cast<word4*>(sum) + i;
      reinterpret_cast<word4*>(v.parts + uint64_t{blockIdx.x} * tile_hubs)[i] = *from;
      *from = {{0, 0, 0, 0}};
    }
  }
  /// A load of what is read once, which leaves the caches to others.
  GRAVEL_DEVICE static word2 load_once(const word2* at) {
#if GRAVEL_ON_GPU
    const uint2 two = __ldcs(reinterpret_cast<const uint2*>(at));
    return {{two.x, two.y}};
#else
    return *at;
#endif
  }
  /// A load from the L2 cache.
  GRAVEL_DEVICE static float load_shared_by_all(const float* at) {
#if GRAVEL_ON_GPU
    return __ldcg(at);
#else
    return *at;
#endif
  }
};

/// PageRank. A cooperative launch of v.rendezvous.blocks blocks of rank_threads, at all PEs; with v.counts any launch
/// of as many blocks.
template <int = 0>
__global__ void __launch_bounds__(rank_threads, 1)
    iterate_ranks(const __grid_constant__ gravel_t g, const __grid_constant__ ranks_view v) {
  __shared__ ranks_shared s;
  ranks_block b(g, v, s, reinterpret_cast<uint32_t*>(gravel_dynamic_shared()));
  if (v.counts) {
    b.count_edges();
    return;
  }
  const uint64_t since = globaltimer_ns();
  ranks_log at{};
  s.blocks.begin(g, v.rendezvous);
  rank_record last = b.begin_ranks();
  last.change = 2 * v.tolerance;
  while (last.change >= v.tolerance && at.steps < v.most_steps) {
    last = b.step(at.steps, last, at);
    ++at.steps;
  }
  b.end_ranks(at.steps % 2);
  s.blocks.end(v.rendezvous);
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  at.ns = globaltimer_ns() - since;
  at.change = last.change;
  *v.log = at;
}

}  // namespace gravel::detail
