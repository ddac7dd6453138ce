// Kernels that choose which rows a cache keeps (row_cache.cuh).
//
// Problem. Which of many ids occur most often shall be known without a sort and without the host.
//
// Solution, all in one stream:
//
//   clear_counts    empties all of hot_row_memory, and the hash table of the cache
//   count_ids       counts a sample of the ids, at equal distances, in a hash table: a word for each row and its count
//   count_counts    counts how many rows have each count, in bins
//   choose_bin      finds the lowest bin whose rows and all that occur more often have room, and the bin below it
//   keep_hot_rows   gives slots of the cache to the rows of these bins; those of the bin below get the slots that are
//                   left
//
// Invariants. The table of counts has at least twice as many places as the sample has ids, so a probe ends. A row gets
// a slot once: only the lane that reads its place in the table of counts gives it one.
#pragma once
#include "lib/table/row_kernels.cuh"

namespace gravel::detail {

/// Bins of counts: small counts have one each; from `exact` on a bin has counts that differ by less than 1 in 128.
struct count_bins {
  static constexpr uint32_t exact = 256, of_octave = exact / 2, count = 2048;
  GRAVEL_BOTH static uint32_t of(uint32_t times) {
    uint32_t octave = 0;
    while (times >> octave >= exact) ++octave;
    const uint32_t bin = octave * of_octave + (times >> octave);
    return bin < count ? bin : count - 1;
  }
};

/// Device memory in which hot rows are found.
struct hot_row_memory {
  static constexpr uint32_t times_bits = 24;
  static constexpr uint32_t least_times = 2;  ///< a row that occurs less often is not kept
  uint64_t* counts;                           ///< [mask + 1]: row + 1 << times_bits | times; 0: free
  uint64_t mask;
  uint32_t* bins;    ///< [count_bins::count]: rows
  uint32_t* slots;   ///< [2]: the next slot for a row above the chosen bin, and for one of it; at the end, slots given
  uint32_t* bin;     ///< rows of higher bins all have room
  uint64_t* chosen;  ///< [room]: rows, by slot
  uint32_t room;     ///< slots that can be given
};

template <class T>
GRAVEL_DEVICE void set_all(T* to, uint64_t n, T value) {
  for (uint64_t i = uint64_t{blockIdx.x} * row_lanes + threadIdx.x; i < n; i += uint64_t{gridDim.x} * row_lanes)
    to[i] = value;
}
/// `other`: a row for the slots that stay empty.
template <int = 0>
__global__ void __launch_bounds__(row_lanes)
    clear_counts(hot_row_memory m, uint64_t* places, uint64_t n_places, uint64_t other) {
  set_all(m.counts, m.mask + 1, uint64_t{0});
  set_all(m.bins, count_bins::count, 0u);
  set_all(m.chosen, m.room, other);
  set_all(places, n_places, row_cache_view::no_row);
}

/// Counts rows of other PEs among `count` of the ids.
template <class Id>
__global__ void __launch_bounds__(row_lanes)
    count_ids(hot_row_memory m, rows_view table, int me, const Id* ids, uint64_t count, uint64_t distance) {
  const uint64_t lanes = uint64_t{gridDim.x} * row_lanes;
  for (uint64_t i = uint64_t{blockIdx.x} * row_lanes + threadIdx.x; i < count; i += lanes) {
    const auto row = static_cast<uint64_t>(ids[i * distance]);
    if (!table.has(row) || table.owner(row) == me) continue;
    const uint64_t once = (row + 1) << hot_row_memory::times_bits | 1;
    for (uint64_t at = row_cache_view::first_place(row);; ++at) {
      uint64_t* const place = &m.counts[at & m.mask];
      uint64_t found = load_relaxed<scope::device>(place);
      if (found == 0) found = swap_acquire<scope::device>(place, uint64_t{0}, once);
      if (found == 0) break;
      if (found >> hot_row_memory::times_bits != row + 1) continue;
      fetch_add<scope::device>(place, uint64_t{1});
      break;
    }
  }
}

/// Calls visit(row, times) for each row that occurs often enough to be kept.
template <class F>
GRAVEL_DEVICE void for_counted_rows(const hot_row_memory& m, F visit) {
  const uint64_t lanes = uint64_t{gridDim.x} * row_lanes;
  for (uint64_t i = uint64_t{blockIdx.x} * row_lanes + threadIdx.x; i <= m.mask; i += lanes) {
    const uint64_t word = m.counts[i];
    const auto times = static_cast<uint32_t>(word & ((1u << hot_row_memory::times_bits) - 1));
    if (times >= hot_row_memory::least_times) visit((word >> hot_row_memory::times_bits) - 1, times);
  }
}

template <int = 0>
__global__ void __launch_bounds__(row_lanes) count_counts(hot_row_memory m) {
  __shared__ uint32_t bins[count_bins::count];
  for (uint32_t b = threadIdx.x; b < count_bins::count; b += row_lanes) store_relaxed<scope::shared>(&bins[b], 0u);
  __syncthreads();
  for_counted_rows(m, [&](uint64_t, uint32_t times) { fetch_add<scope::shared>(&bins[count_bins::of(times)], 1u); });
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < count_bins::count; b += row_lanes)
    if (bins[b]) fetch_add<scope::device>(&m.bins[b], bins[b]);
}

/// One block.
template <int = 0>
__global__ void __launch_bounds__(row_lanes) choose_bin(hot_row_memory m) {
  __shared__ uint32_t bins[count_bins::count];
  for (uint32_t b = threadIdx.x; b < count_bins::count; b += row_lanes) bins[b] = m.bins[b];
  __syncthreads();
  if (threadIdx.x != 0) return;
  uint32_t above = 0, bin = count_bins::count - 1;
  while (bin > 0 && above + bins[bin] <= m.room) above += bins[bin--];
  *m.bin = bin;
  m.slots[0] = 0;
  m.slots[1] = above;
}

template <int = 0>
__global__ void __launch_bounds__(row_lanes) keep_hot_rows(hot_row_memory m, uint64_t* places, uint64_t mask) {
  const uint32_t chosen = *m.bin;
  for_counted_rows(m, [&](uint64_t row, uint32_t times) {
    const uint32_t bin = count_bins::of(times);
    if (bin < chosen) return;
    const uint32_t slot = fetch_add<scope::device>(&m.slots[bin == chosen], 1u);
    if (slot >= m.room) return;
    m.chosen[slot] = row;
    const uint64_t word = row << row_cache_view::slot_bits | slot;
    uint64_t at = row_cache_view::first_place(row);
    while (!compare_swap_acquire<scope::device>(&places[at & mask], row_cache_view::no_row, word)) ++at;
  });
}

}  // namespace gravel::detail
