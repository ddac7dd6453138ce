// A board with queens in its first rows, which both versions and the oracle have in common.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

constexpr uint32_t most_columns = 20;

struct board {
  uint32_t n, serial_rows;  ///< rows at the end that one lane counts
};

/// Bits of the next row: columns, and both diagonals, that are under attack.
struct placement {
  uint32_t columns = 0, left_diagonals = 0, right_diagonals = 0;

  GRAVEL_BOTH static uint32_t count(uint32_t bits) {
#if GRAVEL_ON_GPU
    return static_cast<uint32_t>(__popc(bits));
#else
    return static_cast<uint32_t>(__builtin_popcount(bits));
#endif
  }
  GRAVEL_BOTH uint32_t left(const board& b) const { return b.n - count(columns); }
  GRAVEL_BOTH uint32_t free(const board& b) const { return ~(columns | left_diagonals | right_diagonals) & ((1u << b.n) - 1); }
  GRAVEL_BOTH placement with(uint32_t bit) const { return {columns | bit, (left_diagonals | bit) << 1, (right_diagonals | bit) >> 1}; }
};

/// Placements of all rows that begin with these, counted by one lane.
GRAVEL_BOTH uint64_t count_below(const board& b, placement at) {
  const uint32_t all = (1u << b.n) - 1;
  if (at.columns == all) return 1;
  placement above[most_columns];
  uint32_t untried[most_columns], depth = 0, free = at.free(b);
  uint64_t found = 0;
  for (;;) {
    if (free == 0) {
      if (depth == 0) return found;
      at = above[--depth];
      free = untried[depth];
      continue;
    }
    const uint32_t bit = free & (0 - free);
    free &= free - 1;
    if ((at.columns | bit) == all) {
      ++found;
      continue;
    }
    above[depth] = at;
    untried[depth++] = free;
    at = at.with(bit);
    free = at.free(b);
  }
}
