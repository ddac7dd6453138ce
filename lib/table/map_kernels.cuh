// Kernels of bulk calls on a gravel::map.
//
// Problem. A key lies at any PE, and keys arrive in any order, also repeated.
//
// Solution. Keys of this PE are served in its own slots (lib/table/map_slots.cuh). Other keys go through the block's
// sender to the owner's handler. Additions to hot keys are absorbed before (hot_absorber.cuh). Where all owners' memory
// is mapped, a find reads their slots by plain loads.
#pragma once
#include "host/mapped_sender.cuh"
#include "lib/table/hot_absorber.cuh"
#include "lib/table/map_view.cuh"

namespace gravel::detail {

constexpr uint32_t map_lanes = 256;  // of a block

/// Calls work(i) for the i from `begin` on, below `end` and `step` apart. The lanes of a warp wait for each other
/// behind each one: otherwise those whose probes are short may run ahead, and neighbours' loads are no longer one.
/// Thread scope: warp, converged.
/// @param begin of this lane; those of a warp's lanes are consecutive
template <class Index, class Work>
GRAVEL_DEVICE void each_by_warps(Index begin, Index end, Index step, const Work& work) {
  const uint32_t lane = threadIdx.x % 32;
  for (Index first = begin - lane; first < end; first += step) {
    if (first + lane < end) work(first + lane);
#if GRAVEL_ON_GPU
    __syncwarp();
#endif
  }
}
/// Calls work(i) for each i below n that is this lane's. Thread scope: warp, converged.
template <class Work>
GRAVEL_DEVICE void each_of_lane(uint64_t n, const Work& work) {
  each_by_warps(uint64_t{blockIdx.x} * map_lanes + threadIdx.x, n, uint64_t{gridDim.x} * map_lanes, work);
}

/// Calls send(key, value) for the n items. Additions to hot keys are absorbed before, in `hot_slots` of hot_absorber.
/// Thread scope: block, converged.
template <map_update HOW, class Key, class Value, class Send>
GRAVEL_DEVICE void send_items(const Key* keys, const Value* values, uint64_t n, [[maybe_unused]] uint32_t hot_slots,
                              const Send& send) {
  using value_words = map_words<sizeof(Value)>;
  const auto key = [&](uint64_t i) { return __builtin_bit_cast(map_words<sizeof(Key)>, keys[i]); };
  if constexpr (HOW == map_update::add) {
    hot_absorber<sizeof(Key), Value> hot(hot_slots);
    hot.begin();
    each_of_lane(n, [&](uint64_t i) {
      const auto value = __builtin_bit_cast(value_words, values[i]);
      if (!hot.absorb(key(i), value)) send(key(i), value);
    });
    hot.end(send);
  } else if constexpr (HOW == map_update::insert) {
    each_of_lane(n, [&](uint64_t i) { send(key(i), __builtin_bit_cast(value_words, values[i])); });
  } else {
    each_of_lane(n, [&](uint64_t i) { send(key(i), value_words{}); });
  }
}

/// Updates the map with n keys that are all this PE's, such as those of a job of one PE. It sends no messages, so it
/// needs no resolver and no sender.
template <map_update HOW, class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    update_lone_map(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
                    const Key* keys, const Value* values, uint64_t n, uint32_t hot_slots) {
  send_items<HOW>(keys, values, n, hot_slots, [&](const auto& key, const auto& value) {
    map.template change_slots<HOW, scope::device>(g, map.own, g.my_pe, key, value);
  });
}

/// Updates a map with n keys.
template <map_update HOW, class Key, class Value>
__global__ void __launch_bounds__(map_lanes) update_map(gravel_t g, map_view<Key, Value> map, const Key* keys,
                                                        const Value* values, uint64_t n, uint32_t hot_slots) {
  using view = map_view<Key, Value>;
  __shared__ gravel_block_sender<map_lanes> sender;
  sender.begin(g);
  send_items<HOW>(keys, values, n, hot_slots, [&](const auto& key, const auto& value) {
    const uint32_t pe = map_hash(key).owner(map.n_pes);
    if (pe == g.my_pe) return map.template change_slots<HOW, scope::device>(g, map.own, pe, key, value);
    sender.template am<map_delivery<view::key_bytes, view::value_bytes>>(static_cast<int>(pe),
                                                                         map.template message_of<HOW>(key, value));
  });
  sender.end();
}

/// Stores what was found for a key.
template <class Value, class Words>
GRAVEL_DEVICE void store_found(Value* to, uint8_t* found, const Words* value) {
  if (value) *to = __builtin_bit_cast(Value, *value);
  *found = value != nullptr;
}

/// Finds n keys where all owners' memory is mapped.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    find_mapped(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map, Value* values,
                uint8_t* found, const Key* keys, uint64_t n) {
  using table = typename map_view<Key, Value>::table;
  __shared__ mapped_sender others;
  others.begin(g);
  each_of_lane(n, [&](uint64_t i) {
    const auto key = __builtin_bit_cast(typename table::key_type, keys[i]);
    const auto pe = static_cast<int>(map_hash(key).owner(map.n_pes));
    store_found(values + i, found + i, table{others.at(map.own.slots, pe), map.own.count}.find(key));
  });
}

