// The CUDA side of device/simt.hpp: the few functions that both backends have and CUDA itself lacks, on all or on older
// GPUs.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

/// Not called __noinline__, which g++ cannot have as a macro (see simt_cpu.hpp).
#define GRAVEL_NOINLINE __noinline__

/// The block's dynamic shared memory, 128-byte aligned.
/// @return as many bytes as the launch asked for
/// @scope lane
/// @completion on return
/// @errors none
/// @source CUDA: extern __shared__
__device__ __forceinline__ char* gravel_dynamic_shared() {
  extern __shared__ __align__(128) char gravel_dynamic_shared_memory[];
  return gravel_dynamic_shared_memory;
}

/// Size of the block's dynamic shared memory.
/// @return bytes
/// @scope lane
/// @completion on return
/// @errors none
/// @source CUDA
__device__ __forceinline__ uint32_t gravel_dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

/// Whether all blocks of the grid run at once: cooperative_groups::this_grid().is_valid(), without the seconds that its
/// header takes to compile. The driver gives a cooperative launch a workspace, whose address is in these registers.
/// @return true in a cooperative launch
/// @scope lane
/// @completion on return
/// @errors none
/// @source CUDA: cooperative groups
__device__ __forceinline__ bool gravel_is_cooperative() {
  uint32_t high, low;
  asm("mov.u32 %0, %%envreg1; mov.u32 %1, %%envreg2;" : "=r"(high), "=r"(low));
  return (high | low) != 0;
}

// Reductions over the lanes of a warp, as CUDA has them from sm_80 on. Lane by lane, for lanes in any mask.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GRAVEL_SIMT_REDUCE(name, type, combine)                                       \
  __device__ __forceinline__ type name(unsigned mask, type value) {                   \
    type all = __shfl_sync(mask, value, __ffs(static_cast<int>(mask)) - 1);           \
    for (unsigned left = mask & (mask - 1); left != 0; left &= left - 1) {            \
      const type other = __shfl_sync(mask, value, __ffs(static_cast<int>(left)) - 1); \
      all = combine;                                                                  \
    }                                                                                 \
    return all;                                                                       \
  }
GRAVEL_SIMT_REDUCE(__reduce_add_sync, unsigned, all + other)
GRAVEL_SIMT_REDUCE(__reduce_add_sync, int, all + other)
GRAVEL_SIMT_REDUCE(__reduce_min_sync, unsigned, all < other ? all : other)
GRAVEL_SIMT_REDUCE(__reduce_min_sync, int, all < other ? all : other)
GRAVEL_SIMT_REDUCE(__reduce_max_sync, unsigned, all > other ? all : other)
GRAVEL_SIMT_REDUCE(__reduce_max_sync, int, all > other ? all : other)
GRAVEL_SIMT_REDUCE(__reduce_and_sync, unsigned, all& other)
GRAVEL_SIMT_REDUCE(__reduce_or_sync, unsigned, all | other)
GRAVEL_SIMT_REDUCE(__reduce_xor_sync, unsigned, all ^ other)
#undef GRAVEL_SIMT_REDUCE
#endif

// CUDA's 64-bit atomics take unsigned long long; uint64_t is unsigned long on Linux: the same bits under
// another name.
#define GRAVEL_SIMT_WIDEN(name)                                                                       \
  __device__ __forceinline__ unsigned long name(unsigned long* word, unsigned long value) {           \
    return name(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value)); \
  }
#define GRAVEL_SIMT_WIDEN_SIGNED(name)                                              \
  __device__ __forceinline__ long name(long* word, long value) {                    \
    return name(reinterpret_cast<long long*>(word), static_cast<long long>(value)); \
  }
#define GRAVEL_SIMT_WIDEN_CAS(name)                                                                                   \
  __device__ __forceinline__ unsigned long name(unsigned long* word, unsigned long expected, unsigned long desired) { \
    return name(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(expected),               \
                static_cast<unsigned long long>(desired));                                                            \
  }
#define GRAVEL_SIMT_WIDEN_ALL(suffix)         \
  GRAVEL_SIMT_WIDEN(atomicAdd##suffix)        \
  GRAVEL_SIMT_WIDEN(atomicMin##suffix)        \
  GRAVEL_SIMT_WIDEN(atomicMax##suffix)        \
  GRAVEL_SIMT_WIDEN(atomicAnd##suffix)        \
  GRAVEL_SIMT_WIDEN(atomicOr##suffix)         \
  GRAVEL_SIMT_WIDEN(atomicXor##suffix)        \
  GRAVEL_SIMT_WIDEN(atomicExch##suffix)       \
  GRAVEL_SIMT_WIDEN_SIGNED(atomicMin##suffix) \
  GRAVEL_SIMT_WIDEN_SIGNED(atomicMax##suffix) \
  GRAVEL_SIMT_WIDEN_CAS(atomicCAS##suffix)
GRAVEL_SIMT_WIDEN_ALL()
GRAVEL_SIMT_WIDEN_ALL(_block)
GRAVEL_SIMT_WIDEN_ALL(_system)
#undef GRAVEL_SIMT_WIDEN_ALL
#undef GRAVEL_SIMT_WIDEN_CAS
#undef GRAVEL_SIMT_WIDEN_SIGNED
#undef GRAVEL_SIMT_WIDEN
