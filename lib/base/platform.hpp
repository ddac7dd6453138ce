// What both compilers must agree on: nvcc compiles two-sided code for host and device, g++ for the host alone.
#pragma once

#if defined(__CUDACC__)
#define GRAVEL_BOTH __host__ __device__ __forceinline__       ///< callable from kernels and from host code
#define GRAVEL_DEVICE __device__ __forceinline__              ///< callable from kernels only
#define GRAVEL_APART __host__ __device__ __noinline__ inline  ///< the same, compiled once for all places that call it
#define GRAVEL_DEVICE_APART __device__ __noinline__ inline    ///< the same on the device alone
#define GRAVEL_CUDA 1
#else
#define GRAVEL_BOTH inline
#define GRAVEL_DEVICE inline
#define GRAVEL_APART inline
#define GRAVEL_DEVICE_APART inline
#define GRAVEL_CUDA 0
#endif

#if defined(__CUDA_ARCH__)
#define GRAVEL_ON_GPU 1                  ///< this pass generates GPU code
#define GRAVEL_UNROLL _Pragma("unroll")  ///< in front of a loop that a GPU shall run without one
#else
#define GRAVEL_ON_GPU 0
#define GRAVEL_UNROLL
#endif

/// 1, for a whole program: the parts of a send that depend neither on handler nor type are compiled once for all places that send. That
/// takes a quarter of the time for each handler, and sends take longer (docs/performance.md, "Compile time").
#ifndef GRAVEL_COMPACT_SENDS
#define GRAVEL_COMPACT_SENDS 0
#endif
#if GRAVEL_COMPACT_SENDS
#define GRAVEL_SEND_PART GRAVEL_APART
#define GRAVEL_DEVICE_SEND_PART GRAVEL_DEVICE_APART
#else
#define GRAVEL_SEND_PART GRAVEL_BOTH
#define GRAVEL_DEVICE_SEND_PART GRAVEL_DEVICE
#endif
