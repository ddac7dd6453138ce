// The tables of a breadth-first search that the search's kernel reads: made once from the rows of a graph.
#pragma once
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/search_kernel.cuh"

namespace gravel::detail {

/// What the making of tables finds out.
struct search_facts {
  uint32_t column_size[more_columns + 1];  ///< as in search_view
  uint64_t with_neighbours, near_hubs;  ///< own vertices that have a neighbour, and whose first one is in the hub part
};

/// Finds the neighbours with the lowest codes. A warp takes 32 places, one after the other; lane k keeps neighbour k.
template <int = 0>
__global__ void find_neighbours(const __grid_constant__ search_view v, uint64_t own, uint32_t* columns,
                                uint32_t* closed, search_facts* facts) {
  const uint32_t lane = threadIdx.x % 32, places = v.bitmap.strips * replicated_bitmap::strip;
  uint32_t size = 0;
  uint64_t with_neighbours = 0, near_hubs = 0;
  for (uint32_t word = (blockIdx.x * blockDim.x + threadIdx.x) / 32; word < places / 32;
       word += gridDim.x * blockDim.x / 32) {
    uint32_t without = 0;
    for (uint32_t place = word * 32; place < word * 32 + 32; ++place) {
      const uint64_t begin = place < own ? v.offsets[place] : 0, end = place < own ? v.offsets[place + 1] : 0;
      const uint32_t self = v.bitmap.code_of(static_cast<int>(v.bitmap.me), place);
      uint32_t mine = ~0u, found = 0;
      for (uint32_t least = 0, above = 0; found <= more_columns; ++found, above = least + 1) {
        least = ~0u;
        for (uint64_t e = begin + lane; e < end; e += 32)
          if (const uint32_t code = v.codes[e]; code >= above && code != self && code < least) least = code;
        least = __reduce_min_sync(~0u, least);
        if (least == ~0u) break;
        if (lane == found) mine = least;
      }
      if (lane == 0) {
        with_neighbours += found != 0;
        near_hubs += mine < v.hub_words * 32;
        if (found <= 1) mine = found == 0 ? search_view::only_one : mine | search_view::only_one;
      }
      if (lane <= more_columns) columns[uint64_t{lane} * places + place] = mine;
      if (lane < found) size = place + 1;
      if (found == 0) without |= 1u << place % 32;
    }
    if (lane == 0) closed[word] = without;
  }
  if (lane <= more_columns) atomicMax(&facts->column_size[lane], size);
  if (lane != 0) return;
  fetch_add<scope::device>(&facts->with_neighbours, with_neighbours);
  fetch_add<scope::device>(&facts->near_hubs, near_hubs);
}

/// Counts the edges of each vertex of all PEs that lead to own ones.
template <int = 0>
__global__ void count_cut_rows(const uint32_t* codes, uint64_t edges, uint64_t* counts) {
  for (uint64_t e = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < edges; e += uint64_t{gridDim.x} * blockDim.x)
    fetch_add<scope::device>(&counts[codes[e]], uint64_t{1});
}
/// Fills the cut rows, in an order near that of the places. `next`: where each row begins; becomes where it ends.
template <int = 0>
__global__ void fill_cut_rows(const uint64_t* offsets, const uint32_t* codes, uint64_t own, uint64_t* next,
                              uint32_t* places) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32;
  for (uint64_t place = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; place < own; place += warps)
    for (uint64_t e = offsets[place] + threadIdx.x % 32; e < offsets[place + 1]; e += 32)
      places[fetch_add<scope::device>(&next[codes[e]], uint64_t{1})] = static_cast<uint32_t>(place);
}

template <int = 0>
__global__ void name_first(const uint32_t* first, const uint32_t* closed, const uint32_t* names, uint32_t places,
                           uint32_t* first_names) {
  for (uint32_t place = blockIdx.x * blockDim.x + threadIdx.x; place < places; place += gridDim.x * blockDim.x)
    first_names[place] =
        closed[place / 32] >> place % 32 & 1 ? no_parent : names[first[place] & ~search_view::only_one];
}

}  // namespace gravel::detail
