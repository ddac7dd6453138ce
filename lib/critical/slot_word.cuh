// Slot word: a record and its lock as one word of 16 bytes, which is read, written, and compared and swapped as a
// whole. So a small record costs one access to memory, not one for each of its words and some more for the lock.
//
// 16 bytes are atomic on GPUs of compute capability 9.0 and later, and on processors with such an instruction. Loads
// and stores here are relaxed, unless the name says otherwise.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"

namespace gravel::detail {

struct alignas(16) slot_word {
  uint64_t part[2];
};

#if GRAVEL_ON_GPU
/// Does this device have atomic words of 16 bytes? The answer is the same for all kernels of a program.
#if __CUDA_ARCH__ >= 900
constexpr bool has_slot_words = true;
#else
constexpr bool has_slot_words = false;
#endif
#else
constexpr bool has_slot_words = true;
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// An instruction of device or system scope.
#define GRAVEL_SLOT(instruction, more, ...)                                                    \
  if constexpr (S == scope::device) asm volatile(instruction ".gpu.global." more __VA_ARGS__); \
  else asm volatile(instruction ".sys.global." more __VA_ARGS__)
template <scope S = scope::device>
__device__ __forceinline__ slot_word load_slot(const slot_word* at) {
  slot_word w;
  GRAVEL_SLOT("{.reg .b128 v; ld.relaxed", "b128 v, [%2]; mov.b128 {%0, %1}, v;}",
              : "=l"(w.part[0]), "=l"(w.part[1])
              : "l"(at)
              : "memory");
  return w;
}
#define GRAVEL_SLOT_STORE(name, order)                                              \
  template <scope S = scope::device>                                                \
  __device__ __forceinline__ void name(slot_word* at, const slot_word& w) {         \
    GRAVEL_SLOT("{.reg .b128 v; mov.b128 v, {%1, %2}; st." order, "b128 [%0], v;}", \
                :                                                                   \
                : "l"(at), "l"(w.part[0]), "l"(w.part[1])                           \
                : "memory");                                                        \
  }
GRAVEL_SLOT_STORE(store_slot, "relaxed")
GRAVEL_SLOT_STORE(store_slot_release, "release")
#define GRAVEL_SLOT_SWAP(name, order)                                                             \
  template <scope S = scope::device>                                                              \
  __device__ __forceinline__ bool name(slot_word* at, slot_word& seen, const slot_word& to) {     \
    uint64_t a, b;                                                                                \
    GRAVEL_SLOT("{.reg .b128 e, d, o; mov.b128 e, {%3, %4}; mov.b128 d, {%5, %6}; atom." order,   \
                "cas.b128 o, [%2], e, d; mov.b128 {%0, %1}, o;}",                                 \
                : "=l"(a), "=l"(b)                                                                \
                : "l"(at), "l"(seen.part[0]), "l"(seen.part[1]), "l"(to.part[0]), "l"(to.part[1]) \
                : "memory");                                                                      \
    const bool same = a == seen.part[0] && b == seen.part[1];                                     \
    seen = {{a, b}};                                                                              \
    return same;                                                                                  \
  }
GRAVEL_SLOT_SWAP(swap_slot, "relaxed")
GRAVEL_SLOT_SWAP(swap_slot_acquire, "acquire")
#undef GRAVEL_SLOT_SWAP
#undef GRAVEL_SLOT_STORE
#undef GRAVEL_SLOT
#elif GRAVEL_ON_GPU
// Older devices: these are never called.
template <scope S = scope::device>
__device__ slot_word load_slot(const slot_word* at);
template <scope S = scope::device>
__device__ void store_slot(slot_word* at, const slot_word& w);
template <scope S = scope::device>
__device__ void store_slot_release(slot_word* at, const slot_word& w);
template <scope S = scope::device>
__device__ bool swap_slot(slot_word* at, slot_word& seen, const slot_word& to);
template <scope S = scope::device>
__device__ bool swap_slot_acquire(slot_word* at, slot_word& seen, const slot_word& to);
#else
namespace inner {
__extension__ using slot_bits = unsigned __int128;
#if defined(__x86_64__)
#define GRAVEL_WIDE_SWAP __attribute__((target("cx16")))
#else
#define GRAVEL_WIDE_SWAP
#endif
/// Returns the value that was there.
GRAVEL_WIDE_SWAP inline slot_bits swap_wide(slot_bits* at, slot_bits expected, slot_bits desired) {
  return __sync_val_compare_and_swap(at, expected, desired);
}
#undef GRAVEL_WIDE_SWAP
inline slot_bits to_bits(const slot_word& w) { return slot_bits{w.part[1]} << 64 | w.part[0]; }
inline slot_word to_slot(slot_bits b) { return {{static_cast<uint64_t>(b), static_cast<uint64_t>(b >> 64)}}; }
}  // namespace inner
template <scope = scope::device>
GRAVEL_BOTH slot_word load_slot(const slot_word* at) {
  interleave_point();
  return inner::to_slot(inner::swap_wide(reinterpret_cast<inner::slot_bits*>(const_cast<slot_word*>(at)), 0, 0));
}
/// Sets `seen` to the value that was there.
template <scope = scope::device>
GRAVEL_BOTH bool swap_slot(slot_word* at, slot_word& seen, const slot_word& to) {
  interleave_point();
  const inner::slot_bits expected = inner::to_bits(seen),
                         old = inner::swap_wide(reinterpret_cast<inner::slot_bits*>(at), expected, inner::to_bits(to));
  seen = inner::to_slot(old);
  return old == expected;
}
template <scope = scope::device>
GRAVEL_BOTH bool swap_slot_acquire(slot_word* at, slot_word& seen, const slot_word& to) {
  return swap_slot(at, seen, to);
}
template <scope = scope::device>
GRAVEL_BOTH void store_slot(slot_word* at, const slot_word& w) {
  for (slot_word seen = load_slot(at); !swap_slot(at, seen, w);) {
  }
}
template <scope = scope::device>
GRAVEL_BOTH void store_slot_release(slot_word* at, const slot_word& w) {
  store_slot(at, w);
}
#endif

}  // namespace gravel::detail
