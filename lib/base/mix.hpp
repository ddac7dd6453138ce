// Random numbers that are a function of their place: equal on every PE, in kernels and on the host, in any order.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The finalizer of SplitMix64: a bijection whose results look random for consecutive arguments.
GRAVEL_BOTH constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// Maps the high half of a random number to 0 ... n-1.
GRAVEL_BOTH constexpr uint32_t pick(uint64_t random, uint32_t n) {
  return static_cast<uint32_t>((random >> 32) * n >> 32);
}

}  // namespace gravel::detail
