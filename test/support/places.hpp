// The words of a range that a job writes, and their values.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

/// PLACES words of a range: the first and the last ones, an eighth of them each, and others at equal distances.
template <uint64_t PLACES>
GRAVEL_BOTH uint64_t spread_place(uint64_t number, uint64_t words) {
  constexpr uint64_t edge = PLACES / 8;
  if (words < 4 * PLACES || number < edge) return number;
  if (number < 2 * edge) return words - 2 * edge + number;
  return edge + (number - 2 * edge) * ((words - 2 * edge) / PLACES);
}
GRAVEL_BOTH uint64_t value_of(uint64_t number, uint64_t salt) {
  return (number + 1) * 0x9e3779b97f4a7c15ull ^ (salt << 17);
}
