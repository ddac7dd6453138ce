// Symmetric memory of the collectives of kernels (device/collective.cuh), behind each PE's symmetric heap.
#pragma once
#include <cstdint>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Each word has one writer: flag[k] the PE 2^k before this one, a slot the PE whose number it has, the epoch this PE.
struct block_scratch {
  static constexpr uint32_t rounds = 16;
  static constexpr uint32_t values = 16;  ///< of each PE in one step
  static_assert(max_pes <= 1u << rounds);

  uint64_t epoch;      ///< barriers begun by this PE
  uint64_t grids_met;  ///< barriers of grids passed by this PE; another word than the one that all blocks add to
  uint64_t spare[6];
  alignas(64) uint64_t arrived;  ///< blocks of the grid that have come to the next of these
  uint64_t spare_too[7];
  uint64_t
      flag[rounds];  ///< [k]: epoch << 8 | other_call, so that PEs which call different things find out; only grows

  /// What PE `pe` contributes under this epoch. Two sets take turns: who writes the next but one has passed the barrier
  /// of the next, which nobody entered before he had read the first.
  GRAVEL_BOTH uint64_t* slot(uint64_t under, uint32_t pe, uint32_t n_pes) {
    return reinterpret_cast<uint64_t*>(this + 1) + ((under & 1) * n_pes + pe) * values;
  }
  GRAVEL_BOTH static uint64_t bytes(uint32_t n_pes) {
    return sizeof(block_scratch) + 2ull * n_pes * values * sizeof(uint64_t);
  }
};
static_assert(sizeof(block_scratch) == 256);

}  // namespace gravel::detail
