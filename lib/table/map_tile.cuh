// Some items of a block, ordered in shared memory by the list to which they go.
//
// Problem. If each lane takes a place in its list and stores its item there, lanes wait for each other's atomics, and
// each item is a store of its own.
//
// Solution. The block counts the items for each list in shared memory, takes places for all items of a list at once,
// orders the items by list, and stores them: lanes beside each other store items beside each other. What the stores
// need of a list is computed once for all of its items.
#pragma once
#include <algorithm>
#include <type_traits>

#include "lib/table/map_messages.cuh"

namespace gravel::detail {

template <uint32_t KEY, uint32_t VALUE>
struct map_item_words {
  map_words<KEY> key;
  map_words<VALUE> value;
};
/// An item of a map as it lies in a list.
template <uint32_t KEY, uint32_t VALUE>
struct alignas(sizeof(map_item_words<KEY, VALUE>) % 16 == 0 ? 16 : alignof(map_item_words<KEY, VALUE>)) map_item
    : map_item_words<KEY, VALUE> {};

/// 16 bytes of an item.
struct alignas(16) map_item_unit {
  uint32_t word[4];
};

/// @tparam Item what is dealt
/// @tparam LANES lanes of the block: whole warps
/// @tparam HALVES items that the lanes have, in halves of those for which there is shared memory: 2, or up to 4 for
///   lanes that deal only some of their items. If there is no room for all of them, they are stored in two rounds
/// @tparam KIB shared memory of the items
template <class Item, uint32_t LANES, uint32_t HALVES = 2, uint32_t KIB = 64>
class map_tile {
  /// What a lane stores at once. Lanes beside each other store units beside each other.
  using unit = std::conditional_t<alignof(Item) % 16 == 0, map_item_unit,
                                  std::conditional_t<alignof(Item) % 8 == 0, uint64_t, uint32_t>>;
  static constexpr uint32_t units = sizeof(Item) / sizeof(unit);  ///< of an item

 public:
  static constexpr uint32_t lanes = LANES, none = ~0u;
  static constexpr uint32_t most_bins = GRAVEL_CUDA ? 2048 : 16;  ///< lists to which a block deals at once
  /// Items for which there is shared memory: of the block, and of a lane.
  static constexpr uint32_t room_of_lane = GRAVEL_CUDA ? std::min<uint32_t>((KIB << 10) / sizeof(Item) / LANES, 8) : 4;
  static constexpr uint32_t room = LANES * room_of_lane;
  static constexpr uint32_t per_lane = room_of_lane * HALVES / 2;  ///< items of a lane
  static constexpr uint32_t items = LANES * per_lane;              ///< of the block
  static_assert(per_lane > 0 && items <= 1 << 16 && most_bins <= 1 << 16 && LANES % 32 == 0);

  /// Returns the shared memory that a tile takes: a multiple of 16.
  GRAVEL_BOTH static constexpr uint32_t bytes(uint32_t bins) {
    return (room * (sizeof(Item) + sizeof(uint16_t)) + bins * (sizeof(Item*) + 2 * sizeof(uint32_t)) + 16 + 15) / 16 *
           16;
  }

  /// @param shared bytes(bins) of shared memory, aligned to 16
  GRAVEL_DEVICE map_tile(char* shared, uint32_t bins)
      : items_(reinterpret_cast<Item*>(shared)),
        runs_(reinterpret_cast<Item**>(shared + room * sizeof(Item))),
        counts_(reinterpret_cast<uint32_t*>(runs_ + bins)),
        firsts_(counts_ + bins),
        taken_(firsts_ + bins),
        bin_of_(reinterpret_cast<uint16_t*>(taken_ + 1)),
        bins_(bins) {}

