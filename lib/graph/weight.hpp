// What can be the weight of an edge. Programs compute with float, and so must not be handed what float cannot hold.
//
// What all calls of this file have in common:
// @return true if so
// @scope any thread
// @completion on return
// @errors none
// @source IEEE 754-2019, binary32
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

namespace gravel::detail {

constexpr double largest_weight = std::numeric_limits<float>::max();

/// Whether float holds this whole number exactly.
/// @param whole any
constexpr bool fits_weight(uint64_t whole) {
  return whole == 0 || std::bit_width(whole) - std::countr_zero(whole) <= std::numeric_limits<float>::digits;
}

/// Whether the value is from 0 to `largest_weight` and, if it is a whole number, one that float holds exactly. From
/// 2^53 on a double does not tell whole numbers from others, and they are rounded as those are. False for what is not
/// finite. To be asked of weights, and of sums of weights that are kept as float.
/// @param value any
constexpr bool fits_weight(double value) {
  if (!(value >= 0 && value <= largest_weight)) return false;
  if (value >= 0x1p53) return true;
  const auto whole = static_cast<uint64_t>(value);
  return static_cast<double>(whole) != value || fits_weight(whole);
}

}  // namespace gravel::detail
