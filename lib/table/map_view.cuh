// What kernels see of a gravel::map: a plain value, which is passed by value.
#pragma once
#include "lib/table/map_messages.cuh"

namespace gravel::detail {

/// A map, for kernels. gravel::map::view() returns it; it is valid until the next reserve().
/// @scope lane, from divergent code; host threads
/// @completion on return
/// @errors none
/// @source Gravel
template <class Key, class Value>
struct map_view {
  static constexpr uint32_t key_bytes = sizeof(Key), value_bytes = sizeof(Value);
  using message = map_message<key_bytes, value_bytes>;
  using table = map_slots<key_bytes, value_bytes>;

  table own;  ///< this PE's slots, symmetric
  uint64_t capacity;
  map_header* header;  ///< symmetric
  uint32_t n_pes, number;

  /// Returns the PE that has a key, or would have it.
  /// @param key any value
  GRAVEL_BOTH int owner(const Key& key) const {
    return static_cast<int>(map_hash(__builtin_bit_cast(map_words<key_bytes>, key)).owner(n_pes));
  }
};

}  // namespace gravel::detail
