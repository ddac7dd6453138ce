// The kernels of connected components. Within a PE vertices and ghosts form trees (comp[v] is nearer to the root; a
// root points to itself), which edges join at their roots (Groute, TOPC 2020, section 5.1; Jaiganesh and Burtscher,
// HPDC18). Two edges of each vertex join most vertices of a component. A sample finds the largest tree, and its
// vertices skip the rest of their edges (Sutton, Ben-Nun, Barak, IPDPS18). Where vertices have few edges, that would
// not pay: then each edge is looked at once, from its end of the higher rank, and all is done. Across PEs the least
// name of each tree is sent to the owners of its ghosts, until no name changes.
#pragma once
#include <type_traits>

#include "lib/worklist/words_of_all.cuh"

namespace gravel::detail {

constexpr uint32_t edges_joined_first = 2;

/// The root above `v`, as far as `v` can see it, and a shorter way there for others. What it reads may be old, out of
/// the multiprocessor's cache: a vertex that was once above another stays so. Who read roots where they are newest
/// waited for all others that read the same few. Thread scope: lane.
GRAVEL_DEVICE uint32_t find_root(uint32_t* comp, uint32_t v) {
  uint32_t here = load_relaxed<scope::block>(&comp[v]);
  if (here == v) return v;
  for (uint32_t before = v, above; here > (above = load_relaxed<scope::block>(&comp[here]));
       before = here, here = above)
    store_relaxed<scope::device>(&comp[before], above);
  return here;
}
/// Joins the trees of both; a vertex and itself: nothing. Roots only ever hang below lower ones, so there is no circle.
/// Of lanes that would hang the same root one does: most edges lead to few trees. Thread scope: warp, converged.
GRAVEL_DEVICE void join(uint32_t* comp, uint32_t one, uint32_t other) {
  constexpr uint32_t nobody = ~0u;
  uint32_t a = one, b = other;
  if (one != other) {
    a = find_root(comp, one);
    b = find_root(comp, other);
  }
  while (__any_sync(~0u, a != b)) {
    const uint32_t high = a > b ? a : b, low = a > b ? b : a;
    const int leader = __ffs(static_cast<int>(__match_any_sync(~0u, a == b ? nobody : high))) - 1;
    uint32_t above = 0;
    if (a != b && threadIdx.x % 32 == static_cast<uint32_t>(leader)) {
      above = atomicCAS(&comp[high], high, low);
      if (above == high) above = low;
    }
    above = __shfl_sync(~0u, above, leader);  // of `high`, by now
    if (a != b) {
      a = above == low ? low : find_root(comp, above);
      b = low;
    }
  }
}

/// Joins the trees of both, each lane for itself: where trees are many. Thread scope: lane.
GRAVEL_DEVICE void join_alone(uint32_t* comp, uint32_t one, uint32_t other) {
  uint32_t a = find_root(comp, one), b = find_root(comp, other);
  while (a != b) {
    const uint32_t high = a > b ? a : b, low = a > b ? b : a;
    const uint32_t above = atomicCAS(&comp[high], high, low);
    if (above == high) return;
    a = find_root(comp, above);
    b = find_root(comp, low);
  }
}

/// The part of the graph with its vertices and ghosts in the order of their codes: trees hang by these ranks, so that
/// each PE's root is the least of its tree, and a neighbour to hang below is as easily found as in one PE. (Where
/// ghosts came behind own vertices, all that have a ghost of many edges had to hang it below themselves, one after the
/// other.)
struct ranked_graph : worklist_graph {
  uint32_t before;  ///< ghosts of PEs before this one
  GRAVEL_BOTH uint32_t rank(uint32_t v) const {
    if (v < own) return before + v;
    return v - static_cast<uint32_t>(own) < before ? v - static_cast<uint32_t>(own) : v;
  }
  GRAVEL_DEVICE uint32_t code(uint32_t rank, uint32_t me) const {
    if (rank < before) return ghosts[rank];
    return rank - before < own ? codes.code(static_cast<int>(me), rank - before) : ghosts[rank - own];
  }
};

/// Each vertex below its first neighbour of a lower rank, ghosts below themselves.
template <int = 0>
__global__ void plant_trees(ranked_graph graph, uint32_t* comp) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < graph.vertices();
       i += uint64_t{gridDim.x} * blockDim.x) {
    auto root = static_cast<uint32_t>(i);
    const uint64_t v = i - graph.before;
    if (i >= graph.before && v < graph.own && graph.offsets[v] < graph.offsets[v + 1]) {
      const uint32_t first = graph.rank(graph.targets[graph.offsets[v]]);
      root = first < root ? first : root;
    }
    comp[i] = root;
  }
}
/// The first edges of each vertex.
template <int = 0>
__global__ void join_first(ranked_graph graph, uint32_t* comp) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < graph.own;
       of_warp += lanes) {
    const uint64_t v = of_warp + threadIdx.x % 32;
    uint64_t begin = 0, end = 0;
    if (v < graph.own) {
      begin = graph.offsets[v];
      end = graph.offsets[v + 1];
    }
    const auto mine = static_cast<uint32_t>(graph.before + v);
    for (uint32_t i = 0; i < edges_joined_first; ++i)
      join(comp, mine, begin + i < end ? graph.rank(graph.targets[begin + i]) : mine);
  }
}
/// The edges of rows that lead to lower ranks, and those to ghosts, whose rows are not here; but the one by which
/// plant_trees hung the vertex. A row of many is shared by a warp.
template <int = 0>
__global__ void __launch_bounds__(256) join_below(ranked_graph graph, uint32_t* comp) {
  constexpr uint64_t many = 64;
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  const auto join_edge = [&](uint32_t mine, uint32_t target, bool is_first) {
    const uint32_t other = graph.rank(target);
    if (other < mine ? !is_first : target >= graph.own) join_alone(comp, mine, other);
  };
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < graph.own;
       of_warp += lanes) {
    const uint64_t v = of_warp + lane;
    const uint64_t begin = v < graph.own ? graph.offsets[v] : 0, end = v < graph.own ? graph.offsets[v + 1] : 0;
    if (end - begin < many) {
      const auto mine = static_cast<uint32_t>(graph.before + v);
      for (uint64_t e = begin; e < end; ++e) join_edge(mine, graph.targets[e], e == begin);
    }
    for (unsigned rest = __ballot_sync(~0u, end - begin >= many); rest; rest &= rest - 1) {
      const int of = __ffs(static_cast<int>(rest)) - 1;
      const uint64_t first = __shfl_sync(~0u, begin, of), last = __shfl_sync(~0u, end, of);
      const auto mine = graph.before + static_cast<uint32_t>(of_warp) + static_cast<uint32_t>(of);
      for (uint64_t e = first + lane; e < last; e += 32) join_edge(mine, graph.targets[e], e == first);
      __syncwarp();
    }
  }
}
/// All point at roots. `roots`: where what each points at is written, `comp` or elsewhere.
template <int = 0>
__global__ void flatten(const uint32_t* comp, uint64_t vertices, uint32_t* roots) {
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < vertices;
       v += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t root = comp[v];
    while (root != comp[root]) root = comp[root];
    roots[v] = root;
  }
}
template <int = 0>
__global__ void take_sample(const uint32_t* comp, uint64_t vertices, uint32_t* sample, uint32_t count) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    sample[i] = comp[uint64_t{i} * vertices / count];
}
/// The other edges, of vertices outside of tree `largest`: those of a warp one after the other, each by all lanes if it
/// has many.
template <int = 0>
__global__ void __launch_bounds__(256) join_rest(ranked_graph graph, uint32_t* comp, uint32_t largest) {
  constexpr uint64_t many = 64;
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = threadIdx.x % 32;
  for (uint64_t of_warp = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 32; of_warp < graph.own;
       of_warp += lanes) {
    const uint64_t v = of_warp + lane;
    uint64_t begin = 0, end = 0;
    if (v < graph.own && comp[graph.before + v] != largest) {
      begin = graph.offsets[v] + edges_joined_first;
      end = graph.offsets[v + 1];
    }
    if (begin > end) begin = end;
    for (unsigned rest = __ballot_sync(~0u, end - begin >= many); rest; rest &= rest - 1) {
      const int of = __ffs(static_cast<int>(rest)) - 1;
      const uint64_t first = __shfl_sync(~0u, begin, of), last = __shfl_sync(~0u, end, of);
      const auto hub = graph.before + static_cast<uint32_t>(of_warp) + static_cast<uint32_t>(of);
      for (uint64_t e = first; e < last; e += 32)
        join(comp, hub, e + lane < last ? graph.rank(graph.targets[e + lane]) : hub);
    }
    if (end - begin >= many) begin = end;
    const auto mine = static_cast<uint32_t>(graph.before + v);
    for (; __any_sync(~0u, begin < end); ++begin)
      join(comp, mine, begin < end ? graph.rank(graph.targets[begin]) : mine);
  }
}

