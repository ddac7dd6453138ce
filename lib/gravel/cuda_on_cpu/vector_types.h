// CUDA's vector types for the CPU backend: int2, float4 and so on, with their make_ functions.
#pragma once
#include <gravel/gravel.cuh>

#define GRAVEL_CUDA_MAKE(type, vector1, vector2, vector3, vector4, make1, make2, make3, make4) \
  inline vector1 make1(type x) { return {x}; }                                                 \
  inline vector2 make2(type x, type y) { return {x, y}; }                                      \
  inline vector3 make3(type x, type y, type z) { return {x, y, z}; }                           \
  inline vector4 make4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define GRAVEL_CUDA_VECTOR(type, name, align2, align4)                                                       \
  struct name##1 {                                                                                           \
    type x;                                                                                                  \
  };                                                                                                         \
  struct __attribute__((aligned(align2))) name##2 {                                                          \
    type x, y;                                                                                               \
  };                                                                                                         \
  GRAVEL_CUDA_VECTOR3(type, name)                                                                            \
  struct __attribute__((aligned(align4))) name##4 {                                                          \
    type x, y, z, w;                                                                                         \
  };                                                                                                         \
  GRAVEL_CUDA_MAKE(type, name##1, name##2, name##3, name##4, make_##name##1, make_##name##2, make_##name##3, \
                   make_##name##4)
#define GRAVEL_CUDA_VECTOR3(type, name) \
  struct name##3 {                      \
    type x, y, z;                       \
  };
GRAVEL_CUDA_VECTOR(signed char, char, 2, 4)
GRAVEL_CUDA_VECTOR(unsigned char, uchar, 2, 4)
GRAVEL_CUDA_VECTOR(short, short, 4, 8)
GRAVEL_CUDA_VECTOR(unsigned short, ushort, 4, 8)
GRAVEL_CUDA_VECTOR(int, int, 8, 16)
GRAVEL_CUDA_VECTOR(long, long, 16, 16)
GRAVEL_CUDA_VECTOR(unsigned long, ulong, 16, 16)
GRAVEL_CUDA_VECTOR(long long, longlong, 16, 16)
GRAVEL_CUDA_VECTOR(unsigned long long, ulonglong, 16, 16)
GRAVEL_CUDA_VECTOR(float, float, 8, 16)
GRAVEL_CUDA_VECTOR(double, double, 16, 16)
#undef GRAVEL_CUDA_VECTOR3
#define GRAVEL_CUDA_VECTOR3(type, name)  // kernels have it already, as the type of threadIdx
GRAVEL_CUDA_VECTOR(unsigned, uint, 8, 16)
#undef GRAVEL_CUDA_VECTOR3
#undef GRAVEL_CUDA_VECTOR
#undef GRAVEL_CUDA_MAKE
