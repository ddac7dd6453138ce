// Items of collective insertions into a gravel::map that travel to their owners where memory is not mapped.
//
// Problem. A message for each item costs some twenty bytes and more beside it, and the owner's handler inserts one by
// one.
//
// Solution. An exchange (row_exchange.cuh) brings all items of a chunk to their owners, in bulk puts. Then each PE has
// items of its own keys alone, and inserts them as a job of one PE would: by phases if they are many.
//
// Invariant: a chunk of all PEs fits the exchange even if all its items have one owner.
#pragma once
#include <algorithm>
#include <optional>

#include "lib/table/map_kernels.cuh"
#include "lib/table/map_tile.cuh"
#include "lib/table/row_exchange.cuh"

namespace gravel::detail {

/// Puts keys and values together as items, and says where they go.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    pack_items(map_view<Key, Value> map, map_item<sizeof(Key), sizeof(Value)>* items, uint32_t* to, const Key* keys,
               const Value* values, uint64_t n) {
  each_of_lane(n, [&](uint64_t i) {
    map_item<sizeof(Key), sizeof(Value)> item;
    item.key = __builtin_bit_cast(map_words<sizeof(Key)>, keys[i]);
    item.value = __builtin_bit_cast(map_words<sizeof(Value)>, values[i]);
    items[i] = item;
    to[i] = map_hash(item.key).owner(map.n_pes);
  });
}
/// Separates items into keys and values.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    unpack_items(const map_item<sizeof(Key), sizeof(Value)>* items, Key* keys, Value* values, uint64_t n) {
  each_of_lane(n, [&](uint64_t i) {
    keys[i] = __builtin_bit_cast(Key, items[i].key);
    values[i] = __builtin_bit_cast(Value, items[i].value);
  });
}

/// The exchanges of a map, and their memory.
template <class Key, class Value>
class map_exchange {
  using item = map_item<sizeof(Key), sizeof(Value)>;

 public:
  /// Exchanges pay from so many items of a PE on. A PE has room for items of so many bytes.
  static constexpr uint64_t least_items = GRAVEL_CUDA ? uint64_t{1} << 14 : 64;
  static constexpr uint64_t most_bytes = GRAVEL_CUDA ? uint64_t{1} << 29 : uint64_t{1} << 15;

  /// Returns how many items of each PE are exchanged at once, if the PE that has most has `most`. Collective: takes
  /// memory.
  uint64_t chunk_for(uint64_t most, uint64_t pes) {
    const uint64_t chunk = std::min(most, std::max<uint64_t>(most_bytes / sizeof(item) / pes, 1));
    if (chunk <= chunk_) return chunk;
    release();
    exchange_.emplace(sizeof(item), chunk * pes);
    items_ = device_array<item>(chunk);
    to_ = device_array<uint32_t>(chunk);
    keys_ = device_array<Key>(chunk * pes);
    values_ = device_array<Value>(chunk * pes);
    chunk_ = chunk;
    return chunk;
  }
  /// Sends up to chunk_for() items to their owners. Collective. The host waits.
  /// @param how a grid for these items
  /// @return number of items that have come: keys() and values()
  uint64_t exchange(const map_view<Key, Value>& map, const Key* keys, const Value* values, uint64_t n,
                    const gravel_launch_config& how) {
    if (n) launch_alone(pack_items<Key, Value>, how, map, items_.data(), to_.data(), keys, values, n);
    exchange_->all_to_all(items_.data(), to_.data(), n, how.stream);
    gravel_stream_synchronize(how.stream);
    uint64_t came = 0;
    gravel_copy(&came, exchange_->firsts() + map.n_pes, sizeof(came));
    if (came)
      launch_alone(unpack_items<Key, Value>, how, static_cast<const item*>(exchange_->rows()), keys_.data(),
                   values_.data(), came);
    return came;
  }
  const Key* keys() const { return keys_.data(); }
  const Value* values() const { return values_.data(); }
  /// Frees the memory. Collective. No kernel may use it any more.
  void release() {
    if (chunk_ == 0) return;
    exchange_.reset();
    chunk_ = 0;
  }

 private:
  std::optional<row_exchange> exchange_;
  device_array<item> items_;
  device_array<uint32_t> to_;
  device_array<Key> keys_;
  device_array<Value> values_;
  uint64_t chunk_ = 0;  ///< items of a PE for which there is memory
};

}  // namespace gravel::detail
