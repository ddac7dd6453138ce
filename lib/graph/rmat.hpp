// R-MAT (Chakrabarti, Zhan, Faloutsos, 2004) with the parameters of Graph500: each edge descends `scale` times into a
// quadrant of the matrix. An edge is a function of its number, so any part, and any lane of a kernel, can make any
// edge.
#pragma once
#include <cstdint>

#include "lib/base/mix.hpp"
#include "lib/base/platform.hpp"
#include "lib/graph/edge_list.hpp"

namespace gravel::detail {

struct rmat_source {
  int scale;
  uint64_t scatter_seed, edge_seed;

  /// Throws gravel::error for a scale that is not from 1 to 40.
  static rmat_source of(int scale, uint64_t seed);
  /// Returns edge number i.
  GRAVEL_BOTH edge operator()(uint64_t i) const {
    const uint64_t seed = mix(edge_seed ^ i);
    uint64_t source = 0, target = 0;
    for (int level = 0; level < scale; ++level) {
      const uint64_t random = mix(seed + static_cast<uint64_t>(level) * 0x9e3779b97f4a7c15ull);
      const uint64_t source_bit = (random & 0xffffffff) < source_one;
      const uint64_t target_bit = (random >> 32) < (source_bit ? target_one_of_one : target_one_of_zero);
      source = source << 1 | source_bit;
      target = target << 1 | target_bit;
    }
    return {scatter(source), scatter(target)};
  }

 private:
  // In units of 2^-32: the probability that the source's bit is 1, and then that the target's is 1, given the source's.
  static constexpr double a = 0.57, b = 0.19, c = 0.19, d = 0.05;
  static constexpr uint64_t source_one = static_cast<uint64_t>((c + d) * 4294967296.0);
  static constexpr uint64_t target_one_of_zero = static_cast<uint64_t>(b / (a + b) * 4294967296.0);
  static constexpr uint64_t target_one_of_one = static_cast<uint64_t>(d / (c + d) * 4294967296.0);

  /// Permutes the numbers below 2^scale: odd multiplications and right shifts are invertible.
  GRAVEL_BOTH uint64_t scatter(uint64_t vertex) const {
    const uint64_t mask = (uint64_t{1} << scale) - 1;
    const int shift = (scale + 1) / 2;
    for (uint64_t round = 0; round < 3; ++round) {
      const uint64_t key = mix(scatter_seed ^ round);
      vertex = ((vertex ^ key) * (key >> 32 | 1)) & mask;
      vertex ^= vertex >> shift;
    }
    return vertex;
  }
};

}  // namespace gravel::detail
