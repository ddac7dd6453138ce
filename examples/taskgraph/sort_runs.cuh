// Keys that are sorted between two arrays, and what a warp does with some of them at once: the leaves of the recursion,
// which both versions have in common.
#pragma once
#include <cstdint>

#include <gravel/gravel.cuh>

constexpr uint32_t keys_of_lane = GRAVEL_CUDA ? 32 : 4, sorted_at_once = 32 * keys_of_lane,
                   most_pieces = GRAVEL_CUDA ? 1024 : 16;

struct sort_keys {
  uint32_t *a, *b;  ///< what lies in `a` is sorted; `b` is for merging
  uint32_t piece;   ///< of a merge: keys that a warp merges at once

  /// As tasks: pieces of a merge of n keys, and results that sorting n keys brings.
  GRAVEL_BOTH uint32_t pieces(uint32_t n) const {
    const uint32_t all = (n + piece - 1) / piece;
    return all < most_pieces ? all : most_pieces;
  }
  GRAVEL_BOTH uint32_t results(uint32_t n) const { return n <= sorted_at_once ? 1 : pieces(n); }
};

/// Sorts n <= sorted_at_once keys, in registers: a bitonic network, in which key k of a lane is number lane *
/// keys_of_lane + k. Not inlined: workers then need 162 registers instead of 226. Thread scope: warp.
__device__ GRAVEL_NOINLINE inline void sort_at_once(uint32_t* keys, uint32_t n) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t key[keys_of_lane];
  GRAVEL_UNROLL
  for (uint32_t k = 0; k < keys_of_lane; ++k) key[k] = k * 32 + lane < n ? keys[k * 32 + lane] : ~0u;
  __syncwarp();  // all are read
  GRAVEL_UNROLL
  for (uint32_t log_size = 1; 1u << log_size <= sorted_at_once; ++log_size) {
    GRAVEL_UNROLL
    for (uint32_t step = 0; step < log_size; ++step) {
      const uint32_t size = 1u << log_size, distance = size >> (step + 1);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < keys_of_lane; ++k) {
        const bool up = ((lane * keys_of_lane + k) & size) == 0;
        if (distance >= keys_of_lane) {
          const uint32_t lanes = distance / keys_of_lane;
          const uint32_t other = __shfl_xor_sync(~0u, key[k], static_cast<int>(lanes));
          if ((key[k] > other) == (up == ((lane & lanes) == 0))) key[k] = other;
        } else if ((k & distance) == 0) {
          const uint32_t x = key[k], y = key[k + distance];
          const bool swap = (x > y) == up;
          key[k] = swap ? y : x;
          key[k + distance] = swap ? x : y;
        }
      }
    }
  }
  GRAVEL_UNROLL
  for (uint32_t k = 0; k < keys_of_lane; ++k)
    if (lane * keys_of_lane + k < n) keys[lane * keys_of_lane + k] = key[k];
}

/// How many of the first `n` keys of two merged runs come from the first one. Of equal keys those of the first run go
/// first. The answer is from `low` to `high`; 32 lanes with neighbouring `lane`, or one with 0, look at once.
template <class Votes>
GRAVEL_DEVICE uint32_t from_first_run(const uint32_t* a, uint32_t na, const uint32_t* b, uint32_t nb, uint32_t n,
                                      uint32_t lane, uint32_t lanes, Votes votes) {
  uint32_t low = n > nb ? n - nb : 0, high = n < na ? n : na;
  while (low < high) {
    const uint32_t step = (high - low + lanes - 1) / lanes, at = low + lane * step;
    const uint32_t yes = votes(at < high && a[at] <= b[n - 1 - at]);
    high = low + yes * step < high ? low + yes * step : high;
    if (yes) low += (yes - 1) * step + 1;
  }
  return low;
}

/// Keys `begin` to `end` of what comes out when a[0, na) and b[0, nb) are merged, into to[begin, end). Thread scope:
/// warp.
GRAVEL_DEVICE void merge_piece(const uint32_t* a, uint32_t na, const uint32_t* b, uint32_t nb, uint32_t* to,
                               uint32_t begin, uint32_t end) {
  const uint32_t lane = threadIdx.x % 32;
  const auto by_warp = [](bool vote) { return static_cast<uint32_t>(__popc(__ballot_sync(~0u, vote))); };
  const uint32_t a_begin = from_first_run(a, na, b, nb, begin, lane, 32, by_warp);
  const uint32_t a_end = from_first_run(a, na, b, nb, end, lane, 32, by_warp);
  a += a_begin;
  na = a_end - a_begin;
  b += begin - a_begin;
  nb = end - begin - na;
  // Each lane has a part of the piece.
  const uint32_t n = end - begin, each = (n + 31) / 32;
  const uint32_t first = lane * each < n ? lane * each : n, last = first + each < n ? first + each : n;
  uint32_t i = from_first_run(a, na, b, nb, first, 0, 1, [](bool vote) { return static_cast<uint32_t>(vote); }),
           j = first - i;
  uint32_t x = i < na ? a[i] : 0, y = j < nb ? b[j] : 0;
  to += begin;
  for (uint32_t at = first; at < last; ++at) {
    if (j == nb || (i < na && x <= y)) {
      to[at] = x;
      if (++i < na) x = a[i];
    } else {
      to[at] = y;
      if (++j < nb) y = b[j];
    }
  }
}
