// The kernel of connected components of a graph with hubs: it stays until all is done, at all PEs.
//
// Problem. Edges join trees by atomic operations, and between PEs by messages of several rounds. In a graph with hubs
// nearly all vertices are in one component, and nearly all of that work joins what is joined already.
// Solution. Each vertex hangs below its neighbour with the lowest code, if that is below its own. So codes fall along
// each way up: this is a forest, and nothing was joined. If codes are in the order of falling degree
// (replicated_bitmap) the ways are short, and nearly all of them end at one vertex, the *top*. Every PE has the whole
// forest, so a vertex finds its root without another PE. Vertices outside the top's tree follow all their edges to
// pairs of roots. All PEs get all pairs, and join them, each in a table of its own.
//
// For speed, the hubs' bits are in shared memory: whether the root of each of the first codes is the top.
//
// Protocol of one round, behind the finding of roots:
//   block                                                       every block of every PE
//   roots of own vertices, in `above` at all PEs (first round)
//   pairs of roots, in its list of turn k % 2 at all PEs
//   rendezvous k, with the number of pairs                      joins some pairs in its PE's `above`
// A block whose list was full reports so, and there is another round, in which pairs that are joined are passed over.
// Behind the last round with pairs there is one more rendezvous; then vertices outside the top's tree take their names.
//
// Invariants.
// - Lists of turn k % 2 are written again behind rendezvous k + 1, which a block reaches when it has joined its pairs.
//   Turns go by the number of the rendezvous, which continues from one kernel to the next.
// - A kernel does not write the table `above` that the kernel before it may still read: two take turns.
// - Of two rounds, one after the other, in which a list was full, one joins trees that were apart: the second one sees
//   all that was joined before the first one. So the rounds end.
// - The top has the least code of all vertices with edges, so it stays a root.
#pragma once
#include "lib/worklist/algorithms/component_kernels.cuh"
#include "lib/worklist/level_rendezvous.cuh"
#include "lib/worklist/replicated_bitmap.cuh"
#include "lib/worklist/worklist_view.cuh"

namespace gravel::detail {

constexpr uint32_t component_threads = replicated_bitmap::strip, component_warps = component_threads / 32;
/// Codes whose roots a block has in shared memory, as bits.
constexpr uint32_t component_hubs = 4096;
/// Pairs that a block adds in one round. Few on the CPU backend, so that small graphs have several rounds.
constexpr uint32_t most_pairs = GRAVEL_CUDA ? 1024 : 8;

/// What a run did, and when, at this PE's first block: ns since the kernel began.
struct components_log {
  uint64_t hubs_ns, roots_ns, pairs_ns, rendezvous_ns, ns;
  uint64_t outside;  ///< own vertices outside the top's tree, of the first block
  uint64_t pairs;    ///< of all PEs
  uint32_t rounds;
};

/// A vertex outside the top's tree.
struct alignas(8) outside_vertex {
  uint32_t place, root;
};
/// Roots of both ends of an edge.
struct alignas(8) root_pair {
  uint32_t one, other;
};

/// All that the kernel reads and writes. Plain data.
struct components_view {
  const uint64_t* offsets;  ///< [own + 1] rows of own vertices
  const uint32_t* codes;    ///< [edges] of their neighbours
  uint64_t own;
  const uint32_t* first;      ///< symmetric [codes] what each vertex hangs below: itself if it is a root; with no_edges
                              ///< if it has no neighbour
  const uint32_t* names;      ///< symmetric [codes]; null: names are vertex codes
  const uint32_t* own_names;  ///< [own]
  vertex_code vertices;
  uint32_t* found;          ///< [own, filled up to strips] the name of each one's component
  uint32_t* above;          ///< symmetric [codes] of roots: a root that it was joined to, or itself
  outside_vertex* outside;  ///< [block][places_of_block]
  root_pair* pairs;         ///< symmetric [2][PE][block][most_pairs]
  uint32_t top;
  uint32_t hubs;  ///< a multiple of 32
  replicated_bitmap layout;
  level_rendezvous rendezvous;
  components_log* log;

