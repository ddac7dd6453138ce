// The symmetric memory of collectives in kernels (device/collective.cuh), behind each PE's symmetric heap. Each team of
// PEs has one, so that kernels of different teams may run collectives at the same time.
#pragma once
#include <cstdint>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/team.hpp"

namespace gravel::detail {

/// The words of a team's collectives. Each word has one writer: member - 2^k writes flag[k], each member writes the
/// slots with its number, this PE writes the epoch, and its host the team.
struct block_scratch {
  static constexpr uint32_t rounds = 16;
  static constexpr uint32_t teams = 32;  ///< of a PE at a time: the job, its node, its mapped peers, and splits
  static constexpr uint32_t fixed_teams = 3;
  static constexpr uint32_t least_slot = 128, slots_together = 32768;  ///< bytes
  static_assert(max_pes <= 1u << rounds);

  uint64_t epoch;  ///< rendezvous that this PE has begun
  /// Barriers of grids that this PE has passed. Not the word to which all blocks add.
  uint64_t grid_barriers;
  gravel_team_t team;  ///< the team to which the memory belongs; n_pes is 0 if there is none
  uint64_t spare[2];
  alignas(64) uint64_t arrived;  ///< blocks of the grid that have come to the next of these barriers
  uint64_t spare_too[7];
  /// [k]: epoch << 16 | arguments << 8 | other_call, so that PEs that call different collectives find out. Only grows.
  uint64_t flag[rounds];

  /// Bytes that a member contributes in one step.
  GRAVEL_BOTH static uint32_t slot_bytes(uint32_t n_pes) {
    const uint32_t each = slots_together / n_pes / least_slot * least_slot;
    return each < least_slot ? least_slot : each;
  }
  /// What member `of` contributes in this epoch, in a job of `n_pes` PEs. Two sets alternate. A PE that writes a set
  /// again has passed the rendezvous of the epoch in between, and no PE enters that rendezvous before it has read the
  /// set.
  GRAVEL_BOTH char* slot(uint64_t under, uint32_t of, uint32_t n_pes) {
    return reinterpret_cast<char*>(this + 1) + ((under & 1) * n_pes + of) * slot_bytes(n_pes);
  }
  /// [member]: its PE in the job, of a team whose stride is 0.
  GRAVEL_BOTH uint32_t* members(uint32_t n_pes) { return reinterpret_cast<uint32_t*>(slot(0, 2 * n_pes, n_pes)); }
  GRAVEL_BOTH static uint64_t bytes(uint32_t n_pes) {
    return sizeof(block_scratch) + 2ull * n_pes * slot_bytes(n_pes) + (n_pes * sizeof(uint32_t) + 255) / 256 * 256;
  }
  /// The memory of team `id` beside that of the job, which is `first`.
  GRAVEL_BOTH static block_scratch* of(block_scratch* first, uint32_t id, uint32_t n_pes) {
    return reinterpret_cast<block_scratch*>(reinterpret_cast<char*>(first) + id * bytes(n_pes));
  }
};
static_assert(sizeof(block_scratch) == 256);

}  // namespace gravel::detail
