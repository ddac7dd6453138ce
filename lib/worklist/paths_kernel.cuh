// The kernel of shortest paths from one vertex: it stays for all steps, at all PEs.
//
// Problem. In a graph with hubs all vertices are near each other, and each is reached over many edges of which nearly
// all are useless. Offers along all edges, kernels for each step, and messages take longer than the useful edges.
// Solution. One kernel of resident blocks, with a rendezvous between steps (lib/worklist/level_rendezvous.cuh). Each PE
// has the distances of the vertices of all PEs, in the order of the replicated bitmap (lib/worklist/
// replicated_bitmap.cuh): those with the most edges first. Rows are sorted by weight. A vertex *pulls*: it looks along
// its row for the neighbour over which it is nearest, and stops early, since no neighbour is nearer than a bound.
//
// Steps
//   near    Vertices near the source push, nearest first, as in Dijkstra's algorithm: along all their edges. It ends
//           when many vertices would push at once. The least distance of a vertex that has not pushed is the bound LB.
//   core    The first vertices pull along their lightest edges, several times. This only makes later steps faster.
//   stage   All vertices pull once, a range of codes after the other. A vertex that may still get nearer is listed.
//   redo    What is listed pulls again: before each later stage, and behind the last one.
//   push    Vertices that got nearer since others relied on their distance push, until none is left. Who got nearer
//           while stage i ran pushes only to codes up to the stage's end: later ones pull afterwards. And no distance
//           is above the largest of its stage when that was over, so heavier edges are of no use; rows are sorted.
//
// The bound. *No vertex that has not pushed is nearer than LB, now or later.* Take a vertex with a distance below LB,
// and a shortest path to it. If all vertices before it on the path have pushed, with their final distances, then it got
// its own, which is below LB; and of the vertices below LB all have pushed. So, along the path from the source on, each
// vertex gets its final distance and pushes. What is left has LB or more. Weights are 0 or more, and sums of floats are
// monotone, so a rounded sum is never below one of its parts.
// - A pull may leave out an edge of weight w if LB + w is not below the vertex's distance: its other end has pushed
//   along it, or is no nearer than LB. Rows are sorted, so all later edges may be left out too.
// - A vertex u whose stage is not over may still get nearer in it. It then gets its distance over an edge from another
//   vertex that has not pushed, so not below LB + x, where x is the weight of the lightest of its other edges. If
//   LB + x + w is not below the distance of the vertex that pulls over the edge of weight w, then what happens to u
//   does not matter; otherwise the vertex is listed.
//
// Invariants
// - Each distance is the sum along a path, so it is never too small. Distances never grow.
// - An edge from u to v is *settled* if the distance of v is at most that of u plus the weight. Behind the last stage
//   each edge is settled, or v is listed, or u is in the queue: who changes a distance in redo and push puts the vertex
//   into the queue. At the end lists and queues are empty, so all edges are settled. Then no distance is too large, by
//   induction along a shortest path. This also holds for weights of 0 and for rounded sums.
// - If a queue has no room, all vertices pull again instead, and queue what changes. This settles all edges, too.
// - In core and stages only one warp writes a vertex's distance, at all PEs. Elsewhere distances are lowered by
//   atomics, at all PEs; in push steps at this PE, and at the others when they read the queue, or, if it has no room,
//   at once. So behind a push step all PEs have the same distances, except of vertices that are in the queue.
// - All blocks decide from what they read in queues and reports behind a rendezvous, never from distances, which change
//   meanwhile. So all decide alike.
#pragma once
#include "lib/worklist/search_kernel.cuh"

