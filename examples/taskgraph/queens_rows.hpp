// A board with queens in its first rows, which both versions and the oracle have in common.
#pragma once
#include <cstdint>

#include <gravel/gravel.cuh>

constexpr uint32_t most_columns = 20;

struct board {
  uint32_t n, serial_rows;  ///< rows at the end that one warp counts
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
  GRAVEL_BOTH uint32_t free(const board& b) const {
    return ~(columns | left_diagonals | right_diagonals) & ((1u << b.n) - 1);
  }
  GRAVEL_BOTH placement with(uint32_t bit) const {
    return {columns | bit, (left_diagonals | bit) << 1, (right_diagonals | bit) >> 1};
  }
};

/// Of a row above, whose placement has been taken further: what has not been tried yet.
struct alignas(16) open_row {
  placement at;
  uint32_t untried;
};
/// What is still to be counted of the placements of all rows that begin with certain ones, depth first.
struct queens_search {
  const board& b;
  open_row* above;  ///< [most_columns]; a variable of its own: so all else lies in registers
  placement at{};
  uint32_t free = 0;              ///< of `at`, what has not been tried yet
  uint32_t first = 0, depth = 0;  ///< of the rows above those that are open
  uint64_t found = 0;

  GRAVEL_BOTH void begin(const placement& from) {
    at = from;
    free = from.free(b);
    first = depth = 0;
  }
  GRAVEL_BOTH bool is_done() const { return free == 0 && first == depth; }
  GRAVEL_BOTH void step() {
    if (free == 0) {
      if (first == depth) return;
      at = above[--depth].at;
      free = above[depth].untried;
    }
    const placement next = at.with(free & (0 - free));
    free &= free - 1;
    if (next.left(b) == 0) {
      ++found;
      return;
    }
    if (free != 0) above[depth++] = {at, free};
    at = next;
    free = next.free(b);
  }
  /// One with fewer rows is not worth the way.
  GRAVEL_BOTH bool can_give() const { return first != depth && above[first].at.left(b) > 4; }
  /// A placement that is then another one's to count: of the first row that is open.
  GRAVEL_BOTH placement give() {
    open_row row = above[first];
    const placement next = row.at.with(row.untried & (0 - row.untried));
    row.untried &= row.untried - 1;
    if (row.untried == 0) ++first;
    else above[first] = row;
    return next;
  }
};

inline uint64_t count_below(const board& b, const placement& from) {
  if (from.left(b) == 0) return 1;
  open_row above[most_columns];
  queens_search search{b, above};
  for (search.begin(from); !search.is_done();) search.step();
  return search.found;
}

/// The same by a warp: a lane that is done gets something of another one. Thread scope: the warp, converged.
GRAVEL_DEVICE uint64_t count_together(const board& b, const placement& from) {
  const gravel::lane_group warp = gravel::lane_group::of(~0u);
  if (from.left(b) == 0) return 1;
  open_row above[most_columns];
  queens_search search{b, above};
  if (warp.is_leader()) search.begin(from);
  for (;;) {
    for (uint32_t i = 0; i != 16; ++i) search.step();
    const bool done = search.is_done(), gives = search.can_give();
    const uint32_t takers = warp.ballot(done), givers = warp.ballot(gives);
    if (takers == ~0u) return warp.sum(search.found);
    if (takers == 0 || givers == 0) continue;
    // The k-th of those that are done gets something of the k-th who can give.
    uint32_t others = givers;
    for (uint32_t k = warp.rank_in(takers); k != 0; --k) others &= others - 1;
    placement handed;
    if (gives && warp.rank_in(givers) < warp.popcount(takers)) handed = search.give();
    const uint32_t giver = others != 0 ? warp.lowest(others) : 0;
    handed = {warp.from_lane(handed.columns, giver), warp.from_lane(handed.left_diagonals, giver),
              warp.from_lane(handed.right_diagonals, giver)};
    if (done && others != 0) search.begin(handed);
  }
}
