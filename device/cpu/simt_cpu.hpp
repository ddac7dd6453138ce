// The CPU backend: CUDA's vocabulary for g++, so that a `.cuh` kernel runs without a GPU. A block runs on one OS
// thread, and its lanes on fibers of that thread.
//
// What a kernel may rely on:
// - A lane runs until it waits (barrier, warp collective, relax) or ends. Only then another lane runs. With a seed it
//   may also be preempted at every atomic. A loop that waits for another lane calls gravel::relax.
// - Lanes wait for each other only within a block. Of the blocks of a launch, `threads` run at once, in the order of
//   their index. A block must not wait for one that starts after it unless the grid has at most `threads` blocks. With
//   a seed the blocks run one after the other, in any order: then none may wait for another. Blocks of a cooperative
//   launch may always wait for each other. With a seed they take turns, in an order drawn from it, at the places where
//   lanes do.
// - A barrier counts the lanes that have not ended. Here a lane ends when it returns. On a GPU a lane that left a loop
//   with a barrier in it may be kept until its warp reconverges, so that the barrier hangs (seen on an H200). Portable
//   kernels let whole warps leave, or return before the first barrier.
// - Destructors of a kernel's objects run also when another lane failed. They must not wait for other lanes.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "lib/base/atomic.hpp"
#include "lib/base/relax.hpp"

#if defined(__VECTOR_TYPES_H__) || defined(__CUDA_RUNTIME_H__)
#error "a file compiled by g++ includes either the CUDA runtime's headers or device/cpu/simt_cpu.hpp, not both"
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
/// A block runs on one OS thread, and a thread runs one block at a time. So thread-local memory is shared by exactly
/// the lanes of one block. As on a GPU, it begins with whatever the previous block left there.
#define __shared__ static thread_local
/// Not called __noinline__: that macro would break every header that contains __attribute__((__noinline__)).
#define GRAVEL_NOINLINE __attribute__((noinline))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
// Defined in libgravel only: a program with its own copy would not see the values that libgravel sets.
GRAVEL_API extern constinit thread_local uint3 threadIdx, blockIdx;
GRAVEL_API extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace gravel::detail::simt {

struct launch_options {
  unsigned threads = 0;     ///< OS threads that run blocks, with the caller; 0: one per processor
  uint64_t seed = 0;        ///< not 0: blocks and lanes run in an order drawn from it, one at a time
  size_t shared_bytes = 0;  ///< dynamic shared memory of each block, at most 227 KiB
  size_t stack_bytes = 0;   ///< stack of each lane, at least 16 KiB; 0: 64 KiB. Four times as much under a sanitizer
  /// All blocks run at the same time, each on its own thread, whatever `threads` is; at most 256.
  bool cooperative = false;
};

/// Runs `kernel` in every lane of every block and returns when all have ended. An exception of a lane ends the launch
/// and is thrown here (of several, the first one). Throws gravel::error for a bad shape, for a launch from inside a
/// kernel, and for a deadlock. Any number of threads may launch at once. The same seed gives the same schedule, if
/// everything else that the kernel sees is the same.
void launch(dim3 grid, dim3 block, const launch_options& options, const std::function<void()>& kernel);
/// Throws gravel::error for a shape and options that launch() would not run.
void check_launch(dim3 grid, dim3 block, const launch_options& options);

namespace inner {

#define GRAVEL_WARP_OPS(X)           \
  X(sync, "__syncwarp")              \
  X(ballot, "__ballot_sync")         \
  X(all, "__all_sync")               \
  X(any, "__any_sync")               \
  X(shuffle, "a __shfl_sync")        \
  X(match_any, "__match_any_sync")   \
  X(match_all, "__match_all_sync")   \
  X(add, "a __reduce_sync")          \
  X(min_signed, "a __reduce_sync")   \
  X(min_unsigned, "a __reduce_sync") \
  X(max_signed, "a __reduce_sync")   \
  X(max_unsigned, "a __reduce_sync") \
  X(bit_and, "a __reduce_sync")      \
  X(bit_or, "a __reduce_sync")       \
  X(bit_xor, "a __reduce_sync")
enum class warp_op : uint8_t { GRAVEL_WARP_OPS(GRAVEL_NAME) };
enum class block_op : uint8_t { sync, count, all, any };

// State of the lane that runs on this thread now. It is set at every switch.
GRAVEL_API extern constinit thread_local uint32_t lane_in_block;
GRAVEL_API extern constinit thread_local bool explores;  ///< the launch has a seed
GRAVEL_API extern constinit thread_local char* dynamic_shared;
GRAVEL_API extern constinit thread_local size_t dynamic_shared_bytes;
GRAVEL_API extern constinit thread_local bool cooperative;       ///< the launch is cooperative
GRAVEL_API extern constinit thread_local uint64_t blocks_begun;  ///< blocks that this thread has begun
/// Arrivals of the launch's blocks where all blocks wait for each other (cooperative_groups.h).
GRAVEL_API extern constinit thread_local uint64_t* grid_arrivals;

GRAVEL_API extern constinit thread_local bool running_lanes;

inline uint32_t own_lane() { return lane_in_block % 32; }
inline uint32_t own_bit() { return 1u << own_lane(); }

uint64_t warp_collective(warp_op op, uint32_t mask, uint64_t value, uint32_t argument);
int block_collective(block_op op, bool predicate);
uint32_t active_mask();
void sleep(unsigned nanoseconds);
[[noreturn]] void trap();
[[noreturn]] void bad_width(int width);

template <class T>
uint64_t to_bits(T value) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "a 4- or 8-byte number");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Reads the value of lane `source` of the warp.
template <class T>
T shuffle(uint32_t mask, T value, uint32_t source) {
  if (mask == own_bit()) return source == own_lane() ? value : from_bits<T>(~to_bits(value));
  return from_bits<T>(warp_collective(warp_op::shuffle, mask, to_bits(value), source));
}
template <class T>
T reduce(warp_op op, uint32_t mask, T value) {
  return mask == own_bit() ? value : from_bits<T>(warp_collective(op, mask, to_bits(value), 0));
}
inline uint32_t segment(int width) {  // mask of the lane bits that name a segment
  if (width <= 0 || width > 32 || (width & (width - 1))) [[unlikely]]
    bad_width(width);
  return 32u - static_cast<uint32_t>(width);
}
}  // namespace inner

