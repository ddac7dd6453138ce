// Valid weights of edges. Programs compute with float, so a weight must be a number that float can hold.
//
// All calls of this file:
// @return true if it is valid
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

/// Returns whether float holds this whole number exactly.
/// @param whole any
constexpr bool fits_weight(uint64_t whole) {
  return whole == 0 || std::bit_width(whole) - std::countr_zero(whole) <= std::numeric_limits<float>::digits;
}

/// Returns whether the value is from 0 to `largest_weight` and, if it is a whole number, one that float holds exactly.
/// From 2^53 on a double does not distinguish whole numbers from others, so they are rounded like others. Returns false
/// for values that are not finite. Used for weights, and for sums of weights that are kept as float.
/// @param value any
constexpr bool fits_weight(double value) {
  if (!(value >= 0 && value <= largest_weight)) return false;
  if (value >= 0x1p53) return true;
  const auto whole = static_cast<uint64_t>(value);
  return static_cast<double>(whole) != value || fits_weight(whole);
}

}  // namespace gravel::detail
