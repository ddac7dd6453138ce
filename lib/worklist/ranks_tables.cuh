// The tables of PageRank in one kernel: edges of hubs in tiles, and the rest. They are made once from the rows of a
// graph.
#pragma once
#include "lib/worklist/coded_rows.cuh"
#include "lib/worklist/ranks_kernel.cuh"

namespace gravel::detail {

/// Rows of own vertices, and what each has in each tile and in the rest.
struct ranks_rows {
  const uint64_t* offsets;
  const uint32_t* codes;
  uint64_t own;
  uint32_t* counts;  ///< [most_tiles + 1][places]; the last ones: of the rest
};

/// What the making of tables finds out.
struct ranks_facts {
  uint64_t asymmetry;                 ///< sum of edge_number() over all edges
  uint64_t connected;                 ///< own vertices with edges
  uint64_t standing[most_tiles + 1];  ///< edges that stand with own vertices in each tile, and in the rest
};

/// Counts the edges of own vertices, a warp those of one at a time.
template <int = 0>
__global__ void count_rank_edges(const __grid_constant__ ranks_view v, const __grid_constant__ ranks_rows rows,
                                 float* inverse_degree, ranks_facts* facts) {
  const uint32_t lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
  uint64_t sum = 0, with_edges = 0, standing[most_tiles + 1] = {};
  for (uint32_t place = (blockIdx.x * blockDim.x + threadIdx.x) / 32; place < v.places(); place += warps) {
    const uint64_t begin = place < rows.own ? rows.offsets[place] : 0,
                   end = place < rows.own ? rows.offsets[place + 1] : 0;
    const uint32_t self = v.layout.code_of(static_cast<int>(v.layout.me), place);
    uint32_t count[most_tiles + 1] = {};
    for (uint64_t e = begin + lane; e < end; e += 32) {
      const uint32_t other = rows.codes[e], tile = v.tile_of(self, other);
      const bool stands_here = tile == most_tiles || other < self;
      GRAVEL_UNROLL
      for (uint32_t k = 0; k <= most_tiles; ++k) count[k] += stands_here && tile == k;
      if (other != self) sum += self < other ? edge_number(self, other) : ~edge_number(self, other) + 1;
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k <= most_tiles; ++k) {
      count[k] = __reduce_add_sync(~0u, count[k]);
      standing[k] += count[k];
      if (lane == 0) rows.counts[uint64_t{k} * v.places() + place] = count[k];
    }
    if (lane == 0) inverse_degree[place] = begin == end ? 0 : 1 / static_cast<float>(end - begin);
    with_edges += begin != end;
  }
  fetch_add<scope::device>(&facts->asymmetry, sum);
  if (lane != 0) return;
  fetch_add<scope::device>(&facts->connected, with_edges);
  for (uint32_t k = 0; k <= most_tiles; ++k) fetch_add<scope::device>(&facts->standing[k], standing[k]);
}

/// Orders the vertices of each window by falling number of edges, roughly beyond 128. A block takes a window at a time.
template <int = 0>
__global__ void order_windows(const uint32_t* counts, uint32_t places, uint32_t* ordered) {
  // Numbers up to 127, then 16 for each power of two.
  constexpr uint32_t exact = 128, buckets = exact + 25 * 16;
  const auto bucket_of = [](uint32_t count) {
    if (count < exact) return count;
    const auto top = 31 - static_cast<uint32_t>(__clz(static_cast<int>(count)));
    return exact + (top - 7) * 16 + (count >> (top - 4) & 15);
  };
  __shared__ uint32_t next[buckets];
  for (uint32_t begin = blockIdx.x * window_vertices; begin < places; begin += gridDim.x * window_vertices) {
    const uint32_t end = begin + window_vertices < places ? begin + window_vertices : places;
    for (uint32_t i = threadIdx.x; i < buckets; i += blockDim.x) next[i] = 0;
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) atomicAdd_block(&next[bucket_of(counts[i])], 1u);
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t at = begin;
      for (uint32_t i = buckets; i-- > 0;) {
        const uint32_t here = next[i];
        next[i] = at;
        at += here;
      }
    }
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      ordered[atomicAdd_block(&next[bucket_of(counts[i])], 1u)] = i;
    __syncthreads();
  }
}
/// The most edges of a vertex of each group, rounded up to a multiple of `unit`. `places`: of the groups' vertices;
/// null: groups of places as they are. `at`: gets where each place stands, if not null.
template <int = 0>
__global__ void measure_groups(const uint32_t* counts, const uint32_t* places, uint32_t groups, uint32_t unit,
                               uint32_t* width, uint32_t* at) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t group = (blockIdx.x * blockDim.x + threadIdx.x) / 32; group < groups;
       group += gridDim.x * blockDim.x / 32) {
    uint32_t most = 0;
    for (uint32_t i = group * group_vertices + lane; i < (group + 1) * group_vertices; i += 32) {
      const uint32_t place = places ? places[i] : i, count = counts[place];
      most = count > most ? count : most;
      if (at) at[place] = i;
    }
    most = __reduce_max_sync(~0u, most);
    if (lane == 0) width[group] = (most + unit - 1) / unit * unit;
  }
}
/// Fills tile k, or the rest if k is most_tiles; `at`: where each place stands in the groups. A warp takes a row at a
/// time. Rows of a tile are turned by a number of their own: most begin with the same hubs.
template <int = 0>
__global__ void fill_groups(const __grid_constant__ ranks_view v, const __grid_constant__ ranks_rows rows, uint32_t k,
                            uint32_t places, const uint32_t* at, const uint32_t* offsets, uint16_t* hubs,
                            uint32_t* rest) {
  const uint32_t lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
  for (uint32_t place = (blockIdx.x * blockDim.x + threadIdx.x) / 32; place < places && place < rows.own;
       place += warps) {
    const uint32_t self = v.layout.code_of(static_cast<int>(v.layout.me), place),
                   count = rows.counts[uint64_t{k} * v.places() + place], slot = at ? at[place] : place,
                   turned = count ? (self * 0x9e3779b1u >> 8) % count : 0;
    if (count == 0) continue;
    const uint64_t begin = offsets[slot / group_vertices];
    uint32_t before = 0;
    for (uint64_t of_warp = rows.offsets[place]; of_warp < rows.offsets[place + 1]; of_warp += 32) {
      const uint64_t e = of_warp + lane;
      const uint32_t other = e < rows.offsets[place + 1] ? rows.codes[e] : self;
      const bool is_edge = e < rows.offsets[place + 1],
                 stands_here = is_edge && v.tile_of(self, other) == k && (k == most_tiles || other < self);
      const unsigned having = __ballot_sync(~0u, stands_here);
      uint32_t i = before + static_cast<uint32_t>(__popc(having & ((1u << lane) - 1)));
      before += static_cast<uint32_t>(__popc(having));
      if (!stands_here) continue;
      if (k == most_tiles) {
        rest[begin + uint64_t{i} * group_vertices + slot % group_vertices] = other;
      } else {
        i = i + turned < count ? i + turned : i + turned - count;
        hubs[begin + (uint64_t{i / 2} * group_vertices + slot % group_vertices) * 2 + i % 2] =
            static_cast<uint16_t>(other - k * tile_hubs);
      }
    }
  }
}
/// The largest of some words.
template <int = 0>
__global__ void find_largest_word(const uint32_t* words, uint64_t count, uint32_t* largest) {
  uint32_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x)
    mine = words[i] > mine ? words[i] : mine;
  mine = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

}  // namespace gravel::detail