/// Returns true if this thread runs a lane of a kernel now.
inline bool in_kernel() { return inner::running_lanes; }
/// Number of the lane in its warp. Valid in kernels only.
inline uint32_t lane_in_warp() { return inner::own_lane(); }

}  // namespace gravel::detail::simt

#include "device/cpu/simt_cpu_atomic.hpp"

/// The block's dynamic shared memory: as many bytes as the launch asked for, 128-byte aligned.
inline char* gravel_dynamic_shared() { return gravel::detail::simt::inner::dynamic_shared; }
/// Its size in bytes.
inline uint32_t gravel_dynamic_shared_bytes() {
  return static_cast<uint32_t>(gravel::detail::simt::inner::dynamic_shared_bytes);
}

/// Whether all blocks of the grid run at once.
inline bool gravel_is_cooperative() { return gravel::detail::simt::inner::cooperative; }

// ---- the block. As on the GPU, a barrier counts the lanes that have not ended.
inline void __syncthreads() {
  gravel::detail::simt::inner::block_collective(gravel::detail::simt::inner::block_op::sync, true);
}
#define GRAVEL_SIMT_VOTE(name, op)                                                                                   \
  inline int name(int predicate) {                                                                                   \
    return gravel::detail::simt::inner::block_collective(gravel::detail::simt::inner::block_op::op, predicate != 0); \
  }
GRAVEL_SIMT_VOTE(__syncthreads_count, count)
GRAVEL_SIMT_VOTE(__syncthreads_and, all)
GRAVEL_SIMT_VOTE(__syncthreads_or, any)
#undef GRAVEL_SIMT_VOTE

// ---- the warp. Mask bits beyond the end of the block are ignored. A mask that names a lane that has ended is an
// error, for all operations; in CUDA it is one only for some. Groups of one lane never switch fibers.
inline void __syncwarp(unsigned mask = ~0u) {
  using namespace gravel::detail::simt::inner;
  if (mask != own_bit()) warp_collective(warp_op::sync, mask, 0, 0);
}

