// How a collective insertion into a gravel::map is done: when phases (map_phase_kernels.cuh) pay, and how large the
// lists are.
#pragma once
#include <algorithm>
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// When phases pay, and how much memory they take.
struct map_phase_limits {
  /// Phases pay for so many items of a PE. They copy all slots of the table, so they pay if a PE has at least one item
  /// for so many slots.
  static constexpr uint64_t least_items = GRAVEL_CUDA ? uint64_t{1} << 19 : 64, most_slots_of_item = 8;
  /// Memory for lists, in bytes. More items are inserted in chunks.
  static constexpr uint64_t most_list_bytes = GRAVEL_CUDA ? uint64_t{3} << 30 : uint64_t{1} << 15;
  /// Items for other PEs are dealt to so many lists at once, so that a block stores runs of 256 bytes or more.
  static constexpr uint32_t most_remote_bins = GRAVEL_CUDA ? 256 : 8;
  /// As above, if that avoids to deal twice: shorter runs cost less than a second dealing.
  static constexpr uint32_t most_direct_bins = GRAVEL_CUDA ? 1024 : 16;
  /// A block deals to more lists with a larger tile.
  static constexpr uint32_t most_few_bins = GRAVEL_CUDA ? 512 : 8;
  static constexpr uint32_t most_item_bytes = 32;  ///< larger items are inserted one by one
  static constexpr uint32_t most_hot_bytes = GRAVEL_CUDA ? 128 << 10 : 1 << 10, least_hot_slots = 16;
  static constexpr uint32_t static_bytes = 1 << 10;  ///< of shared memory, beside the dynamic one
};

/// How a call with `items` of each PE is done. All PEs come to the same.
struct map_phase_plan {
  bool pays = false;
  uint32_t parts = 0, part_shift = 0, groups = 0, group_shift = 0, room = 0, room_of_part = 0;
  uint64_t chunk = 0;  ///< items of a PE that are dealt at once

  /// @param slots of each PE
  /// @param shift logarithm of a part's slots
  /// @param item_bytes bytes of an item
  /// @param pes number of PEs
  /// @param most_bins lists to which a block can deal
  /// @param items of the PE that has most
  static map_phase_plan of(uint64_t slots, uint32_t shift, uint64_t item_bytes, uint32_t pes, uint32_t most_bins,
                           uint64_t items) {
    using limits = map_phase_limits;
    map_phase_plan plan;
    plan.part_shift = shift;
    const uint64_t parts = slots >> shift;
    const bool is_large = items >= limits::least_items && items >= slots / limits::most_slots_of_item;
    if (!is_large || parts < 2 || parts > uint64_t{most_bins} * most_bins) return plan;
    plan.parts = static_cast<uint32_t>(parts);
    const uint32_t most_groups = pes == 1 ? most_bins : std::max(limits::most_remote_bins / pes, 1u);
    const auto groups = [&](uint32_t s) { return static_cast<uint32_t>((parts + (uint64_t{1} << s) - 1) >> s); };
    const bool is_direct = pes > 1 && parts * pes <= limits::most_direct_bins;
    if (groups(0) > most_groups && !is_direct)
      while (groups(plan.group_shift) > most_groups ||
             (pes == 1 ? 2 : 1) * (uint64_t{1} << 2 * plan.group_shift) < parts)
        ++plan.group_shift;
    plan.groups = groups(plan.group_shift);
    if (uint64_t{1} << plan.group_shift > most_bins || uint64_t{plan.groups} * pes > most_bins) return plan;
    // A list has room for a quarter more than the mean.
    const uint64_t dealings = plan.group_shift ? 2 : 1;
    // Each chunk copies all slots: so a chunk of a large table has some items for each of them.
    const uint64_t list_bytes = std::max(limits::most_list_bytes, slots * item_bytes);
    const uint64_t most = std::max<uint64_t>(list_bytes / (item_bytes * dealings * 5 / 4), 1);
    const uint64_t chunks = (items + most - 1) / most;
    plan.chunk = (items + chunks - 1) / chunks;
    plan.room = room_for((plan.chunk << plan.group_shift) / parts / pes);
    plan.room_of_part = plan.group_shift ? room_for(plan.chunk / parts) : 0;
    plan.pays = true;
    return plan;
  }
  uint64_t items_of_groups(uint64_t pes) const { return pes * groups * room; }
  uint64_t items_of_parts() const { return (uint64_t{groups} << group_shift) * room_of_part; }
  uint64_t words(uint64_t pes) const { return pes * groups + (uint64_t{groups} << group_shift) + parts + 1; }

 private:
  static uint32_t room_for(uint64_t mean) { return static_cast<uint32_t>(mean + mean / 4 + 16); }
};

}  // namespace gravel::detail