/// What PEs send each other. A component's name is the least code of its vertices.
struct name_exchange {
  ranked_graph graph;
  const uint32_t* comp;  ///< by rank; flat
  uint32_t* names;       ///< by rank; of roots
  uint32_t* sent;    ///< [ghosts] the name that was sent to the owner; 0 from the beginning if no own vertex is in the
                     ///< ghost's tree
  uint32_t* heard;   ///< [own + ghosts] symmetric: the least name that others sent; of ghosts what the owner said
  uint32_t* said;    ///< [own] symmetric: names, to be looked up
  uint32_t inside;   ///< the rank of a vertex in the tree whose vertices did not look at all edges, or ~0u
  uint64_t sampled;  ///< each of how many ghosts in that tree sends its name
  uint64_t* found;   ///< {whether a name has changed, the name of that tree}
  GRAVEL_DEVICE uint32_t largest() const { return inside == ~0u ? ~0u : comp[inside]; }
};
/// A ghost that is a tree of its own has edges that were passed over, or none: own vertices cannot learn from it, nor
/// its owner from this PE. (One of a lower rank may be the root of own vertices: name_trees finds that out.)
template <int = 0>
__global__ void check_ghosts(name_exchange x) {
  const uint32_t largest = x.largest();
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < x.graph.n_ghosts;
       k += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t rank = x.graph.rank(static_cast<uint32_t>(x.graph.own + k));
    x.sent[k] = x.comp[rank] != rank || rank == largest ? ~0u : 0;
  }
}
/// A root has the least code of its tree.
template <int = 0>
__global__ void name_trees(name_exchange x, uint32_t me) {
  const uint32_t largest = x.largest(), before = x.graph.before;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.graph.vertices();
       i += uint64_t{gridDim.x} * blockDim.x) {
    x.names[i] = x.graph.code(static_cast<uint32_t>(i), me);
    if (i < before || i - before >= x.graph.own) continue;
    // A root of own vertices is their own, or a ghost of a lower rank, which is as far behind in `sent` as it is in
    // rank.
    const uint32_t root = x.comp[i];
    if (root < before && root != largest && x.sent[root] == 0) x.sent[root] = ~0u;
  }
}
/// To the owner of each ghost, what it may not know. A vertex of the owner's largest tree may not have this ghost's
/// tree among its edges, so nothing comes back by itself: who is outside of the own largest tree asks. Of the ghosts
/// inside some are enough: a vertex that is outside of its owner's largest tree asks and sends for both, and the others
/// all say the same.
template <class Sender>
__global__ void report_names(gravel_t g, name_exchange x) {
  __shared__ Sender sender;
  sender.begin(g);
  const uint32_t largest = x.largest();
  for (uint64_t k = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < x.graph.n_ghosts;
       k += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t sent = x.sent[k];
    if (sent == 0) continue;
    const uint32_t root = x.comp[x.graph.rank(static_cast<uint32_t>(x.graph.own + k))], name = x.names[root],
                   code = x.graph.ghosts[k];
    if (largest != ~0u && root != largest) {
      uint32_t* const said = &x.said[x.graph.codes.place(code)];
      if constexpr (std::is_same_v<Sender, mapped_sender>)
        x.heard[x.graph.own + k] = sender.get(said, x.graph.codes.owner(code));
      else gravel_get(g, &x.heard[x.graph.own + k], said, x.graph.codes.owner(code));
    }
    if (root == largest && k % x.sampled != 0) continue;
    if (name >= sent) continue;
    x.sent[k] = name;
    sender.min(&x.heard[x.graph.codes.place(code)], name, x.graph.codes.owner(code));
  }
  sender.end();
}
template <int = 0>
__global__ void hear_names(name_exchange x) {
  bool any = false;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < x.graph.vertices();
       v += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t heard = x.heard[v];
    if (heard == ~0u) continue;
    uint32_t* const name = &x.names[x.comp[x.graph.rank(static_cast<uint32_t>(v))]];
    if (heard < load_relaxed<scope::device>(name)) any |= atomicMin(name, heard) > heard;
  }
  if (any) store_relaxed<scope::device>(&x.found[0], uint64_t{1});
}
/// What vertices are called, for others that ask. One that sees no change behind this has the result.
template <int = 0>
__global__ void take_names(name_exchange x) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    x.found[0] = 0;
    x.found[1] = x.inside == ~0u ? ~0u : x.names[x.largest()];
  }
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < x.graph.own;
       v += uint64_t{gridDim.x} * blockDim.x)
    x.said[v] = x.names[x.comp[x.graph.before + v]];
}

}  // namespace gravel::detail