/// Without a seed, returns only the caller's bit. CUDA never promises that lanes are converged, so a program must be
/// right with groups of one lane, which need no fiber switch. With a seed, returns a random set of the lanes of the
/// warp that are at this call, so that the code for larger groups is tested as well. Always inlined: the address of the
/// call determines which lanes can be together.
__forceinline__ unsigned __activemask() {
  using namespace gravel::detail::simt::inner;
  return explores ? active_mask() : own_bit();
}
#define GRAVEL_SIMT_VOTE(name, type, op, of_one)                                     \
  inline type name(unsigned mask, int predicate) {                                   \
    using namespace gravel::detail::simt::inner;                                     \
    if (mask == own_bit()) return predicate ? of_one : 0;                            \
    return static_cast<type>(warp_collective(warp_op::op, mask, predicate != 0, 0)); \
  }
GRAVEL_SIMT_VOTE(__ballot_sync, unsigned, ballot, mask)
GRAVEL_SIMT_VOTE(__any_sync, int, any, 1)
GRAVEL_SIMT_VOTE(__all_sync, int, all, 1)
#undef GRAVEL_SIMT_VOTE

// Shuffles. In CUDA a value read from a lane outside the mask is undefined. Here it is the complement of the reader's
// own value, so that a program that uses it fails visibly. As in CUDA, a value smaller than an int becomes an int.
template <class T>
auto __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  using namespace gravel::detail::simt::inner;
  const uint32_t keep = segment(width);
  return shuffle(mask, +value, (own_lane() & keep) | (static_cast<uint32_t>(source) & ~keep & 31));
}
template <class T>
auto __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  using namespace gravel::detail::simt::inner;
  const uint32_t first = own_lane() & segment(width);
  return shuffle(mask, +value, own_lane() - first >= delta ? own_lane() - delta : own_lane());
}
template <class T>
auto __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  using namespace gravel::detail::simt::inner;
  const uint32_t last = own_lane() | (~segment(width) & 31);
  return shuffle(mask, +value, last - own_lane() >= delta ? own_lane() + delta : own_lane());
}
template <class T>
auto __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  using namespace gravel::detail::simt::inner;
  const uint32_t last = own_lane() | (~segment(width) & 31), source = own_lane() ^ static_cast<uint32_t>(lane_mask);
  return shuffle(mask, +value, source <= last ? source : own_lane());
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  using namespace gravel::detail::simt::inner;
  if (mask == own_bit()) return mask;
  return static_cast<unsigned>(warp_collective(warp_op::match_any, mask, to_bits(value), 0));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate) {
  using namespace gravel::detail::simt::inner;
  const auto same = static_cast<unsigned>(warp_collective(warp_op::match_all, mask, to_bits(value), 0));
  *predicate = same != 0;
  return same;
}

#define GRAVEL_SIMT_REDUCE(name, type, op)                                                             \
  inline type name(unsigned mask, type value) {                                                        \
    return gravel::detail::simt::inner::reduce(gravel::detail::simt::inner::warp_op::op, mask, value); \
  }
GRAVEL_SIMT_REDUCE(__reduce_add_sync, unsigned, add)
GRAVEL_SIMT_REDUCE(__reduce_add_sync, int, add)
GRAVEL_SIMT_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
GRAVEL_SIMT_REDUCE(__reduce_min_sync, int, min_signed)
GRAVEL_SIMT_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
GRAVEL_SIMT_REDUCE(__reduce_max_sync, int, max_signed)
GRAVEL_SIMT_REDUCE(__reduce_and_sync, unsigned, bit_and)
GRAVEL_SIMT_REDUCE(__reduce_or_sync, unsigned, bit_or)
GRAVEL_SIMT_REDUCE(__reduce_xor_sync, unsigned, bit_xor)
#undef GRAVEL_SIMT_REDUCE

// ---- one lane
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
inline void __nanosleep(unsigned nanoseconds) { gravel::detail::simt::inner::sleep(nanoseconds); }
inline long long clock64() {
#if defined(__x86_64__)
  return static_cast<long long>(__builtin_ia32_rdtsc());
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
#endif
}
[[noreturn]] inline void __trap() { gravel::detail::simt::inner::trap(); }
