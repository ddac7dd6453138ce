// Rows of PEs whose memory is not mapped: requested in lists, and staged in the symmetric heap.
//
// Problem. A request for each row would cost a slot of the queue here and one at the owner, for a few bytes. And a
// place where answers arrive must be symmetric, which the result of a gather need not be.
//
// Solution. A gather goes by chunks of as many ids as the staging memory has rows. For each chunk:
//
//   request_rows   A block takes a batch of ids and sorts their rows by owner. The rows of one owner go out as lists of
//                  8 bytes for each (op::get_pieces, device/bulk.cuh). The owner's receiver gathers rows into messages
//                  of 2 KiB, without its program. They land in the staging memory, one row behind the other. The kernel
//                  ends when all have come
//   gather_rows    (row_kernels.cuh) reads each row where it lies: in staging memory, in the cache, or in mapped memory
//
// Invariants. The rows of a batch are staged within the part of the staging memory that has the numbers of the batch's
// ids, so blocks write apart. `places` says for each id where its row is staged. Both kernels are in one stream, so
// staging memory is written again only when it has been read.
#pragma once
#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

/// Where the rows of a chunk of ids come.
struct row_staging {
  static constexpr uint32_t not_staged = ~0u;
  char* rows;        ///< symmetric [rows of a chunk][row_bytes]
  uint32_t* places;  ///< device memory of this PE [ids of a chunk]: place in `rows`, or not_staged
};
/// The rows that are staged, and behind them those of a cache: what gather_rows() looks for.
struct staged_rows {
  row_cache_view cache;
  row_staging staging;

  /// Returns the row of an id; nullptr if it is neither staged nor in the cache.
  template <class T>
  GRAVEL_DEVICE const T* find(uint64_t place, uint64_t row, uint64_t row_bytes) const {
    const uint32_t at = staging.places[place];
    if (at == row_staging::not_staged) return cache.find<T>(place, row, row_bytes);
    return reinterpret_cast<const T*>(staging.rows + at * row_bytes);
  }
};

constexpr uint32_t ids_of_lane = 4, requested_ids = ids_of_lane * row_lanes;  // of a block at once

/// Requests the rows of `n` ids that are neither mapped nor in the cache, and waits for them. Rows that do not exist
/// are left to gather_rows().
template <class Id>
__global__ void __launch_bounds__(row_lanes)
    request_rows(gravel_t g, rows_view table, row_cache_view cache, row_staging staging, const Id* ids, uint64_t n) {
  constexpr uint32_t most_owners = 512, nobody = ~0u;  // owners that are counted at once
  __shared__ uint64_t list[requested_ids];             // offsets of rows, by owner
  __shared__ uint32_t ends[most_owners];               // by owner: rows, then the end of its rows in `list`
  const uint32_t most = most_pieces(g, table.row_bytes), at_once = most ? most : 1;
  for (uint64_t first = uint64_t{blockIdx.x} * requested_ids; first < n; first += uint64_t{gridDim.x} * requested_ids) {
    uint32_t staged = 0;  // rows of this batch that were requested from owners below `base`
    for (uint32_t base = 0; base < g.n_pes; base += most_owners) {
      const uint32_t owners = g.n_pes - base < most_owners ? g.n_pes - base : most_owners;
      for (uint32_t o = threadIdx.x; o < owners; o += row_lanes) store_relaxed<scope::shared>(&ends[o], 0u);
      __syncthreads();
      uint32_t owner[ids_of_lane], rank[ids_of_lane];
      for (uint32_t k = 0; k < ids_of_lane; ++k) {
        const uint64_t place = first + k * row_lanes + threadIdx.x;
        owner[k] = nobody;
        if (place >= n) continue;
        if (base == 0) staging.places[place] = row_staging::not_staged;
        const auto row = static_cast<uint64_t>(ids[place]);
        if (!table.has(row)) continue;
        const auto pe = static_cast<uint32_t>(table.owner(row));
        const bool is_here = pe == g.my_pe || peer_heap(g, static_cast<int>(pe)) != nullptr;
        if (is_here || pe - base >= owners || cache.find<char>(place, row, table.row_bytes)) continue;
        owner[k] = pe - base;
        rank[k] = fetch_add<scope::shared>(&ends[owner[k]], 1u);
      }
      __syncthreads();
      if (threadIdx.x == 0)
        for (uint32_t o = 1; o < owners; ++o) ends[o] += ends[o - 1];
      __syncthreads();
      for (uint32_t k = 0; k < ids_of_lane; ++k) {
        if (owner[k] == nobody) continue;
        const uint64_t place = first + k * row_lanes + threadIdx.x;
        const uint32_t at = rank[k] + (owner[k] ? ends[owner[k] - 1] : 0);
        list[at] = static_cast<uint64_t>(table.symmetric<char>(static_cast<uint64_t>(ids[place])) - g.heap);
        staging.places[place] = static_cast<uint32_t>(first) + staged + at;
      }
      __syncthreads();
      uint32_t requests = 0, begin = 0;
      for (uint32_t o = 0; o < owners; ++o) {
        const uint32_t end = ends[o];
        for (uint32_t at = begin; at < end; at += at_once) {
          if (requests++ % warps_of_rows != threadIdx.x / 32) continue;
          char* const to = staging.rows + (first + staged + at) * table.row_bytes;
          const auto pe = static_cast<int>(base + o);
          if (most) {
            const uint32_t rows = end - at < at_once ? end - at : at_once;
            request_pieces(g, copy_team::whole_warp(), to, list + at, rows, table.row_bytes, pe);
          } else if (threadIdx.x % 32 == 0) {
            request_bulk(g, static_cast<uint64_t>(to - g.heap), list[at], table.row_bytes, pe);
          }
        }
        begin = end;
      }
      staged += begin;
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) gravel_quiet(g);
}

}  // namespace gravel::detail
