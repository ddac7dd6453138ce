// An estimate of how many different keys there are, in device memory: HyperLogLog (Flajolet et al. 2007).
//
// Problem. A map must know before a bulk insertion whether its keys fit. Most of them may be there already, or be
// equal.
//
// Solution. A key's hash chooses one of 4096 registers, which keeps the largest number of leading zeros that its
// hashes have, plus 1. Many different keys make many zeros; repeated ones change nothing. The registers of several sets
// of keys together are those of their union. The estimate's standard deviation is 1.6 % of it.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "host/device_array.hpp"
#include "lib/table/map_kernels.cuh"

namespace gravel::detail {

constexpr uint32_t sketch_registers = 4096;
constexpr uint32_t sketch_lanes = GRAVEL_CUDA ? 1024 : 64;  // of a block

/// Raises registers to what n keys need. A block gathers its part in shared memory.
/// @param registers [sketch_registers]
/// @param key_at key_at(i, &key) returns whether there is a key i, and stores it
template <uint32_t KEY, class KeyAt>
GRAVEL_DEVICE void raise_registers(uint32_t* registers, uint64_t n, const KeyAt& key_at) {
  __shared__ uint32_t mine[sketch_registers];
  for (uint32_t r = threadIdx.x; r < sketch_registers; r += sketch_lanes) mine[r] = 0;
  __syncthreads();
  for (uint64_t i = uint64_t{blockIdx.x} * sketch_lanes + threadIdx.x; i < n; i += uint64_t{gridDim.x} * sketch_lanes) {
    map_words<KEY> key;
    if (!key_at(i, &key)) continue;
    const map_hash hash(key);
    const uint32_t r = hash.low_bits(sketch_registers), rank = hash.leading_zeros() + 1;
    if (load_relaxed<scope::shared>(&mine[r]) < rank) atomicMax(&mine[r], rank);
  }
  __syncthreads();
  for (uint32_t r = threadIdx.x; r < sketch_registers; r += sketch_lanes)
    if (load_relaxed<scope::device>(&registers[r]) < mine[r]) atomicMax(&registers[r], mine[r]);
}

/// Adds keys to a sketch.
template <class Key>
__global__ void __launch_bounds__(sketch_lanes) sketch_keys(uint32_t* registers, const Key* keys, uint64_t n) {
  raise_registers<sizeof(Key)>(registers, n, [&](uint64_t i, map_words<sizeof(Key)>* key) {
    *key = __builtin_bit_cast(map_words<sizeof(Key)>, keys[i]);
    return true;
  });
}
/// Adds the keys of slots to a sketch: those that are present, and with `erased` also those that were erased.
template <uint32_t KEY, uint32_t VALUE>
__global__ void __launch_bounds__(sketch_lanes)
    sketch_slots(uint32_t* registers, const map_slot<KEY, VALUE>* slots, uint64_t n, bool erased) {
  raise_registers<KEY>(registers, n, [&](uint64_t i, map_words<KEY>* key) {
    const bool is_there = erased ? slots[i].state != map_state::free : slots[i].is_present();
    if (is_there) *key = slots[i].key;
    return is_there;
  });
}

/// The registers of this PE.
class key_sketch {
 public:
  /// Forgets all keys. It may wait for kernels.
  void clear() {
    const std::vector<uint32_t> zeros(sketch_registers, 0);
    gravel_copy(registers_.data(), zeros.data(), sketch_registers * sizeof(uint32_t));
  }
  uint32_t* registers() { return registers_.data(); }
  /// Returns a grid for n keys.
  static gravel_launch_config grid_for(uint64_t n, gravel_stream_t stream) {
    const uint64_t processors = current_backend().multiprocessors(), most = processors ? processors * 2 : 1;
    const uint64_t wanted = (n + 8 * sketch_lanes - 1) / (8 * sketch_lanes);
    gravel_launch_config how{static_cast<unsigned>(std::clamp<uint64_t>(wanted, 1, most)), sketch_lanes};
    how.stream = stream;
    return how;
  }
  /// Returns about how many different keys the sketches of all PEs have together, when the stream has come here.
  /// Collective.
  uint64_t estimate_all(gravel_stream_t stream) const {
    gravel_stream_synchronize(stream);
    std::vector<uint32_t> all(sketch_registers);
    gravel_copy(all.data(), registers_.data(), sketch_registers * sizeof(uint32_t));
    gravel_max_all(all.data(), all.data(), sketch_registers);
    return estimate(all);
  }
  /// Returns about how many different keys a sketch has. Where many registers have none, their number says it.
  static uint64_t estimate(const std::vector<uint32_t>& registers) {
    const auto m = static_cast<double>(registers.size());
    double sum = 0;
    uint64_t unused = 0;
    for (const uint32_t rank : registers) {
      sum += std::ldexp(1.0, -static_cast<int>(rank));
      unused += rank == 0;
    }
    const double estimated = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    const bool is_small = estimated <= 2.5 * m && unused != 0;
    return static_cast<uint64_t>(is_small ? m * std::log(m / static_cast<double>(unused)) : estimated);
  }

 private:
  device_array<uint32_t> registers_{std::vector<uint32_t>(sketch_registers, 0)};
};

}  // namespace gravel::detail
