// The random numbers of HPCC's RandomAccess: a(n) is the polynomial x^n over GF(2), modulo x^64 + x^2 + x +
// 1; the bits of the number are its coefficients. So each number follows from the one before by a shift, and
// one can jump to any place of the sequence. It repeats after `period` numbers.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace app::random_stream {

constexpr uint64_t period = 1317624576693539401;

/// Times x: the coefficient of x^63 becomes that of x^64, which is x^2 + x + 1 = 7.
GRAVEL_BOTH constexpr uint64_t next(uint64_t a) { return a << 1 ^ (static_cast<int64_t>(a) < 0 ? 7 : 0); }

GRAVEL_BOTH constexpr uint64_t product(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  for (int bit = 63; bit >= 0; --bit) sum = next(sum) ^ (b >> bit & 1 ? a : 0);
  return sum;
}

/// a(n), by squaring: 64 steps for each binary digit of n.
GRAVEL_BOTH constexpr uint64_t at(uint64_t n) {
  uint64_t a = 1;
  for (int bit = 63; bit >= 0; --bit) {
    if (a != 1) a = product(a, a);
    if (n >> bit & 1) a = next(a);
  }
  return a;
}

}  // namespace app::random_stream
