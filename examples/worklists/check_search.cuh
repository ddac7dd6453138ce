// The check of a breadth-first search by the rules of Graph500.
#pragma once
#include <gravel/algorithms.cuh>
#include <gravel/device_array.hpp>

namespace app {
using gravel::fetch_add;
using gravel::least_keys;
using gravel::raise_relaxed;
using gravel::scope;
using gravel::detail::bits_view;
using gravel::detail::frontier_bits;
using gravel::detail::launch_for;

/// Counts, a word each: mistakes, vertices that were found, their edges, the deepest level. A warp for each row.
template <class View>
__global__ void check_search(const __grid_constant__ View w, bits_view b, uint64_t source_place, uint64_t* counts) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32, lane = threadIdx.x % 32;
  uint64_t reached = 0, edges = 0, deepest = 0;
  uint32_t wrong = 0;
  for (uint64_t v = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; v < b.own; v += warps) {
    const uint32_t level = least_keys::key_of(b.levels[v]), parent = b.parents[v];
    const bool found = level != least_keys::unreached;
    const uint64_t begin = w.graph.offsets[v], end = w.graph.offsets[v + 1];
    bool has_parent = !found || level == 0;
    for (uint64_t e = begin + lane; e < end; e += 32) {
      const uint32_t other = least_keys::key_of(b.levels[w.graph.targets[e]]);
      const bool other_found = other != least_keys::unreached;
      if (found != other_found || (found && (other > level + 1 || level > other + 1))) ++wrong;
      has_parent |= w.graph.targets[e] == parent && other + 1 == level;
    }
    has_parent = __any_sync(~0u, has_parent);
    if (lane != 0) continue;
    if (!has_parent) ++wrong;
    if (b.levels[v] != w.program.vertices.words[v] || (found && least_keys::waits(b.levels[v])))
      ++wrong;  // it still waits
    if ((level == 0) != (v == source_place)) ++wrong;
    if (!found) continue;
    ++reached;
    edges += end - begin;
    if (deepest < level) deepest = level;
  }
  wrong = __reduce_add_sync(~0u, wrong);
  if (lane != 0) return;
  if (wrong) fetch_add<scope::device>(&counts[0], uint64_t{wrong});
  if (reached) fetch_add<scope::device>(&counts[1], reached);
  if (edges) fetch_add<scope::device>(&counts[2], edges);
  raise_relaxed<scope::device>(&counts[3], deepest);
}

struct bfs_check {
  uint64_t wrong, reached, edges, deepest;
};
/// Levels of neighbours differ by one at most, both or none of two neighbours were found, the parent is a neighbour one
/// level above, and level 0 is the source alone. Of this PE's vertices. `source_place`: ~0 if the source is at another
/// PE.
template <class View>
bfs_check check_by_graph500(const frontier_bits& bits, const View& w, uint64_t source_place) {
  const bits_view& b = bits.view();
  gravel::device_array<uint64_t> counts(std::vector<uint64_t>(4));
  launch_for(b.own, check_search<View>, w, b, source_place, counts.data());
  bfs_check check;
  gravel::copy_behind_kernels(&check, counts.data(), sizeof(check));
  return check;
}

}  // namespace app
