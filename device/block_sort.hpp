// Whole-block sort and scan: CUB on the GPU; on the CPU the lanes meet and the last one does the work.
// Blocks are one-dimensional with exactly BLOCK lanes, all of which take part. Between two uses of one
// storage, which is in shared memory, comes a __syncthreads().
#pragma once
#include <cstdint>
#include <cstring>

#include "device/simt.hpp"
#include "lib/base/platform.hpp"

#if GRAVEL_CUDA
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#endif

namespace gravel {

#if GRAVEL_CUDA

template <int BLOCK, int ITEMS>
struct block_sort {
  using sorter = cub::BlockRadixSort<uint32_t, BLOCK, ITEMS>;
  struct storage {
    typename sorter::TempStorage temp;
  };
  /// Sorts the block's BLOCK * ITEMS keys by bits [begin_bit, end_bit), ascending and stable. Lane t holds
  /// the keys ITEMS * t to ITEMS * t + ITEMS - 1 of the sequence, before and after.
  __device__ __forceinline__ static void sort(storage& s, uint32_t (&keys)[ITEMS], int begin_bit,
                                              int end_bit) {
    if (begin_bit < end_bit) sorter(s.temp).Sort(keys, begin_bit, end_bit);
  }
};

template <int BLOCK>
struct block_scan_storage {
  typename cub::BlockScan<uint32_t, BLOCK>::TempStorage temp;
};
/// The sum of the values of the lanes before this one; `total` becomes the sum of all.
template <int BLOCK>
__device__ __forceinline__ uint32_t block_scan_exclusive(block_scan_storage<BLOCK>& s, uint32_t value,
                                                         uint32_t& total) {
  uint32_t before;
  cub::BlockScan<uint32_t, BLOCK>(s.temp).ExclusiveSum(value, before, total);
  return before;
}

#else

namespace detail {
/// Stable radix sort by bits [begin_bit, end_bit), up to eight of them a pass. The result ends up in `keys`.
inline void radix_sort(uint32_t* keys, uint32_t* scratch, uint32_t count, int begin_bit, int end_bit) {
  uint32_t *from = keys, *to = scratch;
  for (int bit = begin_bit; bit < end_bit; bit += 8) {
    const int bits = end_bit - bit < 8 ? end_bit - bit : 8;
    const uint32_t digits = 1u << bits, mask = digits - 1;
    uint32_t place[257] = {};
    for (uint32_t i = 0; i < count; ++i) ++place[(from[i] >> bit & mask) + 1];
    for (uint32_t d = 1; d < digits; ++d) place[d] += place[d - 1];
    for (uint32_t i = 0; i < count; ++i) to[place[from[i] >> bit & mask]++] = from[i];
    uint32_t* const other = from;
    from = to;
    to = other;
  }
  if (from != keys) std::memcpy(keys, from, count * sizeof *keys);
}
}  // namespace detail

template <int BLOCK, int ITEMS>
struct block_sort {
  struct storage {
    uint32_t keys[BLOCK * ITEMS], scratch[BLOCK * ITEMS];
    int begin_bit, end_bit;
  };
  static void sort(storage& s, uint32_t (&keys)[ITEMS], int begin_bit, int end_bit) {
    if (begin_bit >= end_bit) return;
    uint32_t* const mine = s.keys + simt::detail::block_lane(BLOCK, "block_sort") * ITEMS;
    for (int i = 0; i < ITEMS; ++i) mine[i] = keys[i];
    s.begin_bit = begin_bit;
    s.end_bit = end_bit;
    simt::detail::block_rendezvous(
        BLOCK, "block_sort",
        [](void* object) {
          storage& all = *static_cast<storage*>(object);
          detail::radix_sort(all.keys, all.scratch, BLOCK * ITEMS, all.begin_bit, all.end_bit);
        },
        &s);
    for (int i = 0; i < ITEMS; ++i) keys[i] = mine[i];
  }
};

template <int BLOCK>
struct block_scan_storage {
  uint32_t values[BLOCK], total;
};
template <int BLOCK>
uint32_t block_scan_exclusive(block_scan_storage<BLOCK>& s, uint32_t value, uint32_t& total) {
  const uint32_t lane = simt::detail::block_lane(BLOCK, "block_scan_exclusive");
  s.values[lane] = value;
  simt::detail::block_rendezvous(
      BLOCK, "block_scan_exclusive",
      [](void* object) {
        auto& all = *static_cast<block_scan_storage<BLOCK>*>(object);
        all.total = 0;
        for (uint32_t& v : all.values) {
          const uint32_t before = all.total;
          all.total += v;
          v = before;
        }
      },
      &s);
  total = s.total;
  return s.values[lane];
}

#endif

}  // namespace gravel
