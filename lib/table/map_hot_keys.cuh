// A cache of hot keys of a gravel::map, in a block's shared memory.
//
// Problem. Where few keys have most of the items, all lanes of the device update the same few slots of the map, one
// after the other.
//
// Solution. A block has a small table in its shared memory for its whole run. The keys that come first get its slots;
// hot keys are soon among them. Further items of such a key are absorbed: they change its value in the cache. At its
// end the block sends one item for each key of the cache.
//
// Invariant: an item is either absorbed or goes on, never both, so no item is lost or counted twice.
#pragma once
#include "lib/table/map_messages.cuh"

namespace gravel::detail {

template <uint32_t KEY, uint32_t VALUE>
class map_hot_keys {
 public:
  using slots_type = map_slots<KEY, VALUE>;
  using slot_type = typename slots_type::slot_type;

  /// @param shared room for `count` slots in shared memory
  GRAVEL_DEVICE map_hot_keys(char* shared, uint32_t count)
      : slots_(reinterpret_cast<slot_type*>(shared)), count_(count) {}
  /// Empties the cache. Thread scope: block; a barrier must follow.
  GRAVEL_DEVICE void begin() const {
    for (uint32_t i = threadIdx.x; i < count_; i += blockDim.x) slots_[i].state = map_state::free;
  }
  /// Absorbs an item; change(&value) combines it with the value of a key that is there. False: there is no slot for it.
  /// Thread scope: lane, from divergent code.
  template <class Change>
  GRAVEL_DEVICE bool absorb(const map_hash& hash, const map_words<KEY>& key, const map_words<VALUE>& value,
                            const Change& change) const {
    const map_part_probe probe(hash.tag(), hash.pick(count_), count_);
    return slots_type{slots_, count_}.template put<scope::shared>(hash.tag(), probe, most_probes, key, value, change);
  }
  /// Returns the number of slots.
  GRAVEL_DEVICE uint32_t count() const { return count_; }
  /// Returns a slot, behind a barrier.
  GRAVEL_DEVICE const slot_type& slot(uint32_t i) const { return slots_[i]; }

 private:
  static constexpr uint32_t most_probes = 2;
  slot_type* slots_;
  uint32_t count_;
};

}  // namespace gravel::detail
