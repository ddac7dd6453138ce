// Macros for both compilers: nvcc compiles two-sided code for host and device, g++ for the host alone.
#pragma once

#if defined(__CUDACC__)
#define GRAVEL_BOTH __host__ __device__ __forceinline__  ///< callable from kernels and from host code
#define GRAVEL_DEVICE __device__ __forceinline__         ///< callable from kernels only
// As above, but not inlined: for code that waits or runs seldom. Such a function takes a handle by value, so that a
// kernel's handle need not lie in memory.
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
#define GRAVEL_UNROLL _Pragma("unroll")       ///< in front of a loop that the GPU's compiler shall unroll
#define GRAVEL_NO_UNROLL _Pragma("unroll 1")  ///< in front of one that it shall not unroll
#else
#define GRAVEL_ON_GPU 0
#define GRAVEL_UNROLL
#define GRAVEL_NO_UNROLL
#endif

/// Marks what must exist once in a process, although the program, libgravel and other libraries each include its
/// header: variables, and types that are thrown or whose dynamic type is tested. It has an effect with
/// -fvisibility=hidden.
#define GRAVEL_API [[gnu::visibility("default")]]

// For a list of names and texts, LIST(X) with X(name, "text") for each: GRAVEL_NAME makes the enumerators, and
// GRAVEL_TEXT the texts in the same order.
#define GRAVEL_NAME(name, text) name,
#define GRAVEL_TEXT(name, text) text,