  /// Deals items. Thread scope: block.
  /// @param mine items of this lane
  /// @param bin the list of each: below the number of bins; none: there is no item
  /// @param tails [bins], device memory: places that are taken in each list
  /// @param list_room items of a list: a number, or list_room(bin) in any lane
  /// @param list_of list_of(bin) returns where a list begins, in any lane
  /// @param insert insert(bin, item) inserts an item whose list is full, in any lane
  template <class Room, class List, class Insert>
  GRAVEL_DEVICE void deal(const Item (&mine)[per_lane], const uint32_t (&bin)[per_lane], uint32_t* tails,
                          const Room& list_room, const List& list_of, const Insert& insert) const {
    for (uint32_t b = threadIdx.x; b < bins_; b += LANES) counts_[b] = 0;
    if (threadIdx.x == 0) *taken_ = 0;
    __syncthreads();
    uint32_t ranked[per_lane];  // bin and rank among the tile's items of this bin
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      ranked[k] = none;
      if (bin[k] != none) ranked[k] = bin[k] << 16 | fetch_add<scope::shared>(&counts_[bin[k]], 1u);
    }
    __syncthreads();
    take_places(tails, list_room, list_of);
    __syncthreads();
    const uint32_t n = *taken_;
    store_round(mine, ranked, 0, n, insert);
    if constexpr (items > room)
      if (n > room) store_round(mine, ranked, room, n, insert);
  }

 private:
  /// Orders the items from `begin` on, as many as fit, and stores them; n: all of the block.
  template <class Insert>
  GRAVEL_DEVICE void store_round(const Item (&mine)[per_lane], const uint32_t (&ranked)[per_lane], uint32_t begin,
                                 uint32_t n, const Insert& insert) const {
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < per_lane; ++k) {
      if (ranked[k] == none) continue;
      const uint32_t b = ranked[k] >> 16, at = firsts_[b] + (ranked[k] & 0xffff) - begin;
      if (items > room && at >= room) continue;
      items_[at] = mine[k];
      bin_of_[at] = static_cast<uint16_t>(b);
    }
    __syncthreads();
    const uint32_t count = n - begin < room ? n - begin : room;
    for (uint32_t u = threadIdx.x; u < count * units; u += LANES) {
      const uint32_t i = u / units, of_item = u % units, b = bin_of_[i];
      if (begin + i < counts_[b])
        reinterpret_cast<unit*>(runs_[b] + (begin + i))[of_item] = reinterpret_cast<const unit*>(items_)[u];
      else if (of_item == 0) insert(b, items_[i]);
    }
    __syncthreads();
  }
  /// Chooses where the items of each bin begin, in the tile and in the list. Then runs_[b] + i is the place of item i
  /// of the tile, if it is of bin b, and counts_[b] is the first i for which the list has no place.
  template <class Room, class List>
  GRAVEL_DEVICE void take_places(uint32_t* tails, const Room& list_room, const List& list_of) const {
    constexpr uint32_t rounds = (most_bins + LANES - 1) / LANES;
    const uint32_t lane = threadIdx.x % 32, of_warp = threadIdx.x - lane;
    uint32_t place[rounds];  // all are requested before the first one is used
    GRAVEL_UNROLL
    for (uint32_t r = 0; r < rounds; ++r) {
      place[r] = 0;
      if (r * LANES + of_warp >= bins_) continue;
      const uint32_t b = r * LANES + threadIdx.x, count = b < bins_ ? counts_[b] : 0;
      if (count != 0) place[r] = fetch_add<scope::device>(&tails[b], count);
      uint32_t sum = count;  // of the warp's bins up to this one
      GRAVEL_UNROLL
      for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t before = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += before;
      }
      uint32_t first = 0;
      if (lane == 31) first = fetch_add<scope::shared>(taken_, sum);
      first = __shfl_sync(~0u, first, 31);
      if (b < bins_) firsts_[b] = first + sum - count;
    }
    GRAVEL_UNROLL
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t b = r * LANES + threadIdx.x;
      if (b >= bins_) continue;
      const uint32_t first = firsts_[b], list_size = room_of(list_room, b),
                     left = place[r] < list_size ? list_size - place[r] : 0;
      runs_[b] = list_of(b) + place[r] - first;
      if (counts_[b] > left) counts_[b] = left;
      counts_[b] += first;
    }
  }

  template <class Room>
  GRAVEL_DEVICE static uint32_t room_of(const Room& list_room, uint32_t bin) {
    if constexpr (std::is_integral_v<Room>) return list_room;
    else return list_room(bin);
  }

  Item* items_;
  Item** runs_;                          ///< of each bin: see take_places()
  uint32_t *counts_, *firsts_, *taken_;  ///< items of each bin; where they begin here; all
  uint16_t* bin_of_;                     ///< of each item here
  uint32_t bins_;
};

}  // namespace gravel::detail
