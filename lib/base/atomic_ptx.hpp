// The PTX instructions of lib/base/atomic.hpp, one for each order, scope and width. They are those that libcu++'s
// cuda::atomic_ref emits; its header alone costs three seconds of compile time in every program. Each also keeps the
// compiler from moving accesses to memory across it.
#pragma once
#include <cstdint>
#include <type_traits>

#if defined(__CUDA_ARCH__)
namespace gravel::detail {

enum class scope;

namespace inner {

/// The unsigned number with the bits of a T.
template <class T>
using bits_of = std::conditional_t<
    sizeof(T) == 8, uint64_t,
    std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
template <class T>
__device__ __forceinline__ bits_of<T> to_bits(T value) {
  return __builtin_bit_cast(bits_of<T>, value);
}
template <class T>
__device__ __forceinline__ T from_bits(bits_of<T> bits) {
  return __builtin_bit_cast(T, bits);
}
template <class T>
__device__ __forceinline__ auto raw(T* word) {
  using bits = bits_of<std::remove_const_t<T>>;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const bits*, bits*>>(word);
}

/// The address operand of an instruction that reads or writes.
template <scope S, class T>
__device__ __forceinline__ uint64_t place(const T* at) {
  return S == scope::shared ? __cvta_generic_to_shared(at) : reinterpret_cast<uint64_t>(at);
}

#define GRAVEL_PTX_IN_SCOPE(before, after, ...)                                            \
  if constexpr (S == scope::shared) asm volatile(before ".cta.shared." after __VA_ARGS__); \
  else if constexpr (S == scope::block) asm volatile(before ".cta." after __VA_ARGS__);    \
  else if constexpr (S == scope::device) asm volatile(before ".gpu." after __VA_ARGS__);   \
  else asm volatile(before ".sys." after __VA_ARGS__)

/// The address operand of an instruction that reads and writes. It says that words of the scopes device and system are
/// in global memory. With a generic address the thread would wait for the result, even an unused one, to check whether
/// the word is in shared memory, and the compiler would add a loop for that case.
#define GRAVEL_PTX_ATOMIC(before, after, ...)                                                   \
  if constexpr (S == scope::shared) asm volatile(before ".cta.shared." after __VA_ARGS__);      \
  else if constexpr (S == scope::block) asm volatile(before ".cta." after __VA_ARGS__);         \
  else if constexpr (S == scope::device) asm volatile(before ".gpu.global." after __VA_ARGS__); \
  else asm volatile(before ".sys.global." after __VA_ARGS__)

#define GRAVEL_PTX_LOAD(name, instruction, word, type, constraint)                                               \
  template <scope S>                                                                                             \
  __device__ __forceinline__ word name(const word* at) {                                                         \
    word value;                                                                                                  \
    GRAVEL_PTX_IN_SCOPE(instruction, type " %0, [%1];", : "=" constraint(value) : "l"(place<S>(at)) : "memory"); \
    return value;                                                                                                \
  }
#define GRAVEL_PTX_STORE(name, instruction, word, type, constraint)                                           \
  template <scope S>                                                                                          \
  __device__ __forceinline__ void name(word* at, word value) {                                                \
    GRAVEL_PTX_IN_SCOPE(instruction, type " [%0], %1;", : : "l"(place<S>(at)), constraint(value) : "memory"); \
  }
#define GRAVEL_PTX_UPDATE(name, instruction, word, type, constraint) \
  template <scope S>                                                 \
  __device__ __forceinline__ word name(word* at, word value) {       \
    word old;                                                        \
    GRAVEL_PTX_ATOMIC(instruction, type " %0, [%1], %2;",            \
                      : "=" constraint(old)                          \
                      : "l"(place<S>(at)), constraint(value)         \
                      : "memory");                                   \
    return old;                                                      \
  }
#define GRAVEL_PTX_SWAP(name, instruction, word, type, constraint)                   \
  template <scope S>                                                                 \
  __device__ __forceinline__ word name(word* at, word expected, word desired) {      \
    word old;                                                                        \
    GRAVEL_PTX_ATOMIC(instruction, type " %0, [%1], %2, %3;",                        \
                      : "=" constraint(old)                                          \
                      : "l"(place<S>(at)), constraint(expected), constraint(desired) \
                      : "memory");                                                   \
    return old;                                                                      \
  }

#define GRAVEL_PTX_WORD(word, type, constraint)                                      \
  GRAVEL_PTX_LOAD(ptx_load_relaxed, "ld.relaxed", word, "b" type, constraint)        \
  GRAVEL_PTX_LOAD(ptx_load_acquire, "ld.acquire", word, "b" type, constraint)        \
  GRAVEL_PTX_STORE(ptx_store_relaxed, "st.relaxed", word, "b" type, constraint)      \
  GRAVEL_PTX_STORE(ptx_store_release, "st.release", word, "b" type, constraint)      \
  GRAVEL_PTX_UPDATE(ptx_add_relaxed, "atom.add.relaxed", word, "u" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_add_acquire, "atom.add.acquire", word, "u" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_add_release, "atom.add.release", word, "u" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_add_acq_rel, "atom.add.acq_rel", word, "u" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_and_acquire, "atom.and.acquire", word, "b" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_max_relaxed, "atom.max.relaxed", word, "u" type, constraint) \
  GRAVEL_PTX_UPDATE(ptx_max_acq_rel, "atom.max.acq_rel", word, "u" type, constraint) \
  GRAVEL_PTX_SWAP(ptx_swap_relaxed, "atom.cas.relaxed", word, "b" type, constraint)  \
  GRAVEL_PTX_SWAP(ptx_swap_acquire, "atom.cas.acquire", word, "b" type, constraint)  \
  GRAVEL_PTX_SWAP(ptx_swap_acq_rel, "atom.cas.acq_rel", word, "b" type, constraint)
GRAVEL_PTX_WORD(uint64_t, "64", "l")
GRAVEL_PTX_WORD(uint32_t, "32", "r")
// Narrow words are only read, by gravel_wait_until.
GRAVEL_PTX_LOAD(ptx_load_relaxed, "ld.relaxed", uint16_t, "b16", "h")
GRAVEL_PTX_LOAD(ptx_load_acquire, "ld.acquire", uint16_t, "b16", "h")
#define GRAVEL_PTX_LOAD_BYTE(name, instruction)                                                     \
  template <scope S>                                                                                \
  __device__ __forceinline__ uint8_t name(const uint8_t* at) {                                      \
    uint16_t value; /* there is no register for a byte */                                           \
    GRAVEL_PTX_IN_SCOPE(instruction, "b8 %0, [%1];", : "=h"(value) : "l"(place<S>(at)) : "memory"); \
    return static_cast<uint8_t>(value);                                                             \
  }
GRAVEL_PTX_LOAD_BYTE(ptx_load_relaxed, "ld.relaxed")
GRAVEL_PTX_LOAD_BYTE(ptx_load_acquire, "ld.acquire")

#undef GRAVEL_PTX_LOAD_BYTE
#undef GRAVEL_PTX_WORD
#undef GRAVEL_PTX_SWAP
#undef GRAVEL_PTX_UPDATE
#undef GRAVEL_PTX_STORE
#undef GRAVEL_PTX_LOAD

#undef GRAVEL_PTX_IN_SCOPE

template <scope S>
__device__ __forceinline__ void ptx_fence() {
  if constexpr (S == scope::shared || S == scope::block) asm volatile("fence.acq_rel.cta;" : : : "memory");
  else if constexpr (S == scope::device) asm volatile("fence.acq_rel.gpu;" : : : "memory");
  else asm volatile("fence.acq_rel.sys;" : : : "memory");
}
__device__ __forceinline__ void ptx_full_fence() { asm volatile("fence.sc.sys;" : : : "memory"); }

}  // namespace inner
}  // namespace gravel::detail
#endif