namespace gravel::detail {

/// Distances are floats from 0 on, which are ordered as their bits are; the sign's bit is free, as keys want it.
GRAVEL_BOTH uint32_t key_of_distance(float distance) { return static_cast<uint32_t>(to_word(distance)); }
GRAVEL_BOTH float distance_of_key(uint32_t key) { return from_word<float>(key); }

constexpr uint32_t paths_threads = replicated_bitmap::strip;
/// Room for what a block puts into the queue; and in near steps, in which all blocks read all of it.
constexpr uint32_t queue_room = GRAVEL_CUDA ? 8192 : 64, near_room = GRAVEL_CUDA ? 64 : 8;
/// Near steps at most, vertices that push in one, and edges along which they push in all.
constexpr uint32_t most_near_steps = 32, most_near = 256;
constexpr uint64_t most_near_edges = 1 << 20;
/// Strips of all PEs in the core, and the share of them that pulls first.
constexpr uint32_t core_strips = GRAVEL_CUDA ? 64 : 4, core_share = 4;
/// Push steps until the search gives up, and how many of them may make all vertices pull again.
constexpr uint32_t most_push_steps = 64, most_repeats = 4;
/// A block's long rows in a push step: all its warps push along them.
constexpr uint32_t long_push_row = GRAVEL_CUDA ? 2048 : 64, most_long_rows = 32;
/// Of so many stages, the first ones, pushes know the largest distance.
constexpr uint32_t bounded_stages = 4;

/// What a step did, and when it was over.
struct paths_step {
  enum class kind : uint32_t { near, core, stage, redo, push };
  uint64_t ns;  ///< since the kernel began, at this PE
  kind what;
  uint32_t
      count;  ///< at all PEs. near: edges; core: 0; stage: vertices that are listed; redo, push: the queue behind it
};
struct paths_log {
  static constexpr uint32_t most_steps = 128;
  paths_step step[most_steps];  ///< the first ones
  uint32_t steps;
  uint32_t gave_up;  ///< 1: it took too many steps, and the distances are worth nothing
  uint64_t ns;       ///< of the kernel
};

/// An edge in a sorted row: the weight's bits above the code of the other end. So edges are ordered as they are.
struct weighted_edge {
  static constexpr uint64_t none = ~uint64_t{0};
  GRAVEL_BOTH static uint64_t of(float weight, uint32_t code) {
    return uint64_t{key_of_distance(weight + 0.0f)} << 32 | code;  // -0 becomes 0
  }
  GRAVEL_BOTH static uint32_t weight(uint64_t edge) { return static_cast<uint32_t>(edge >> 32); }
  GRAVEL_BOTH static uint32_t code(uint64_t edge) { return static_cast<uint32_t>(edge); }
};
/// The weights of a vertex's two lightest edges, rounded down to 16 bits each.
struct lightest_pair {
  static constexpr uint32_t none = 0x7fff;
  GRAVEL_BOTH static uint32_t of(uint64_t first, uint64_t second) {
    const uint32_t low = first == weighted_edge::none ? none : weighted_edge::weight(first) >> 16,
                   high = second == weighted_edge::none ? none : weighted_edge::weight(second) >> 16;
    return low | high << 16;
  }
  /// A lower bound of the weights of all edges but one, whose weight is given; least_keys::unreached: there are none.
  GRAVEL_BOTH static uint32_t other_than(uint32_t pair, uint32_t weight) {
    const uint32_t first = pair & 0xffff, least = first == weight >> 16 ? pair >> 16 : first;
    return least == none ? least_keys::unreached : least << 16;
  }
};

/// All that the kernel reads and writes. Plain data. Numbers of lists: `places` are those of own vertices.
struct paths_view {
  static constexpr uint32_t most_stages = 20;
  const uint64_t* offsets;  ///< [own + 1] rows of own vertices
  const uint64_t* edges;    ///< [edges] weighted_edge, each row sorted
  uint64_t own;
  uint32_t* keys;            ///< symmetric [codes] distances of all vertices, at each PE
  const uint32_t* lightest;  ///< symmetric [codes] lightest_pair of all vertices, at each PE
  uint64_t* queues;          ///< symmetric [2][PE][block][queue_room] a distance above a code
  uint32_t* dropped;         ///< symmetric [2][PE][block] the least distance that found no room in a near step
  uint64_t* reports;         ///< symmetric [stage][PE][block] of each stage, when it was over: the largest distance in
                             ///< it, above the number of entries in the queue
  uint32_t* lists;           ///< [warps of the grid][list_room] places that may get nearer
  uint32_t* words;           ///< [own] the result, as least_keys
  uint32_t list_room;
  uint32_t class_end[2];  ///< a warp pulls for a place before the first, eight lanes before the second, else a lane
  uint32_t stages, stage_end[most_stages];  ///< places at which stages end; the first ones are the core's
  uint32_t core_end[2];                     ///< places
  replicated_bitmap codes;                  ///< only the order: there are no bits
  level_rendezvous rendezvous;
  paths_log* log;

  GRAVEL_BOTH uint32_t places() const { return codes.strips * replicated_bitmap::strip; }
};
/// Where paths begin.
struct paths_source {
  uint32_t code;   ///< ~0: at a vertex without edges
  uint64_t place;  ///< ~0: at another PE
};

/// Dynamic shared memory, in words: how many entries each block has in the queue, and before it.
struct paths_layout {
  uint32_t blocks_of_all;
  GRAVEL_BOTH uint32_t words() const { return 2 * (blocks_of_all + 1); }
};

struct paths_shared {
  level_block blocks;
  uint32_t count;          ///< of the block's entries in the queue
  uint32_t overflow;       ///< 1: some found no room
  uint32_t dropped;        ///< near steps: the least distance of this block's that found no room
  uint32_t least;          ///< near steps: the least distance that waits, at all PEs
  uint32_t least_dropped;  ///< near steps: of all blocks
  uint32_t items, long_rows;
  uint32_t largest;                               ///< distance in this stage, of this block
  uint32_t stage_bound[paths_view::most_stages];  ///< the largest distance of each stage, at all PEs
  uint64_t work;
  uint64_t item[most_near];  ///< of a near step: a distance above a code
  uint32_t item_key[most_near];
  uint64_t row_begin[most_long_rows], row_end[most_long_rows];
  uint32_t row_from[most_long_rows], row_stage[most_long_rows];
};

/// One block of the kernel. Thread scope of all calls where nothing else is said: block, converged.
struct paths_block {
  static constexpr uint32_t unreached = least_keys::unreached, nobody = ~0u, warps = paths_threads / 32;
  const gravel_t& g;
  const paths_view& v;
  paths_shared& s;
  uint32_t* const found_of;   ///< [blocks of all] entries in the queue
  uint32_t* const before_of;  ///< [blocks of all + 1] near steps: as found_of a step before; push steps: sums
  uint32_t bound = 0;         ///< LB
  uint32_t listed[3] = {};    ///< where the places of each class end in the warp's list
  uint32_t largest = 0;       ///< of what this lane pulled in a stage
  uint32_t steps = 0, queue_turn = 0;
  uint64_t since = 0;

