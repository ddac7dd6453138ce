// The levels that belong to the parents of a gravel_search, for the checks of a breadth-first search: each vertex goes
// from parent to parent up to the root, at whatever PE these are.
#pragma once
#include <algorithm>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/mapped_sender.cuh>
#include <gravel/search.cuh>
#include "examples/common/device_part.hpp"
#include "examples/worklists/check_search.cuh"

namespace app {
using gravel::device_array;
using gravel::mapped_sender;
using gravel::detail::copy_words;
using gravel::detail::no_parent;

/// How a vertex is called in the parents of a search.
struct parent_names {
  gravel::detail::replicated_bitmap bitmap;
  const uint32_t* code_of_name;  ///< [names]; null: parents are codes
  uint64_t names;

  /// The code of a parent; ~0 if there is no such vertex. Thread scope: lane.
  GRAVEL_DEVICE uint32_t code_of(uint32_t parent) const {
    if (!code_of_name) return parent;
    return parent < names ? code_of_name[parent] : ~0u;
  }
};

/// Sets the levels and parents of own vertices, as the worklist has them, by walks to the root. `all`: symmetric, the
/// parents of all PEs' vertices. `most`: vertices of the largest PE. Counts vertices from which no walk ends there.
template <class View>
__global__ void walk_to_root(const __grid_constant__ gravel_t g, const __grid_constant__ View w, bits_view b,
                             parent_names names, uint32_t* all, uint32_t root, uint64_t most, uint64_t vertices,
                             uint64_t* wrong) {
  __shared__ mapped_sender others;
  others.begin(g);
  uint64_t lost = 0;
  for (uint64_t v = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < b.own; v += uint64_t{gridDim.x} * blockDim.x) {
    w.program.vertices.words[v] = least_keys::initial_word;
    b.parents[v] = no_parent;
    if (all[v] == gravel_search::no_parent) continue;
    const uint32_t self = names.bitmap.code_of(static_cast<int>(g.my_pe), static_cast<uint32_t>(v)),
                   parent = names.code_of(all[v]), place = names.bitmap.place_of(parent);
    const int owner = names.bitmap.owner_of(parent);
    uint32_t at = self, level = 0;
    bool leads_there = self != root || parent == root;
    for (; leads_there && at != root; ++level) {
      const uint32_t place_there = names.bitmap.place_of(at);
      leads_there = at != ~0u && place_there < most && level <= vertices;
      if (leads_there) at = names.code_of(others.get(&all[place_there], names.bitmap.owner_of(at)));
    }
    if (!leads_there) {
      ++lost;
      continue;
    }
    w.program.vertices.words[v] = least_keys::word_of(level, false);
    b.parents[v] = place;
    if (static_cast<uint32_t>(owner) == g.my_pe) continue;
    const uint32_t code = w.graph.codes.code(owner, place);
    uint64_t low = 0, high = w.graph.n_ghosts;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if (w.graph.ghosts[middle] < code) low = middle + 1;
      else high = middle;
    }
    const bool is_ghost = low < w.graph.n_ghosts && w.graph.ghosts[low] == code;
    b.parents[v] = is_ghost ? static_cast<uint32_t>(w.graph.own + low) : no_parent;  // the check finds the latter
  }
  if (lost) fetch_add<scope::device>(wrong, lost);
}

/// Sets the levels and parents that the check of Graph500's rules reads, from those of a search. Returns at how many
/// own vertices that failed. Collective.
template <class View>
uint64_t take_parents(frontier_bits& bits, const View& w, const uint32_t* parents, const parent_names& names,
                      uint32_t root, uint64_t vertices) {
  const bits_view& b = bits.view();
  const uint64_t most = gravel_max_all(b.own);
  device_array<uint64_t> wrong(std::vector<uint64_t>(1));
  launch_for(b.own, copy_words<uint32_t>, b.levels, parents, b.own);
  bits.rendezvous().round();
  launch_for(b.own, walk_to_root<View>, gravel_handle(), w, b, names, b.levels, root, most, vertices, wrong.data());
  bits.rendezvous().round();
  uint64_t lost = 0;
  gravel::copy_behind_kernels(&lost, wrong.data(), sizeof(lost));
  return lost;
}

/// Codes of all vertices by the graph's own numbers.
inline device_array<uint32_t> codes_by_number(const graph_part& part, const gravel::detail::replicated_bitmap& bitmap) {
  std::vector<uint32_t> codes(part.vertices);
  for (uint64_t vertex = 0; vertex < part.vertices; ++vertex) {
    const uint64_t number = part.by.number_of(vertex);
    const int owner = part.by.owner(number);
    codes[vertex] = bitmap.code_of(owner, static_cast<uint32_t>(number - part.by.first[static_cast<size_t>(owner)]));
  }
  return device_array<uint32_t>(codes);
}

}  // namespace app