  static constexpr uint32_t no_edges = 1u << 31;
  GRAVEL_BOTH uint32_t places() const { return layout.strips * replicated_bitmap::strip; }
  /// The most places of a block of `blocks`.
  GRAVEL_BOTH uint32_t places_of_block(uint32_t blocks) const {
    return (layout.strips + blocks - 1) / blocks * replicated_bitmap::strip;
  }
  GRAVEL_BOTH uint32_t own_name(uint32_t place) const {
    return own_names ? own_names[place] : vertices.code(static_cast<int>(layout.me), place);
  }
  GRAVEL_BOTH uint32_t name_of(uint32_t code) const {
    return names ? names[code] : vertices.code(layout.owner_of(code), layout.place_of(code));
  }
};

struct components_shared {
  level_block blocks;
  uint32_t hubs[component_hubs / 32];  ///< bits: the root is the top
  uint32_t outside, pairs;
};

/// One block of the kernel. Thread scope of all calls where nothing else is said: block, converged.
struct components_block {
  const gravel_t& g;
  const components_view& v;
  components_shared& s;
  uint32_t* const found_of;       ///< [PEs * blocks] pairs of each block
  outside_vertex* const outside;  ///< of this block

  GRAVEL_DEVICE components_block(const gravel_t& handle, const components_view& view, components_shared& shared,
                                 uint32_t* words)
      : g(handle),
        v(view),
        s(shared),
        found_of(words),
        outside(view.outside + uint64_t{blockIdx.x} * view.places_of_block(gridDim.x)) {}

  GRAVEL_DEVICE static uint32_t lane() { return threadIdx.x % 32; }
  GRAVEL_DEVICE static uint32_t warp() { return threadIdx.x / 32; }

  /// Whether a code is a hub below the top. Thread scope: lane.
  GRAVEL_DEVICE bool is_below_top(uint32_t code) const {
    return code < v.hubs && (s.hubs[code / 32] >> code % 32 & 1) != 0;
  }
  /// The root of a vertex that has an edge. Thread scope: lane.
  GRAVEL_DEVICE uint32_t root_of(uint32_t code) const {
    while (!is_below_top(code)) {
      const uint32_t next = v.first[code];
      if (next >= code) return code;
      code = next;
    }
    return v.top;
  }

