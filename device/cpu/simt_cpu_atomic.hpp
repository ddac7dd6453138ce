// CUDA's atomic functions and fences for the CPU backend (included by simt_cpu.hpp). They take CUDA's types, and also
// `unsigned long` and `long`, which are uint64_t and int64_t on Linux. All are relaxed, as in CUDA, and each is an
// interleaving point (lib/base/atomic.hpp).
#pragma once
#include <atomic>
#include <concepts>
#include <type_traits>

#include "lib/base/atomic.hpp"

namespace gravel::detail::simt::inner {

template <class T, class... U>
concept one_of = (std::same_as<T, U> || ...);

/// *word = f(*word). Returns the old value.
template <class T, class F>
T update(T* word, F f) {
  interleave_point();
  std::atomic_ref<T> shared(*word);
  T old = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(old, f(old), std::memory_order_relaxed)) {
  }
  return old;
}
template <class T>
std::atomic_ref<T> at(T* word) {
  interleave_point();
  return std::atomic_ref<T>(*word);
}

#if defined(__SANITIZE_THREAD__)
GRAVEL_API inline std::atomic<int> fence_word{0};
#endif
inline void fence() {
  interleave_point();
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer ignores fences. A read-modify-write of one common word orders all lanes that pass here.
  fence_word.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
}  // namespace gravel::detail::simt::inner

// The value's type follows from the word's, so that atomicAdd(&an_unsigned, 1) works as it does in CUDA. The arguments
// after the expression are the types of words that CUDA has.
#define GRAVEL_SIMT_ATOMIC_SCOPE(name, expression, ...)         \
  template <gravel::detail::simt::inner::one_of<__VA_ARGS__> T> \
  T name(T* word, std::type_identity_t<T> value) {              \
    using namespace gravel::detail::simt::inner;                \
    return expression;                                          \
  }
#define GRAVEL_SIMT_ATOMIC(name, ...)                 \
  GRAVEL_SIMT_ATOMIC_SCOPE(name, __VA_ARGS__)         \
  GRAVEL_SIMT_ATOMIC_SCOPE(name##_block, __VA_ARGS__) \
  GRAVEL_SIMT_ATOMIC_SCOPE(name##_system, __VA_ARGS__)

GRAVEL_SIMT_ATOMIC(atomicAdd, at(word).fetch_add(value, std::memory_order_relaxed), int, unsigned, unsigned long,
                   unsigned long long, float, double)
GRAVEL_SIMT_ATOMIC(atomicSub, at(word).fetch_sub(value, std::memory_order_relaxed), int, unsigned)
GRAVEL_SIMT_ATOMIC(atomicMin, update(word, [=](T old) { return old < value ? old : value; }), int, unsigned, long,
                   unsigned long, long long, unsigned long long)
GRAVEL_SIMT_ATOMIC(atomicMax, update(word, [=](T old) { return old > value ? old : value; }), int, unsigned, long,
                   unsigned long, long long, unsigned long long)
GRAVEL_SIMT_ATOMIC(atomicAnd, at(word).fetch_and(value, std::memory_order_relaxed), int, unsigned, unsigned long,
                   unsigned long long)
GRAVEL_SIMT_ATOMIC(atomicOr, at(word).fetch_or(value, std::memory_order_relaxed), int, unsigned, unsigned long,
                   unsigned long long)
GRAVEL_SIMT_ATOMIC(atomicXor, at(word).fetch_xor(value, std::memory_order_relaxed), int, unsigned, unsigned long,
                   unsigned long long)
// Counters modulo value + 1, upwards and downwards.
GRAVEL_SIMT_ATOMIC(atomicInc, update(word, [=](T old) { return old >= value ? 0 : old + 1; }), unsigned)
GRAVEL_SIMT_ATOMIC(atomicDec, update(word, [=](T old) { return old == 0 || old > value ? value : old - 1; }), unsigned)
GRAVEL_SIMT_ATOMIC(atomicExch, at(word).exchange(value, std::memory_order_relaxed), int, unsigned, unsigned long,
                   unsigned long long, float)
#undef GRAVEL_SIMT_ATOMIC
#undef GRAVEL_SIMT_ATOMIC_SCOPE

#define GRAVEL_SIMT_CAS(name)                                                                                        \
  template <gravel::detail::simt::inner::one_of<int, unsigned, unsigned long, unsigned long long, unsigned short> T> \
  T name(T* word, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {                               \
    gravel::detail::simt::inner::at(word).compare_exchange_strong(expected, desired, std::memory_order_relaxed);     \
    return expected;                                                                                                 \
  }
GRAVEL_SIMT_CAS(atomicCAS)
GRAVEL_SIMT_CAS(atomicCAS_block)
GRAVEL_SIMT_CAS(atomicCAS_system)
#undef GRAVEL_SIMT_CAS

inline void __threadfence() { gravel::detail::simt::inner::fence(); }
inline void __threadfence_block() { gravel::detail::simt::inner::fence(); }
inline void __threadfence_system() { gravel::detail::simt::inner::fence(); }