/// Finds n keys, at most 2^31: its own at once, others by messages, whose answers the handler stores and counts.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    find_by_messages(gravel_t g, map_view<Key, Value> map, Value* values, uint8_t* found, const Key* keys, uint64_t n) {
  using view = map_view<Key, Value>;
  using message = typename view::message;
  __shared__ gravel_block_sender<map_lanes> sender;
  __shared__ uint32_t own_of_block;
  if (threadIdx.x == 0) own_of_block = 0;
  sender.begin(g);
  uint32_t own = 0;
  each_of_lane(n, [&](uint64_t i) {
    const auto key = __builtin_bit_cast(typename view::table::key_type, keys[i]);
    const uint32_t pe = map_hash(key).owner(map.n_pes);
    if (pe == g.my_pe) {
      store_found(values + i, found + i, map.own.find(key));
      ++own;
      return;
    }
    message m = message::of(map.number, map_request::find);
    m.set(0, key);
    m.set(message::key_words, static_cast<uint32_t>(i));
    m.set(message::key_words + 1, g.my_pe);
    sender.template am<map_delivery<view::key_bytes, view::value_bytes>>(static_cast<int>(pe), m);
  });
  if (own) fetch_add<scope::shared>(&own_of_block, own);
  sender.end();
  __syncthreads();
  if (threadIdx.x == 0 && own_of_block)
    fetch_add_release<scope::system>(&map.header->answered, uint64_t{own_of_block});  // [D3]
}

/// Calls function(key, value) for each of this PE's items.
template <class Key, class Value, class F>
__global__ void __launch_bounds__(map_lanes) each_item(map_view<Key, Value> map, F function) {
  each_of_lane(map.own.count, [&](uint64_t i) {
    auto& slot = map.own.slots[i];
    if (!slot.is_present()) return;
    const auto key = __builtin_bit_cast(Key, slot.key);
    auto value = __builtin_bit_cast(Value, slot.value);
    function(key, value);
    slot.value = __builtin_bit_cast(map_words<sizeof(Value)>, value);
  });
}

/// Counts this PE's items; with `keys`, copies the first `room` of them that it comes to.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    copy_items(map_view<Key, Value> map, Key* keys, Value* values, uint64_t room, uint64_t* count) {
  each_of_lane(map.own.count, [&](uint64_t i) {
    const auto& slot = map.own.slots[i];
    if (!slot.is_present()) return;
    const uint64_t at = fetch_add<scope::device>(count, uint64_t{1});
    if (at >= room) return;
    keys[at] = __builtin_bit_cast(Key, slot.key);
    values[at] = __builtin_bit_cast(Value, slot.value);
  });
}

/// Moves this PE's items into other slots, which are free.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    move_items(gravel_t g, map_view<Key, Value> from, typename map_view<Key, Value>::table to, uint64_t capacity) {
  using view = map_view<Key, Value>;
  each_of_lane(from.own.count, [&](uint64_t i) {
    const auto& slot = from.own.slots[i];
    const auto nothing = [](typename view::table::value_type*) {};
    if (slot.is_present() && !to.put(slot.key, slot.value, nothing))
      report_full_map<view::key_bytes, view::value_bytes>(g, g.my_pe, to.count, capacity);
  });
}

/// Makes all slots free.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes) clear_slots(map_view<Key, Value> map) {
  each_of_lane(map.own.count, [&](uint64_t i) { map.own.slots[i].state = map_state::free; });
}

}  // namespace gravel::detail
