// CUDA's __nv_bfloat16 for the CPU backend. Arithmetic is done in float, and its results are rounded.
#pragma once
#include <gravel/cuda_on_cpu/cuda_runtime.h>
#include "lib/base/half.hpp"

struct __nv_bfloat16 : gravel_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : gravel_bfloat16(from_float(x)) {}
  __nv_bfloat16(gravel_bfloat16 x) : gravel_bfloat16(x) {}
  operator float() const { return to_float(); }
  __nv_bfloat16& operator+=(__nv_bfloat16 other) { return *this = __nv_bfloat16(*this + float(other)); }
  __nv_bfloat16& operator*=(__nv_bfloat16 other) { return *this = __nv_bfloat16(*this * float(other)); }
};
using nv_bfloat16 = __nv_bfloat16;
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
