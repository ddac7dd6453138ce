// How a gravel::map grows before a collective insertion, or before items that come one-sided.
//
// Problem. The slots must suffice before items come, as no item may be lost. But many items may have few different
// keys, and a count of these costs as much as the insertion.
//
// Solution. The map knows a bound of the slots that have keys. If the items of a call do not fit even if all their keys
// are new, a sketch (key_sketch.cuh) estimates how many slots will have keys. If these are more than the load factor
// allows, the map moves into new slots for twice as many items, or several times as many.
//
// Invariants.
// - What the PEs decide depends on sums and maxima of all PEs alone, so all decide the same.
// - The load factor leaves more slots free than the error of the estimate: six standard deviations.
// - Nothing is inserted before the map has grown. If it cannot grow, the map and the call's items are as before.
#pragma once
#include <algorithm>
#include <atomic>
#include <string>

#include "host/pe/collectives.hpp"
#include "lib/table/key_sketch.cuh"

namespace gravel::detail {

/// What a map knows of its load.
template <class Key, class Value>
class map_growth {
 public:
  /// What a call needs.
  struct need {
    uint64_t capacity = 0;  ///< items for which the map must be made; 0: the map is large enough
    uint64_t keys = 0;      ///< that the map will have, about
    uint64_t holders = 0;   ///< PEs that hold the map's slots
  };

  /// Notes that this PE alone inserts items. Any host thread, as the calls up to release().
  void note_items(uint64_t n) { one_sided_ += n; }
  /// Notes that kernels may insert items from now on, of which nobody knows how many.
  void note_view() { has_views_ = true; }
  /// Notes that the map has new slots, or that an insertion was refused. Collective.
  void note_new_slots() { is_known_ = false; }
  /// Notes that no slot has a key. Collective.
  void note_empty() {
    bound_ = 0;
    one_sided_ = 0;
    is_known_ = true;
    is_sketched_ = false;
  }
  /// Notes that the map has new slots for what before() has found to be needed. Collective.
  void note_grown(const need& found) {
    bound_ = with_margin(found.keys);
    is_known_ = is_sketched_ = true;
  }
  /// Holds and releases the slots at this PE.
  void hold() { ++held_; }
  /// False: this PE does not hold the slots.
  bool release() {
    uint32_t now = held_;
    while (now != 0 && !held_.compare_exchange_weak(now, now - 1)) {
    }
    return now != 0;
  }
  /// Returns the number of PEs that hold the slots. Collective.
  uint64_t holders() const { return gravel_sum_all(uint64_t{held_ != 0}); }

  /// Finds out what an insertion of items by all PEs needs. Collective. It waits for the stream if the bound does not
  /// suffice.
  /// @param keys [n], of this PE's items
  /// @param later number of items that this PE alone will insert, by keys that nobody knows yet
  need before(const map_view<Key, Value>& map, const Key* keys, uint64_t n, uint64_t later, gravel_stream_t stream) {
    enum { items_at, later_at, one_sided_at, views_at, holders_at, n_numbers };
    uint64_t all[n_numbers] = {n, later, one_sided_.exchange(0), has_views_, held_ != 0};
    if (map.n_pes > 1) gravel_sum_all(all, all, n_numbers);
    const uint64_t limit = map.n_pes * (map.own.count * 17 / 20);  // a load of 0.85
    const bool is_bounded = is_known_ && all[views_at] == 0;
    need found;
    found.holders = all[holders_at];
    bound_ += all[one_sided_at] + all[items_at];
    if (is_bounded && bound_ + all[later_at] <= limit) {
      is_sketched_ = false;
      return found;
    }
    if (!is_bounded || all[one_sided_at] != 0 || !is_sketched_) start_again(map, true, stream);
    add_keys(keys, n, stream);
    found.keys = sketch_.estimate_all(stream);
    is_known_ = is_sketched_ = true;
    bound_ = with_margin(found.keys);
    found.keys += all[later_at];
    if (found.keys <= limit) return found;
    // Erased keys lose their slots when the map moves.
    start_again(map, false, stream);
    add_keys(keys, n, stream);
    found.keys = sketch_.estimate_all(stream) + all[later_at];
    const uint64_t wanted = with_margin(found.keys);
    found.capacity = map.capacity;
    while (found.capacity - found.capacity / 8 < wanted) found.capacity *= 2;
    note_new_slots();
    return found;
  }

 private:
  static uint64_t with_margin(uint64_t keys) { return keys + keys / 16 + 16; }
  void add_keys(const Key* keys, uint64_t n, gravel_stream_t stream) {
    if (n != 0) launch_alone(sketch_keys<Key>, key_sketch::grid_for(n, stream), sketch_.registers(), keys, n);
  }
  /// Makes a sketch of this PE's slots.
  void start_again(const map_view<Key, Value>& map, bool erased, gravel_stream_t stream) {
    gravel_stream_synchronize(stream);
    sketch_.clear();
    launch_alone(sketch_slots<sizeof(Key), sizeof(Value)>, key_sketch::grid_for(map.own.count, stream),
                 sketch_.registers(), static_cast<const map_slot<sizeof(Key), sizeof(Value)>*>(map.own.slots),
                 map.own.count, erased);
  }

  key_sketch sketch_;
  uint64_t bound_ = 0;                   ///< of the slots of all PEs that have keys, but for one_sided_
  std::atomic<uint64_t> one_sided_ = 0;  ///< items that this PE alone has inserted since the last call
  bool is_known_ = true;                 ///< bound_ is valid
  bool is_sketched_ = true;              ///< the sketches of all PEs have all keys
  std::atomic<bool> has_views_ = false;  ///< kernels of this PE may insert
  std::atomic<uint32_t> held_ = 0;       ///< times that this PE holds the slots
};

}  // namespace gravel::detail