  /// Finds out which hubs are below the top; each block for itself. A lane follows four ways at once.
  GRAVEL_DEVICE void find_hubs() {
    constexpr uint32_t at_once = 4;
    for (uint32_t begin = 0; begin < v.hubs; begin += at_once * component_threads) {
      uint32_t here[at_once], next[at_once];
      uint32_t going = 0;
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        here[j] = begin + j * component_threads + threadIdx.x;
        if (here[j] < v.hubs) going |= 1u << j;
      }
      while (going) {
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) next[j] = going >> j & 1 ? v.first[here[j]] : 0;
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) {
          if (!(going >> j & 1)) continue;
          if (next[j] >= here[j]) going &= ~(1u << j);
          else here[j] = next[j];
        }
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        const uint32_t code = begin + j * component_threads + threadIdx.x;
        const unsigned below = __ballot_sync(~0u, here[j] == v.top);
        if (lane() == 0 && code < v.hubs) s.hubs[code / 32] = below;
      }
    }
    __syncthreads();
  }

  /// Finds the roots of own vertices. A warp takes 128 vertices of a strip, a lane four of them, of several strips.
  GRAVEL_DEVICE void find_roots() {
    constexpr uint32_t of_warp = 128, warps = replicated_bitmap::strip / of_warp,  // of a strip
        strips = component_warps / warps, at_once = 4;
    const uint32_t own_strips = v.layout.strips, top_name = v.name_of(v.top);
    const uint32_t turns = (own_strips + gridDim.x - 1) / gridDim.x;
    for (uint32_t begin = warp() / warps; begin < turns; begin += strips * at_once) {
      uint32_t place[at_once];
      word4 here[at_once], next[at_once];
      uint32_t going = 0, alone = 0, apart = 0;  // bit 4 j + t: of vertex place[j] + t
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        const uint32_t strip = (begin + j * strips) * gridDim.x + blockIdx.x;
        place[j] = ~0u;
        if (strip >= own_strips) continue;
        place[j] = strip * replicated_bitmap::strip + warp() % warps * of_warp + lane() * 4;
        here[j] = *reinterpret_cast<const word4*>(&v.first[v.layout.code_of(static_cast<int>(v.layout.me), place[j])]);
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j) {
        if (place[j] == ~0u) continue;
        const uint32_t self = v.layout.code_of(static_cast<int>(v.layout.me), place[j]);
        GRAVEL_UNROLL
        for (uint32_t t = 0; t < 4; ++t) {
          const uint32_t above = here[j].word[t], bit = 1u << (4 * j + t);
          if (above & components_view::no_edges) alone |= bit;
          else if (above == self + t) apart |= bit;
          else if (!is_below_top(above)) going |= bit;
        }
      }
      while (going) {
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) {
          GRAVEL_UNROLL
          for (uint32_t t = 0; t < 4; ++t) next[j].word[t] = going >> (4 * j + t) & 1 ? v.first[here[j].word[t]] : 0;
        }
        GRAVEL_UNROLL
        for (uint32_t j = 0; j < at_once; ++j) {
          GRAVEL_UNROLL
          for (uint32_t t = 0; t < 4; ++t) {
            const uint32_t bit = 1u << (4 * j + t), above = next[j].word[t];
            if (!(going & bit)) continue;
            if (above >= here[j].word[t]) {
              apart |= bit;
              going &= ~bit;
            } else {
              here[j].word[t] = above;
              if (is_below_top(above)) going &= ~bit;
            }
          }
        }
      }
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j)
        if (place[j] != ~0u) take_roots(place[j], here[j], alone >> 4 * j & 15, apart >> 4 * j & 15, top_name);
    }
    __syncthreads();
  }
  /// Names four vertices from `place` on that are below the top or `alone`, without edges; lists those `apart`, which
  /// came to another root. Thread scope: lane.
  GRAVEL_DEVICE void take_roots(uint32_t place, const word4& root, uint32_t alone, uint32_t apart, uint32_t top_name) {
    word4 name{{top_name, top_name, top_name, top_name}};
    if (alone) {
      GRAVEL_UNROLL
      for (uint32_t t = 0; t < 4; ++t)
        if ((alone >> t & 1) && place + t < v.own) name.word[t] = v.own_name(place + t);
    }
    store_once(reinterpret_cast<word4*>(&v.found[place]), name);
    if (apart == 0) return;
    GRAVEL_UNROLL
    for (uint32_t t = 0; t < 4; ++t) {
      const uint32_t code = root.word[t];
      if (!(apart >> t & 1) || code == v.top) continue;
      outside[atomicAdd_block(&s.outside, 1u)] = {place + t, code};
      if (code != v.layout.code_of(static_cast<int>(v.layout.me), place + t)) continue;
      for (uint32_t pe = 0; pe < g.n_pes; ++pe) *s.blocks.others.at(&v.above[code], static_cast<int>(pe)) = code;
    }
  }

  GRAVEL_DEVICE root_pair* pairs_of(uint32_t turn, uint32_t block_of_all) const {
    return v.pairs + (uint64_t{turn} * g.n_pes * gridDim.x + block_of_all) * most_pairs;
  }
  /// Follows all edges of the vertices outside, a warp those of one at a time. `again`: not the first round.
  GRAVEL_DEVICE void find_pairs(bool again) {
    root_pair* const list = pairs_of((s.blocks.number + 1) % 2, g.my_pe * gridDim.x + blockIdx.x);
    for (uint32_t i = warp(); i < s.outside; i += component_warps) {
      const outside_vertex here = outside[i];
      const uint32_t one = again ? find_root(v.above, here.root) : here.root;
      for (uint64_t e = v.offsets[here.place] + lane(); e < v.offsets[here.place + 1]; e += 32) {
        uint32_t other = root_of(v.codes[e]);
        if (again && other != v.top) other = find_root(v.above, other);
        if (one == other) continue;
        const uint32_t at = atomicAdd_block(&s.pairs, 1u);
        if (at >= most_pairs) continue;
        for (uint32_t pe = 0; pe < g.n_pes; ++pe)
          *s.blocks.others.at(&list[at], static_cast<int>(pe)) = root_pair{one, other};
      }
    }
    __syncthreads();
  }
  /// Joins some of the pairs of rendezvous `number`.
  GRAVEL_DEVICE void join_pairs(uint32_t number) {
    for (uint32_t block = blockIdx.x; block < g.n_pes * gridDim.x; block += gridDim.x) {
      const root_pair* const list = pairs_of(number % 2, block);
      for (uint32_t begin = warp() * 32; begin < found_of[block]; begin += component_threads) {
        root_pair pair{v.top, v.top};
        if (begin + lane() < found_of[block]) pair = list[begin + lane()];
        join(v.above, pair.one, pair.other);
      }
    }
  }
  /// Joins trees until all edges are within one. Returns the number of rounds.
  GRAVEL_DEVICE uint32_t join_trees(uint64_t* pairs, components_log& at, uint64_t since) {
    for (uint32_t rounds = 1;; ++rounds) {
      find_pairs(rounds > 1);
      if (rounds == 1) at.pairs_ns = globaltimer_ns() - since;
      const uint32_t mine = s.pairs, number = s.blocks.number + 1;
      const bool is_full = mine > most_pairs;
      const level_totals all =
          s.blocks.rendezvous(g, v.rendezvous, {is_full ? most_pairs : mine, is_full ? 1u : 0u}, found_of);
      if (rounds == 1) at.rendezvous_ns = globaltimer_ns() - since;
      *pairs += all.found;
      if (all.found == 0) return rounds;
      join_pairs(number);
      if (threadIdx.x == 0) s.pairs = 0;
      if (all.work != 0) {
        __syncthreads();
        continue;
      }
      s.blocks.rendezvous(g, v.rendezvous, {0, 0}, found_of);
      return rounds;
    }
  }
  GRAVEL_DEVICE void name_outside() const {
    for (uint32_t i = threadIdx.x; i < s.outside; i += component_threads)
      v.found[outside[i].place] = v.name_of(find_root(v.above, outside[i].root));
  }

 private:
  /// A store that leaves the caches to others.
  GRAVEL_DEVICE static void store_once(word4* at, const word4& four) {
#if GRAVEL_ON_GPU
    __stcs(reinterpret_cast<uint4*>(at), make_uint4(four.word[0], four.word[1], four.word[2], four.word[3]));
#else
    *at = four;
#endif
  }
};

/// Connected components. A cooperative launch of v.rendezvous.blocks blocks of component_threads, at all PEs.
template <int = 0>
__global__ void __launch_bounds__(component_threads, 1)
    find_components(const __grid_constant__ gravel_t g, const __grid_constant__ components_view v) {
  __shared__ components_shared s;
  components_block b(g, v, s, reinterpret_cast<uint32_t*>(gravel_dynamic_shared()));
  const uint64_t since = globaltimer_ns();
  components_log at{};
  uint64_t pairs = 0;
  if (threadIdx.x == 0) {
    s.outside = s.pairs = 0;
    if (blockIdx.x == 0) v.above[v.top] = v.top;
  }
  s.blocks.begin(g, v.rendezvous);
  b.find_hubs();
  at.hubs_ns = globaltimer_ns() - since;
  b.find_roots();
  at.roots_ns = globaltimer_ns() - since;
  at.rounds = b.join_trees(&pairs, at, since);
  b.name_outside();
  s.blocks.end(v.rendezvous);
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  at.outside = s.outside;
  at.pairs = pairs;
  at.ns = globaltimer_ns() - since;
  *v.log = at;
}

}  // namespace gravel::detail
