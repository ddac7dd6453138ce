// Division by a number that is known before the kernel starts. GPUs have no instruction for division: dividing 64-bit
// numbers takes some hundred instructions, and this three.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// A divisor, and its inverse in units of 2^-64, rounded up.
class divisor {
 public:
  /// Makes a divisor.
  /// @param by 2 or more
  GRAVEL_BOTH explicit divisor(uint64_t by) : by_(by), inverse_(~uint64_t{0} / by + 1) {}

  GRAVEL_BOTH uint64_t value() const { return by_; }
  /// Returns number / value(), rounded down, for any number.
  GRAVEL_BOTH uint64_t quotient(uint64_t number) const {
    // The inverse is too large by less than 1, so the product is too large by less than number / 2^64, which is below
    // 1: the result is right or one too large.
    const uint64_t above = high_product(number, inverse_);
    return above - (above * by_ > number);
  }
  /// Returns a * b / 2^64, rounded down. For a random number `a` of 64 bits this is a random number below `b`.
  GRAVEL_BOTH static uint64_t high_product(uint64_t a, uint64_t b) {
#if GRAVEL_ON_GPU
    return __umul64hi(a, b);
#else
    __extension__ using wide = unsigned __int128;
    return static_cast<uint64_t>(wide{a} * b >> 64);
#endif
  }

 private:
  uint64_t by_, inverse_;
};

}  // namespace gravel::detail
