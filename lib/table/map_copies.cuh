// Copies of a gravel::map's slots at all PEs, for collective finds.
//
// Problem. Finds read slots over NVLink, or send a message for each key, though a map may be small and keys many.
//
// Solution. A collective find of many keys copies the slots of all PEs first, in whole, and looks up its keys there.
// The copies of one call are not used by the next one, as the map may have changed; the memory is.
//
// When it pays. A find over NVLink costs 0.5 ns a key, as it reads sectors of 32 bytes for some words each; in a copy
// it costs 0.06 to 0.1 ns. Copies come at 366 GB/s. So a copy pays up to some 125 bytes of slots, of all PEs, for each
// key of a PE; half of this is the limit, so that the call is faster by a good part.
//
// Protocol. Nothing changes the map during a call. Where all memory is mapped, each PE loads the slots of the others,
// in its stream. Otherwise each PE puts its slots into the memory of the others, between two barriers.
#pragma once
#include <optional>

#include "host/device_array.hpp"
#include "lib/table/map_kernels.cuh"

namespace gravel::detail {

/// 16 bytes of slots.
struct alignas(16) map_slot_unit {
  uint32_t word[4];
};

/// The slots of all PEs at this PE: its own, and copies of the others'.
template <class Key, class Value>
struct map_copied_slots {
  using table = typename map_view<Key, Value>::table;
  static constexpr uint64_t units_of(uint64_t slots) {
    return (slots * sizeof(typename table::slot_type) + sizeof(map_slot_unit) - 1) / sizeof(map_slot_unit);
  }
  map_slot_unit* copies;  ///< symmetric [number of PEs - 1][units]: of the PEs but this one, in their order
  uint64_t units;         ///< of the slots of a PE

  /// Returns where the copy of PE `of` lies at PE `at`.
  GRAVEL_BOTH map_slot_unit* copy(uint32_t of, uint32_t at) const { return copies + (of < at ? of : of - 1) * units; }
  /// Returns the slots of a PE.
  GRAVEL_BOTH table slots_of(uint32_t pe, const gravel_t& g, const map_view<Key, Value>& map) const {
    if (pe == g.my_pe) return map.own;
    return {reinterpret_cast<typename table::slot_type*>(copy(pe, g.my_pe)), map.own.count};
  }
};

/// Copies the slots of the other PEs from mapped memory, beginning with those of the next PE.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    load_slots(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
               const __grid_constant__ map_copied_slots<Key, Value> to) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint32_t k = 1; k < g.n_pes; ++k) {
    const uint32_t pe = (g.my_pe + k) % g.n_pes;
    const auto* const from = reinterpret_cast<const map_slot_unit*>(others.at(map.own.slots, static_cast<int>(pe)));
    map_slot_unit* const copy = to.copy(pe, g.my_pe);
    each_of_lane(to.units, [&](uint64_t i) { copy[i] = from[i]; });
  }
}

/// Puts this PE's slots into the memory of the other PEs. A block sends pieces.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    send_slots(gravel_t g, map_view<Key, Value> map, map_copied_slots<Key, Value> to) {
  constexpr uint64_t piece = 2048;  // units
  const auto* const mine = reinterpret_cast<const map_slot_unit*>(map.own.slots);
  for (uint32_t k = 1; k < g.n_pes; ++k) {
    const uint32_t pe = (g.my_pe + k) % g.n_pes;
    for (uint64_t first = blockIdx.x * piece; first < to.units; first += gridDim.x * piece) {
      const uint64_t count = to.units - first < piece ? to.units - first : piece;
      gravel_put_bulk(g, to.copy(g.my_pe, pe) + first, mine + first, count * sizeof(map_slot_unit),
                      static_cast<int>(pe));
    }
  }
}

/// Finds n keys in copies.
template <class Key, class Value>
__global__ void __launch_bounds__(map_lanes)
    find_copied(const __grid_constant__ gravel_t g, const __grid_constant__ map_view<Key, Value> map,
                const __grid_constant__ map_copied_slots<Key, Value> copied, Value* values, uint8_t* found,
                const Key* keys, uint64_t n) {
  each_of_lane(n, [&](uint64_t i) {
    const auto key = __builtin_bit_cast(map_words<sizeof(Key)>, keys[i]);
    const uint32_t pe = map_hash(key).owner(map.n_pes);
    store_found(values + i, found + i, copied.slots_of(pe, g, map).find(key));
  });
}

/// The copies of a map, and their memory.
template <class Key, class Value>
class map_copies {
 public:
  /// Copies the slots of all PEs, if that pays. Collective.
  /// @param keys that the PE looks up which has most
  /// @return the copies, there in the stream; none: that does not pay, or there is no memory for them
  std::optional<map_copied_slots<Key, Value>> refresh(const map_view<Key, Value>& map, bool mapped, uint64_t keys,
                                                      gravel_stream_t stream) {
    const uint64_t units = map_copied_slots<Key, Value>::units_of(map.own.count), pes = map.n_pes;
    const uint64_t bytes = units * sizeof(map_slot_unit) * pes;
    if (pes == 1 || bytes / bytes_of_key > keys || bytes > most_bytes) return {};
    if (last_stream_ && *last_stream_ != stream) gravel_synchronize();  // the last stream may be gone
    last_stream_ = stream;
    if (!take_memory(units * (pes - 1))) return {};
    const map_copied_slots<Key, Value> copied{memory_, units};
    if (mapped) {
      launch_alone(load_slots<Key, Value>, how(units, 8, stream), gravel_handle(), map, copied);
      return copied;
    }
    gravel_stream_synchronize(stream);  // the last find has ended, at all PEs
    gravel_barrier_all();
    gravel_launch(send_slots<Key, Value>, how(units, 1, stream), gravel_handle(), map, copied);
    gravel_stream_synchronize(stream);
    gravel_barrier_all();
    return copied;
  }
  /// Frees the memory. Collective.
  void release() {
    if (memory_) gravel_free(memory_);
    memory_ = nullptr;
    units_ = 0;
  }

 private:
  static constexpr uint64_t bytes_of_key = 64, most_bytes = uint64_t{1} << 30;
  /// False, at all PEs: one PE has too little memory.
  bool take_memory(uint64_t units) {
    if (units <= units_) return true;
    release();
    try {
      memory_ = gravel_malloc<map_slot_unit>(units * sizeof(map_slot_unit));
    } catch (const error&) {
      return false;
    }
    units_ = units;
    return true;
  }
  static gravel_launch_config how(uint64_t units, uint64_t blocks_of_processor, gravel_stream_t stream) {
    const uint64_t processors = current_backend().multiprocessors();
    const uint64_t most = processors ? processors * blocks_of_processor : 2;
    gravel_launch_config how{static_cast<unsigned>(std::min((units + map_lanes - 1) / map_lanes, most)), map_lanes};
    how.stream = stream;
    return how;
  }

  map_slot_unit* memory_ = nullptr;  ///< symmetric
  uint64_t units_ = 0;
  std::optional<gravel_stream_t> last_stream_;  ///< of the last call
};

}  // namespace gravel::detail
