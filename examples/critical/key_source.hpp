// Keys drawn from a Zipf distribution, in an array on the device: drawing them costs more than many a critical section.
#pragma once
#include <cstdint>

#include <gravel/gravel.cuh>
#include "examples/common/mix.hpp"
#include "examples/common/zipf.hpp"

namespace app {

/// What keys a PE calls for.
struct key_source {
  uint64_t keys;
  double exponent;
  uint64_t seed;
  uint32_t n_pes, my_pe;
  bool own;  ///< of this PE alone

  GRAVEL_BOTH uint32_t key(const zipf& ranks, uint64_t i) const {
    const uint64_t rank = ranks.draw(mix(seed ^ mix(i))) - 1;
    const uint64_t n = among();
    const uint64_t number = rank * 0x9e3779b1u % n;  // keys that are often drawn do not lie together
    return static_cast<uint32_t>(own ? number * n_pes + my_pe : number);
  }
  GRAVEL_BOTH uint64_t among() const { return own ? (keys - my_pe + n_pes - 1) / n_pes : keys; }
};

template <class Source>
__global__ void draw_keys(Source from, uint32_t* keys, uint64_t n) {
  const zipf ranks(from.among(), from.exponent);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += lanes) keys[i] = from.key(ranks, i);
}

}  // namespace app
