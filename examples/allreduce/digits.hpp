// Pictures of handwritten digits, drawn by the program: strokes along the segments of a digit, moved, stretched,
// slanted and blurred by chance, with noise. Any processor draws any of them, by its number.
#pragma once
#include <cmath>
#include <cstdint>

#include "examples/common/mix.hpp"

namespace app {

class drawn_digit {
 public:
  static constexpr uint32_t side = 16, pixels = side * side, digits = 10;

  GRAVEL_BOTH drawn_digit(uint64_t seed, uint64_t number) : key_(mix(mix(seed) + number)) {}
  GRAVEL_BOTH uint32_t digit() const { return pick(mix(key_), digits); }
  /// 0 to about 1.
  GRAVEL_BOTH float pixel(uint32_t at) const {
    const float height = 10.5f + 2.0f * chance(1), width = 6.0f + 1.5f * chance(2), slant = 0.25f * chance(3),
                pen = 1.3f + 0.4f * chance(4);
    const float y = (static_cast<float>(at / side) - 7.5f - 1.5f * chance(5)) / height + 0.5f;
    const float x = (static_cast<float>(at % side) - 7.5f - 1.5f * chance(6)) / width + 0.5f + slant * (y - 0.5f);
    float nearest = 100;
    for (uint32_t s = 0; s < 7; ++s)
      if (lit(digit()) >> s & 1) {
        // From the upper left corner: segments across at heights 0, 1/2, 1; down at the left and at the right, each
        // half the height.
        const bool across = s < 3;
        const float x0 = s < 5 ? 0.0f : 1.0f,
                    y0 = across ? 0.5f * static_cast<float>(s) : 0.5f * static_cast<float>((s - 3) % 2);
        const float along = across ? x - x0 : y - y0, length = across ? 1.0f : 0.5f;
        const float beside = across ? y - y0 : x - x0;
        float beyond = 0;
        if (along < 0) beyond = -along;
        else if (along > length) beyond = along - length;
        const float dx = (across ? beyond : beside) * width, dy = (across ? beside : beyond) * height,
                    d = dx * dx + dy * dy;
        nearest = d < nearest ? d : nearest;
      }
    float ink = 1.5f - std::sqrt(nearest) / pen;
    if (ink < 0) ink = 0;
    else if (ink > 1) ink = 1;
    return ink + 0.15f * chance(16 + at);
  }

 private:
  /// -1 to 1.
  GRAVEL_BOTH float chance(uint32_t what) const {
    return static_cast<float>(static_cast<int32_t>(mix(key_ + what) >> 40)) * 0x1p-23f - 1.0f;
  }
  /// Segments, a bit each: upper, middle, lower, upper left, lower left, upper right, lower right.
  GRAVEL_BOTH static uint32_t lit(uint32_t digit) {
    switch (digit) {
      case 0: return 0b1111101;
      case 1: return 0b1100000;
      case 2: return 0b0110111;
      case 3: return 0b1100111;
      case 4: return 0b1101010;
      case 5: return 0b1001111;
      case 6: return 0b1011111;
      case 7: return 0b1100001;
      case 8: return 0b1111111;
      default: return 0b1101111;
    }
  }
  uint64_t key_;
};

}  // namespace app
