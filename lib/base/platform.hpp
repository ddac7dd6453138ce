// What both compilers must agree on: nvcc compiles two-sided code for host and device, g++ for the host alone.
#pragma once

#if defined(__CUDACC__)
#define GRAVEL_BOTH __host__ __device__ __forceinline__  ///< callable from kernels and from host code
#define GRAVEL_DEVICE __device__ __forceinline__         ///< callable from kernels only
// The same with one copy for all calls: for what waits or is seldom done. A handle is passed to such a function by
// value, so that a kernel's handle need not lie in memory.
#define GRAVEL_BOTH_APART __host__ __device__ __noinline__ inline
#define GRAVEL_DEVICE_APART __device__ __noinline__ inline
#define GRAVEL_CUDA 1
#else
#define GRAVEL_BOTH inline
#define GRAVEL_DEVICE inline
#define GRAVEL_BOTH_APART inline
#define GRAVEL_DEVICE_APART inline
#define GRAVEL_CUDA 0
#endif

#if defined(__CUDA_ARCH__)
#define GRAVEL_ON_GPU 1                       ///< this pass generates GPU code
#define GRAVEL_UNROLL _Pragma("unroll")       ///< in front of a loop that a GPU shall run without one
#define GRAVEL_NO_UNROLL _Pragma("unroll 1")  ///< and of one that shall stay short
#else
#define GRAVEL_ON_GPU 0
#define GRAVEL_UNROLL
#define GRAVEL_NO_UNROLL
#endif

/// Before what must be one in a process, although the program, libgravel and other libraries each include its header:
/// variables, and types that are thrown or whose dynamic type is asked for. So it is with -fvisibility=hidden, too.
#define GRAVEL_API [[gnu::visibility("default")]]

// Of a list of names and texts, LIST(X) with X(name, "text") for each: the enumerators, and the texts in their order.
#define GRAVEL_NAME(name, text) name,
#define GRAVEL_TEXT(name, text) text,
