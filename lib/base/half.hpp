// Numbers of 16 bits, as plain data with the layout of CUDA's __half and __nv_bfloat16, so that a program need not
// compile their headers. Arithmetic is done in float. to_float is exact; from_float rounds to the nearest, ties to even
// (IEEE 754-2019, binary16 and section 4.3.1).
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail::inner {
GRAVEL_BOTH uint32_t bits_of_float(float value) { return __builtin_bit_cast(uint32_t, value); }
GRAVEL_BOTH float float_of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
}  // namespace gravel::detail::inner

/// A number of 16 bits as IEEE 754's binary16, as plain data with the layout of CUDA's __half.
/// @scope any
/// @completion on return
/// @errors none
/// @source IEEE 754-2019, binary16
struct gravel_half {
  uint16_t bits;

  /// The number, exactly.
  GRAVEL_BOTH float to_float() const {
#if GRAVEL_ON_GPU
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    using namespace gravel::detail::inner;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                   fraction = bits & 0x3ff;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float least = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -least : least;
#endif
  }
  /// Rounds to the nearest, ties to even.
  /// @param value any
  GRAVEL_BOTH static gravel_half from_float(float value) {
#if GRAVEL_ON_GPU
    gravel_half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(value));
    return h;
#else
    using namespace gravel::detail::inner;
    const uint32_t all = bits_of_float(value), sign = all >> 16 & 0x8000, size = all & 0x7fffffff;
    uint32_t half;
    if (size > 0x7f800000) half = 0x7e00;        // not a number
    else if (size >= 0x477ff000) half = 0x7c00;  // 65520 and more
    // Below the least normal number an addition rounds: the last place of 0.5 is that of the least half.
    else if (size < 0x38800000) half = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000;
    else half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    return {static_cast<uint16_t>(sign | half)};
#endif
  }
};

/// A number of 16 bits as the upper half of a float, as plain data with the layout of CUDA's __nv_bfloat16.
/// @scope any
/// @completion on return
/// @errors none
/// @source CUDA: __nv_bfloat16
struct gravel_bfloat16 {
  uint16_t bits;

  /// The number, exactly.
  GRAVEL_BOTH float to_float() const { return gravel::detail::inner::float_of_bits(static_cast<uint32_t>(bits) << 16); }
  /// Rounds to the nearest, ties to even.
  /// @param value any
  GRAVEL_BOTH static gravel_bfloat16 from_float(float value) {
    const uint32_t all = gravel::detail::inner::bits_of_float(value);
    if ((all & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>(all >> 16 | 0x40)};
    return {static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16)};
  }
};
static_assert(sizeof(gravel_half) == 2 && sizeof(gravel_bfloat16) == 2);