  GRAVEL_DEVICE paths_block(const gravel_t& handle, const paths_view& view, paths_shared& shared, uint32_t* words)
      : g(handle), v(view), s(shared), found_of(words), before_of(words + handle.n_pes * gridDim.x + 1) {}

  GRAVEL_DEVICE static uint32_t lane() { return threadIdx.x % 32; }
  GRAVEL_DEVICE static uint32_t warp() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }
  GRAVEL_DEVICE static uint32_t all_warps() { return gridDim.x * warps; }
  GRAVEL_DEVICE uint32_t blocks_of_all() const { return g.n_pes * gridDim.x; }
  GRAVEL_DEVICE uint32_t code_of(uint32_t place) const { return v.codes.code_of(static_cast<int>(g.my_pe), place); }
  GRAVEL_DEVICE bool is_mine(uint32_t code) const {
    return g.n_pes == 1 || v.codes.owner_of(code) == static_cast<int>(g.my_pe);
  }
  GRAVEL_DEVICE uint32_t key_of(uint32_t code) const { return load_relaxed<scope::device>(&v.keys[code]); }
  GRAVEL_DEVICE static uint32_t sum(uint32_t key, uint32_t weight) {
    return key == unreached ? unreached : key_of_distance(distance_of_key(key) + distance_of_key(weight));
  }
  GRAVEL_DEVICE uint64_t* queue_of(uint32_t turn, uint32_t block_of_all) const {
    return v.queues + (uint64_t{turn} * blocks_of_all() + block_of_all) * queue_room;
  }
  GRAVEL_DEVICE void note(paths_step::kind what, uint64_t count) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && steps < paths_log::most_steps)
      v.log->step[steps] = {globaltimer_ns() - since, what, static_cast<uint32_t>(count)};
    ++steps;
  }
  /// Ends a step in which this block reports `found` and `work`.
  GRAVEL_DEVICE level_totals rendezvous(uint32_t found, uint64_t work) {
    const auto reported = static_cast<uint32_t>(work < level_report::most ? work : level_report::most);
    return s.blocks.rendezvous(g, v.rendezvous, {found, reported}, found_of);
  }

  /// Lowers the distance of a vertex at the other PEs. Thread scope: lane.
  GRAVEL_DEVICE void lower_at_others(uint32_t code, uint32_t key) const {
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      if (pe != g.my_pe) s.blocks.others.min(&v.keys[code], key, static_cast<int>(pe));
  }
  /// Lowers the distance of a vertex at all PEs. Returns false if it is not above `key`. Thread scope: lane.
  GRAVEL_DEVICE bool lower(uint32_t code, uint32_t key) const {
    if (key >= atomicMin(&v.keys[code], key)) return false;
    lower_at_others(code, key);
    return true;
  }

  // Near steps.

  /// Lowers the distance of a vertex at all PEs, and puts it into the queue of near steps if `queues`. Thread scope:
  /// lane.
  GRAVEL_DEVICE void offer_near(uint64_t edge, uint32_t from, bool queues) {
    const uint32_t code = weighted_edge::code(edge), key = sum(from, weighted_edge::weight(edge));
    if (key >= key_of(code) || !lower(code, key)) return;
    if (key >= load_relaxed<scope::shared>(&s.dropped)) return;
    const uint32_t at = queues ? atomicAdd_block(&s.count, 1u) : near_room;
    if (at >= near_room) {
      atomicMin_block(&s.dropped, key);
      return;
    }
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      *s.blocks.others.at(&queue_of(0, g.my_pe * gridDim.x + blockIdx.x)[at], static_cast<int>(pe)) =
          uint64_t{key} << 32 | code;
  }
  /// Vertices s.item[0 .. n) push along all their edges. The edges of one are divided among several warps. Only over
  /// its lightest edges vertices come into the queue: heavy ones would leave no room for others.
  GRAVEL_DEVICE void push_near(uint32_t n) {
    const uint32_t all = all_warps(), pieces = n != 0 && n < all ? all / n : 1;
    uint64_t work = 0;
    for (uint32_t first = 0; first < n; first += 32) {
      const uint32_t i = first + lane();
      // Which piece of the item is this warp's. Items have the same keys in all blocks.
      const uint32_t piece = i < n ? (warp() + all - s.item_key[i] * pieces % all) % all : pieces;
      const bool takes = piece < pieces && is_mine(weighted_edge::code(s.item[i])) &&
                         key_of(weighted_edge::code(s.item[i])) == weighted_edge::weight(s.item[i]);
      for (unsigned rest = __ballot_sync(~0u, takes); rest; rest &= rest - 1) {
        const int of = __ffs(static_cast<int>(rest)) - 1;
        const uint64_t item = s.item[first + static_cast<uint32_t>(of)];
        const uint32_t place = v.codes.place_of(weighted_edge::code(item)), mine = __shfl_sync(~0u, piece, of);
        const uint64_t begin = v.offsets[place], end = v.offsets[place + 1], light = begin + gridDim.x * near_room / 4;
        for (uint64_t e = begin + mine * 32 + lane(); e < end; e += uint64_t{pieces} * 32) {
          offer_near(v.edges[e], weighted_edge::weight(item), e < light);
          ++work;
        }
      }
    }
    if (work) fetch_add<scope::shared>(&s.work, work);
  }
  /// Calls act(entry, key) for each entry of the queue of near steps that has not been pushed: key is the same in all
  /// blocks. Thread scope: lane.
  template <class Act>
  GRAVEL_DEVICE void for_each_waiting(uint32_t limit, Act act) const {
    for (uint32_t i = threadIdx.x; i < blocks_of_all() * near_room; i += paths_threads) {
      const uint32_t block = i / near_room, at = i % near_room;
      if (at >= found_of[block]) continue;
      const uint64_t entry = queue_of(0, block)[at];
      if (at >= before_of[block] || weighted_edge::weight(entry) > limit) act(entry, i);
    }
  }
  /// Near steps. Returns false if nothing is left to do behind them.
  GRAVEL_DEVICE bool find_bound(const paths_source& source) {
    uint32_t n = source.code == nobody ? 0 : 1, limit = 0;
    uint64_t pushed = 0;
    for (uint32_t step = 0;; ++step) {
      if (threadIdx.x == 0) {
        s.work = 0;
        s.items = 0;
        s.least = s.least_dropped = unreached;
      }
      __syncthreads();
      push_near(n);
      __syncthreads();
      const uint32_t turn = (s.blocks.number + 1) % 2;
      if (threadIdx.x < g.n_pes)
        *s.blocks.others.at(&v.dropped[turn * blocks_of_all() + g.my_pe * gridDim.x + blockIdx.x],
                            static_cast<int>(threadIdx.x)) = s.dropped;
      const level_totals all = rendezvous(s.count < near_room ? s.count : near_room, s.work);
      pushed += all.work;
      note(paths_step::kind::near, all.work);
      uint32_t least = unreached, dropped = unreached;
      for_each_waiting(limit, [&](uint64_t entry, uint32_t) {
        const uint32_t key = weighted_edge::weight(entry);
        if (key < least) least = key;
      });
      for (uint32_t i = threadIdx.x; i < blocks_of_all(); i += paths_threads) {
        const uint32_t of_block = v.dropped[turn * blocks_of_all() + i];
        if (of_block < dropped) dropped = of_block;
      }
      least = __reduce_min_sync(~0u, least);
      dropped = __reduce_min_sync(~0u, dropped);
      if (lane() == 0) {
        atomicMin_block(&s.least, least);
        atomicMin_block(&s.least_dropped, dropped);
      }
      __syncthreads();
      least = s.least;
      bound = s.least_dropped < least ? s.least_dropped : least;
      if (bound == unreached) return false;
      if (s.least_dropped <= least || step + 1 == most_near_steps || pushed > most_near_edges) return true;
      for_each_waiting(limit, [&](uint64_t entry, uint32_t key_of_item) {
        if (weighted_edge::weight(entry) != least) return;
        const uint32_t at = atomicAdd_block(&s.items, 1u);
        if (at >= most_near) return;
        s.item[at] = entry;
        s.item_key[at] = key_of_item;
      });
      __syncthreads();
      n = s.items;
      if (n > most_near) return true;
      for (uint32_t i = threadIdx.x; i < blocks_of_all(); i += paths_threads) before_of[i] = found_of[i];
      limit = least;
      __syncthreads();
    }
  }

  // Pulling.

  /// What a pull reads: copies, so that they stay in registers.
  struct pull_reader {
    const uint64_t *offsets, *edges;
    const uint32_t *keys, *lightest;
    uint32_t bound, evaluated;

    GRAVEL_DEVICE uint32_t key_of(uint64_t edge) const {
      return load_relaxed<scope::device>(&keys[weighted_edge::code(edge)]);
    }
    /// Whether the other end of an edge may make a vertex nearer that is at `best`.
    GRAVEL_DEVICE bool may_help(uint64_t edge, uint32_t best) const {
      return edge != weighted_edge::none && sum(bound, weighted_edge::weight(edge)) < best;
    }
    /// Takes an edge into account over which a vertex pulls. `key`: of the other end. `later`: the least distance that
    /// the other ends may still bring, of those whose codes are not below `evaluated`. Thread scope: lane.
    GRAVEL_DEVICE void consider(uint64_t edge, uint32_t key, uint32_t& best, uint32_t& later) const {
      const uint32_t weight = weighted_edge::weight(edge), offer = sum(key, weight);
      if (offer < best) best = offer;
      if (weighted_edge::code(edge) < evaluated || !may_help(edge, best)) return;
      const uint32_t other = lightest_pair::other_than(lightest[weighted_edge::code(edge)], weight);
      if (other == unreached) return;
      const uint32_t after = sum(sum(bound, other), weight);
      if (after < later) later = after;
    }
  };
  template <uint32_t LANES>
  GRAVEL_DEVICE static uint32_t least_of_lanes(uint32_t x) {
    if constexpr (LANES == 32) {
      return __reduce_min_sync(~0u, x);
    } else {
      for (uint32_t step = LANES / 2; step != 0; step /= 2) {
        const uint32_t other = __shfl_xor_sync(~0u, x, static_cast<int>(step));
        if (other < x) x = other;
      }
      return x;
    }
  }
  /// What a pull does besides.
  struct pull_mode {
    uint32_t evaluated;  ///< codes from there on may still get nearer in their stages
    bool whole;          ///< along the row as far as needed; false: along the first edges only
    bool queues;         ///< what gets nearer goes into the queue
  };
  /// LANES lanes pull for each of the EACH places in `place`; ~0: none. Returns a bit for each that may still get
  /// nearer, in the first of the lanes. Thread scope: warp, converged.
  template <uint32_t LANES, uint32_t EACH>
  GRAVEL_DEVICE uint32_t pull(const uint32_t (&place)[EACH], const pull_mode& mode) {
    constexpr uint32_t ahead = 4;  // edges of a lane whose other ends are loaded at once
    constexpr uint64_t none = weighted_edge::none;
    const pull_reader r{v.offsets, v.edges, v.keys, v.lightest, bound, mode.evaluated};
    const uint64_t own = v.own;
    const uint32_t rank = lane() % LANES, last_lane = lane() / LANES * LANES + LANES - 1;
    uint32_t old[EACH], key[EACH], improves = 0;
    uint64_t edge[EACH];
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < EACH; ++j) {
      old[j] = 0;
      edge[j] = none;
      if (place[j] >= own) continue;
      old[j] = key_of(code_of(place[j]));
      const uint64_t at = r.offsets[place[j]] + rank;
      if (at < r.offsets[place[j] + 1]) edge[j] = r.edges[at];
    }
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < EACH; ++j) key[j] = r.may_help(edge[j], old[j]) ? r.key_of(edge[j]) : unreached;
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < EACH; ++j) {
      uint32_t best = old[j], later = unreached;
      if (r.may_help(edge[j], best)) r.consider(edge[j], key[j], best, later);
      best = least_of_lanes<LANES>(best);
      uint64_t last = __shfl_sync(~0u, edge[j], static_cast<int>(last_lane));
      bool goes_on = mode.whole && r.may_help(last, best);
      uint64_t at = 0, end = 0;
      if (goes_on) {
        at = r.offsets[place[j]] + LANES + rank;
        end = r.offsets[place[j] + 1];
      }
      while (__any_sync(~0u, goes_on)) {
        uint64_t next[ahead];
        uint32_t next_key[ahead];
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < ahead; ++k) next[k] = goes_on && at + k * LANES < end ? r.edges[at + k * LANES] : none;
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < ahead; ++k) next_key[k] = r.may_help(next[k], best) ? r.key_of(next[k]) : unreached;
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < ahead; ++k)
          if (r.may_help(next[k], best)) r.consider(next[k], next_key[k], best, later);
        best = least_of_lanes<LANES>(best);
        last = __shfl_sync(~0u, next[ahead - 1], static_cast<int>(last_lane));
        at += ahead * LANES;
        goes_on = goes_on && r.may_help(last, best);
      }
      later = least_of_lanes<LANES>(later);
      if (rank != 0 || place[j] >= own) continue;
      improves |= uint32_t{later < best} << j;
      if (best > largest) largest = best;
      if (best >= old[j]) continue;
      const uint32_t code = code_of(place[j]);
      if (!mode.queues) {
        for (uint32_t pe = 0; pe < g.n_pes; ++pe)
          store_relaxed<scope::device>(s.blocks.others.at(&v.keys[code], static_cast<int>(pe)), best);
      } else if (lower(code, best)) {
        enqueue(code, best);
      }
    }
    return improves;
  }
  GRAVEL_DEVICE uint32_t* list() const { return v.lists + uint64_t{warp()} * v.list_room; }
  /// Appends places with a bit in `improves` to the warp's list, behind `size`. Thread scope: warp, converged.
  template <uint32_t EACH>
  GRAVEL_DEVICE void append(const uint32_t (&place)[EACH], uint32_t improves, uint32_t& size) const {
    GRAVEL_UNROLL
    for (uint32_t j = 0; j < EACH; ++j) {
      const bool has = (improves >> j & 1) != 0;
      const unsigned having = __ballot_sync(~0u, has);
      if (has) list()[size + search_block::rank_in(having)] = place[j];
      size += static_cast<uint32_t>(__popc(having));
    }
  }
  /// Places `begin`, `begin` + `step` and so on pull, with each the next ones too, as many as the warp pulls for at
  /// once. If `is_list`, these are places of the warp's list, and what stands there pulls. What may still get nearer is
  /// listed from `size` on, which in a list is never behind what is read. Thread scope: warp, converged.
  template <uint32_t LANES>
  GRAVEL_DEVICE_APART void pull_some(uint32_t begin, uint32_t end, uint32_t step, bool is_list, const pull_mode& mode,
                                     uint32_t& size) {
    constexpr uint32_t each = 4;
    for (; begin < end; begin += step * each) {
      uint32_t place[each];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < each; ++j) {
        const uint32_t at = begin + j * step + lane() / LANES;
        place[j] = at < end ? at : nobody;
        if (is_list && at < end) place[j] = list()[at];
      }
      __syncwarp();
      append(place, pull<LANES, each>(place, mode), size);
      __syncwarp();
    }
  }
  template <uint32_t LANES>
  GRAVEL_DEVICE void pull_range(uint32_t first, uint32_t last, const pull_mode& mode, uint32_t& size) {
    constexpr uint32_t of_warp = 32 / LANES;
    pull_some<LANES>(first + warp() * of_warp, last, all_warps() * of_warp, false, mode, size);
  }
  template <uint32_t LANES>
  GRAVEL_DEVICE void pull_listed(uint32_t begin, uint32_t end, const pull_mode& mode, uint32_t& size) {
    pull_some<LANES>(begin, end, 32 / LANES, true, mode, size);
  }
  /// Places `first` to `last`, of all classes.
  GRAVEL_DEVICE void pull_places(uint32_t first, uint32_t last, const pull_mode& mode) {
    const uint32_t middle = v.class_end[0] < last ? v.class_end[0] : last,
                   end = v.class_end[1] < last ? v.class_end[1] : last;
    uint32_t size = listed[2];
    if (first < middle) pull_range<32>(first, middle, mode, size);
    if (size != listed[2]) listed[0] = listed[1] = listed[2] = size;
    const uint32_t from = first < middle ? middle : first;
    if (from < end) pull_range<8>(from, end, mode, size);
    if (size != listed[2]) listed[1] = listed[2] = size;
    pull_range<1>(from < end ? end : from, last, mode, size);
    listed[2] = size;
  }
  /// What is listed pulls again.
  GRAVEL_DEVICE void pull_again(const pull_mode& mode) {
    uint32_t size = 0;
    pull_listed<32>(0, listed[0], mode, size);
    const uint32_t long_rows = size;
    pull_listed<8>(listed[0], listed[1], mode, size);
    const uint32_t middle_rows = size;
    pull_listed<1>(listed[1], listed[2], mode, size);
    listed[0] = long_rows;
    listed[1] = middle_rows;
    listed[2] = size;
  }
  /// The core, and all stages.
  GRAVEL_DEVICE void pull_all() {
    for (uint32_t round = 0; round < 4; ++round) {
      pull_places(0, v.core_end[round / 2], {nobody, false, false});
      rendezvous(0, 0);
      note(paths_step::kind::core, 0);
    }
    uint32_t begin = 0;
    for (uint32_t i = 0; i < v.stages; ++i) {
      const uint32_t end = v.stage_end[i];
      pull_again({begin * g.n_pes, true, true});
      largest = 0;
      pull_places(begin, end, {begin * g.n_pes, true, false});
      const uint32_t of_warp = __reduce_max_sync(~0u, largest);
      if (lane() == 0) {
        fetch_add<scope::shared>(&s.work, uint64_t{listed[2]});
        atomicMax_block(&s.largest, of_warp);
      }
      __syncthreads();
      if (threadIdx.x < g.n_pes)
        *s.blocks.others.at(&v.reports[i * blocks_of_all() + g.my_pe * gridDim.x + blockIdx.x],
                            static_cast<int>(threadIdx.x)) = uint64_t{s.largest} << 32 | s.count;
      const uint64_t work = s.work;
      const level_totals all = rendezvous(0, work);
      if (threadIdx.x == 0) {
        s.work = 0;
        s.largest = 0;
      }
      __syncthreads();
      note(paths_step::kind::stage, all.work);
      begin = end;
    }
    pull_again({nobody, true, true});
  }

  // Pushing.

  /// The queue of near steps is read no more; another one begins.
  GRAVEL_DEVICE void begin_queue() {
    queue_turn = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      s.count = 0;
      s.work = 0;
    }
    __syncthreads();
  }
  /// Puts a vertex that got nearer into the queue of all PEs. Without room, its distance goes to all PEs at once, as
  /// all vertices will pull. Thread scope: lane.
  GRAVEL_DEVICE void enqueue(uint32_t code, uint32_t key) {
    const uint32_t at = atomicAdd_block(&s.count, 1u);
    if (at >= queue_room) {
      store_relaxed<scope::shared>(&s.overflow, 1u);
      lower_at_others(code, key);
      return;
    }
    for (uint32_t pe = 0; pe < g.n_pes; ++pe)
      *s.blocks.others.at(&queue_of(queue_turn, g.my_pe * gridDim.x + blockIdx.x)[at], static_cast<int>(pe)) =
          uint64_t{key} << 32 | code;
  }
  /// Finds the largest distance of each stage when it was over. Call __syncthreads() before it is used.
  GRAVEL_DEVICE void find_stage_bounds() {
    const uint32_t n = blocks_of_all();
    for (uint32_t i = threadIdx.x; i < v.stages * n; i += paths_threads)
      atomicMax_block(&s.stage_bound[i / n], static_cast<uint32_t>(v.reports[i] >> 32));
  }
  /// The stage while which entry `at` of a block came into the queue of redo steps; v.stages: behind the last one.
  /// Thread scope: lane.
  GRAVEL_DEVICE uint32_t stage_of_entry(uint32_t block_of_all, uint32_t at) const {
    uint32_t stage = 0;
    while (stage < v.stages && at >= static_cast<uint32_t>(v.reports[stage * blocks_of_all() + block_of_all])) ++stage;
    return stage;
  }
  /// What limits a push.
  struct push_limits {
    uint32_t end[bounded_stages], bound[bounded_stages];  ///< of the first stages: codes, and the largest distance
    /// Whether an edge to this code is of use. Thread scope: lane.
    GRAVEL_DEVICE bool may_help(uint32_t code, uint32_t offer) const {
      uint32_t most = unreached;
      GRAVEL_UNROLL
      for (uint32_t i = bounded_stages; i != 0; --i)
        if (code < end[i - 1]) most = bound[i - 1];
      return offer < most;
    }
  };
  GRAVEL_DEVICE push_limits limits() const {
    push_limits known;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < bounded_stages; ++i) {
      known.end[i] = i < v.stages ? v.stage_end[i] * g.n_pes : 0;
      known.bound[i] = i < v.stages ? s.stage_bound[i] : 0;
    }
    return known;
  }
  /// Pushes along edges `at`, `at` + step, ... up to `end`, from a vertex at `from`, which came into the queue in this
  /// stage (v.stages: later). Thread scope: lane.
  GRAVEL_DEVICE void push_along(uint64_t at, uint64_t end, uint32_t step, uint32_t from, uint32_t stage,
                                const push_limits& known) {
    constexpr uint32_t ahead = 4;
    const uint32_t code_end = stage < v.stages ? v.stage_end[stage] * g.n_pes : ~0u;
    uint32_t most = unreached;
    if (stage < bounded_stages && stage < v.stages) {
      most = 0;
      for (uint32_t i = 0; i <= stage; ++i)
        if (s.stage_bound[i] > most) most = s.stage_bound[i];
    }
    for (; at < end; at += uint64_t{ahead} * step) {
      uint64_t edge[ahead];
      uint32_t key[ahead];
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < ahead; ++k)
        edge[k] = at + uint64_t{k} * step < end ? v.edges[at + uint64_t{k} * step] : weighted_edge::none;
      if (sum(from, weighted_edge::weight(edge[0])) >= most) return;
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < ahead; ++k) {
        const uint32_t code = weighted_edge::code(edge[k]);
        const bool helps = edge[k] != weighted_edge::none && code < code_end &&
                           known.may_help(code, sum(from, weighted_edge::weight(edge[k])));
        key[k] = helps ? key_of(code) : 0;
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < ahead; ++k) {
        if (key[k] == 0) continue;
        const uint32_t offer = sum(from, weighted_edge::weight(edge[k])), code = weighted_edge::code(edge[k]);
        if (offer < key[k] && offer < atomicMin(&v.keys[code], offer)) enqueue(code, offer);
      }
    }
  }
  /// Own vertices in the queue push, and distances of others are taken over. `n`: entries, those of each block in
  /// found_of. `of_redo`: it is the queue of redo steps.
  GRAVEL_DEVICE void push_queue(uint32_t n, uint32_t turn, bool of_redo) {
    if (threadIdx.x < 32) {
      uint32_t before = 0;
      for (uint32_t first = 0; first < blocks_of_all(); first += 32) {
        const uint32_t mine = first + lane() < blocks_of_all() ? found_of[first + lane()] : 0;
        uint32_t up_to = mine;
        for (uint32_t step = 1; step < 32; step *= 2) {
          const uint32_t other = __shfl_up_sync(~0u, up_to, step);
          if (lane() >= step) up_to += other;
        }
        if (first + lane() < blocks_of_all()) before_of[first + lane()] = before + up_to - mine;
        before += __shfl_sync(~0u, up_to, 31);
      }
    }
    if (threadIdx.x == 0) s.long_rows = 0;
    __syncthreads();
    const push_limits known = limits();
    for (uint64_t first = 0; first < n; first += uint64_t{all_warps()} * 32) {
      const uint64_t i = first + uint64_t{lane()} * all_warps() + warp();
      uint64_t begin = 0, end = 0;
      uint32_t from = 0, stage = v.stages;
      if (i < n) {
        const uint32_t block = search_block::last_up_to(before_of, blocks_of_all(), static_cast<uint32_t>(i));
        const uint64_t entry = queue_of(turn, block)[i - before_of[block]];
        const uint32_t code = weighted_edge::code(entry);
        from = weighted_edge::weight(entry);
        uint32_t now = key_of(code);
        if (from < now) now = atomicMin(&v.keys[code], from);  // of another PE
        if (is_mine(code) && from <= now) {
          const uint32_t place = v.codes.place_of(code);
          begin = v.offsets[place];
          end = v.offsets[place + 1];
          if (of_redo) stage = stage_of_entry(block, static_cast<uint32_t>(i) - before_of[block]);
        }
        if (end - begin > long_push_row) {
          const uint32_t at = atomicAdd_block(&s.long_rows, 1u);
          if (at < most_long_rows) {
            s.row_begin[at] = begin;
            s.row_end[at] = end;
            s.row_from[at] = from;
            s.row_stage[at] = stage;
            end = begin;
          }
        }
      }
      for (unsigned rest = __ballot_sync(~0u, begin != end); rest; rest &= rest - 1) {
        const int of = __ffs(static_cast<int>(rest)) - 1;
        const uint64_t row = __shfl_sync(~0u, begin, of), row_end = __shfl_sync(~0u, end, of);
        const uint32_t distance = __shfl_sync(~0u, from, of), since_stage = __shfl_sync(~0u, stage, of);
        push_along(row + lane(), row_end, 32, distance, since_stage, known);
        __syncwarp();
      }
    }
    __syncthreads();
    const uint32_t rows = s.long_rows < most_long_rows ? s.long_rows : most_long_rows;
    for (uint32_t i = 0; i < rows; ++i)
      push_along(s.row_begin[i] + threadIdx.x, s.row_end[i], paths_threads, s.row_from[i], s.row_stage[i], known);
  }
  /// Push steps, until nothing is left. Returns false if there are too many.
  GRAVEL_DEVICE bool push_all() {
    paths_step::kind what = paths_step::kind::redo;
    uint32_t repeats = 0;
    find_stage_bounds();
    for (uint32_t step = 0;; ++step) {
      __syncthreads();
      const uint32_t mine = s.count < queue_room ? s.count : queue_room;
      const level_totals all = rendezvous(mine, s.overflow);
      note(what, all.found);
      if (all.work == 0 && all.found == 0) return true;
      if (step == most_push_steps || (all.work != 0 && ++repeats > most_repeats)) return false;
      const uint32_t turn = queue_turn;
      queue_turn = 1 - queue_turn;
      if (threadIdx.x == 0) s.count = s.overflow = 0;
      __syncthreads();
      what = all.work != 0 ? paths_step::kind::redo : paths_step::kind::push;
      push_queue(static_cast<uint32_t>(all.found), turn, step == 0);
      if (all.work != 0) pull_places(0, v.places(), {nobody, true, true});
    }
  }

  /// All distances begin as unreached, at this PE.
  GRAVEL_DEVICE void begin(const paths_source& source) {
    const uint32_t lanes = gridDim.x * paths_threads;
    const word4 none{{unreached, unreached, unreached, unreached}};
    for (uint32_t i = blockIdx.x * paths_threads + threadIdx.x; i < v.codes.codes() / 4; i += lanes) {
      word4 four = none;
      if (i == source.code / 4) four.word[source.code % 4] = 0;
      reinterpret_cast<word4*>(v.keys)[i] = four;
    }
    if (threadIdx.x == 0) {
      s.count = s.overflow = 0;
      s.dropped = unreached;
      s.largest = 0;
      s.work = 0;
      s.item[0] = source.code;  // above it the distance, which is 0
      s.item_key[0] = 0;
    }
    if (threadIdx.x < paths_view::most_stages) s.stage_bound[threadIdx.x] = 0;
    for (uint32_t i = threadIdx.x; i < blocks_of_all(); i += paths_threads) before_of[i] = 0;
    rendezvous(0, 0);
  }
  GRAVEL_DEVICE void finish(const paths_source& source) const {
    const uint32_t lanes = gridDim.x * paths_threads;
    for (uint64_t i = blockIdx.x * paths_threads + threadIdx.x; i < v.own; i += lanes) {
      const uint32_t key = i < v.places() ? key_of(code_of(static_cast<uint32_t>(i))) : unreached;
      v.words[i] = least_keys::word_of(i == source.place ? 0 : key, false);
    }
  }
};

/// Shortest paths. A cooperative launch of v.rendezvous.blocks blocks of paths_threads, at all PEs.
template <int = 0>
__global__ void __launch_bounds__(paths_threads, 1)
    find_all_paths(const __grid_constant__ gravel_t g, const __grid_constant__ paths_view v, paths_source source) {
  __shared__ paths_shared s;
  paths_block b(g, v, s, reinterpret_cast<uint32_t*>(gravel_dynamic_shared()));
  b.since = globaltimer_ns();
  s.blocks.begin(g, v.rendezvous);
  b.begin(source);
  bool is_done = true;
  if (b.find_bound(source)) {
    b.begin_queue();
    b.pull_all();
    is_done = b.push_all();
  }
  b.finish(source);
  s.blocks.end(v.rendezvous);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    v.log->steps = b.steps;
    v.log->gave_up = !is_done;
    v.log->ns = globaltimer_ns() - b.since;
  }
}

}  // namespace gravel::detail
