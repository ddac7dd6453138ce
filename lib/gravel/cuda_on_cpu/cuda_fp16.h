// CUDA's __half for the CPU backend. Arithmetic is done in float, and its results are rounded.
#pragma once
#include <gravel/cuda_on_cpu/cuda_runtime.h>
#include "lib/base/half.hpp"

struct __half : gravel_half {
  __half() = default;
  __half(float x) : gravel_half(from_float(x)) {}
  __half(gravel_half x) : gravel_half(x) {}
  operator float() const { return to_float(); }
  __half& operator+=(__half other) { return *this = __half(*this + float(other)); }
  __half& operator*=(__half other) { return *this = __half(*this * float(other)); }
};
using half = __half;
struct __half2 {
  __half x, y;
};
using half2 = __half2;
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline float __half2float(__half x) { return x; }
inline __half __hadd(__half a, __half b) { return float(a) + float(b); }
inline __half __hmul(__half a, __half b) { return float(a) * float(b); }
