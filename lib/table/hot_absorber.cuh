// Absorbs additions to hot keys in a block's shared memory, as long as that pays.
//
// Problem. Where few keys have most of the items, all blocks add to the same few words, one after the other. Where no
// key is hot, a look into a cache for each item would cost time for nothing.
//
// Solution. Each lane offers its first items to the block's cache of hot keys (map_hot_keys.cuh) and counts how many
// find their key there. It goes on only if these were a quarter of the block's. At its end the block sends one item for
// each key of the cache.
//
// Invariant: an item is either absorbed or sent by the caller, whatever the lanes of a block decide, and when.
//
// Pairs of elements of 16 bits are added up in float (pair_sum), and rounded once, when the block sends their sum.
#pragma once
#include <type_traits>

#include "lib/base/element.hpp"
#include "lib/table/map_hot_keys.cuh"

namespace gravel::detail {

/// What a cache adds up for a pair of elements of 16 bits.
struct pair_sum {
  float first, second;

  template <class T>
  GRAVEL_BOTH static pair_sum of(uint32_t pair) {
    return {element<T>::widen({static_cast<uint16_t>(pair)}), element<T>::widen({static_cast<uint16_t>(pair >> 16)})};
  }
  template <class T>
  GRAVEL_BOTH uint32_t rounded() const {
    return element<T>::narrow(first).bits | uint32_t{element<T>::narrow(second).bits} << 16;
  }
};

/// The state of a lane, and the shared memory of its block.
/// @tparam Value a number, or pair_sum
template <uint32_t KEY, class Value>
class hot_absorber {
 public:
  using key_type = map_words<KEY>;
  using value_type = map_words<sizeof(Value)>;
  using cache_type = map_hot_keys<KEY, sizeof(Value)>;
  static constexpr uint32_t most_slots = GRAVEL_CUDA ? 512 : 32;

  /// Returns the slots for a kernel whose blocks have so many items each: 0 if these are too few.
  static constexpr uint32_t slots_for(uint64_t items_of_block) {
    return items_of_block < 4 * most_slots ? 0 : most_slots;
  }
  /// Returns the bytes of dynamic shared memory for so many slots.
  static constexpr uint64_t bytes_for(uint32_t slots) {
    return slots ? counts_bytes + slots * sizeof(typename cache_type::slot_type) : 0;
  }

  /// @param slots of slots_for()
  GRAVEL_DEVICE explicit hot_absorber(uint32_t slots)
      : cache_(gravel_dynamic_shared() + counts_bytes, slots), is_on_(slots != 0) {}
  /// Empties the cache. Thread scope: block, converged.
  GRAVEL_DEVICE void begin() {
    if (!is_on_) return;
    cache_.begin();
    if (threadIdx.x == 0) *counts() = {0, 0};
    __syncthreads();
  }
  /// Absorbs an item. False: the caller must send it. Thread scope: lane, from divergent code.
  GRAVEL_DEVICE bool absorb(const key_type& key, const value_type& value) {
    if (!is_on_) return false;
    const bool is_in = cache_.absorb(map_hash(key), key, value, [&](value_type* at) {
      add(at, value);
      ++hits_;
    });
    ++looks_;
    if (looks_ == looks_of_lane) {
      fetch_add<scope::shared>(&counts()->looks, looks_);
      fetch_add<scope::shared>(&counts()->hits, hits_);
    } else if (looks_ == 2 * looks_of_lane) {  // most lanes have added by now
      is_on_ = load_relaxed<scope::shared>(&counts()->hits) * 4 >= load_relaxed<scope::shared>(&counts()->looks);
    }
    return is_in;
  }
  /// Calls send(key, value) for each key of the cache. Thread scope: block, converged.
  template <class Send>
  GRAVEL_DEVICE void end(Send send) const {
    if (cache_.count() == 0) return;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < cache_.count(); i += blockDim.x)
      if (cache_.slot(i).state != map_state::free) send(cache_.slot(i).key, cache_.slot(i).value);
  }

 private:
  static GRAVEL_DEVICE void add(value_type* at, const value_type& value) {
    if constexpr (std::is_same_v<Value, pair_sum>) {
      const auto more = __builtin_bit_cast(pair_sum, value);
      auto* const sum = reinterpret_cast<pair_sum*>(at);
      add_in_shared(&sum->first, more.first);
      add_in_shared(&sum->second, more.second);
    } else {
      add_to_value<map_number_of<Value>, scope::shared>(at, value);
    }
  }
  /// Of the first items of the block's lanes.
  struct first_counts {
    uint32_t looks, hits;
  };
  static constexpr uint32_t counts_bytes = 16, looks_of_lane = 8;
  static GRAVEL_DEVICE first_counts* counts() { return reinterpret_cast<first_counts*>(gravel_dynamic_shared()); }
  cache_type cache_;
  uint32_t looks_ = 0, hits_ = 0;
  bool is_on_;
};

}  // namespace gravel::detail
