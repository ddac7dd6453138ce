// The symmetric memory of collectives in kernels (device/collective.cuh), behind each PE's symmetric heap.
#pragma once
#include <cstdint>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The words of these collectives. Each word has one writer: PE - 2^k writes flag[k], each PE writes the slots with its
/// number, and this PE writes the epoch.
struct block_scratch {
  static constexpr uint32_t rounds = 16;
  static constexpr uint32_t values = 16;  ///< values of each PE in one step
  static_assert(max_pes <= 1u << rounds);

  uint64_t epoch;  ///< barriers that this PE has begun
  /// Barriers of grids that this PE has passed. Not the word to which all blocks add.
  uint64_t grid_barriers;
  uint64_t spare[6];
  alignas(64) uint64_t arrived;  ///< blocks of the grid that have come to the next of these barriers
  uint64_t spare_too[7];
  /// [k]: epoch << 8 | other_call, so that PEs that call different collectives find out. Only grows.
  uint64_t flag[rounds];

  /// The values that PE `pe` contributes in this epoch. Two sets alternate. A PE that writes a set again has passed the
  /// barrier of the epoch in between, and no PE enters that barrier before it has read the set.
  GRAVEL_BOTH uint64_t* slot(uint64_t under, uint32_t pe, uint32_t n_pes) {
    return reinterpret_cast<uint64_t*>(this + 1) + ((under & 1) * n_pes + pe) * values;
  }
  GRAVEL_BOTH static uint64_t bytes(uint32_t n_pes) {
    return sizeof(block_scratch) + 2ull * n_pes * values * sizeof(uint64_t);
  }
};
static_assert(sizeof(block_scratch) == 256);

}  // namespace gravel::detail
