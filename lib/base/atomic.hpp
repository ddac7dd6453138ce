// Scoped atomics on plain words, with one spelling for GPU and CPU. Words that two processors share are plain integers
// in structs whose layout is fixed. Code accesses them only with these functions.
//
// On the host every call is also an interleaving point: a test may install `interleave_hook` to switch to another lane
// there, so that it explores lock-free code under seeded schedules (device/cpu/simt_cpu.hpp).
//
// All calls of this file have in common:
// @param word in memory that the scope reaches, aligned to its type
// @scope lane, or a host thread. S, a gravel::scope, says whose loads and stores it is ordered with: by default the
//   system's
// @completion on return
// @errors none are checked
// @source PTX memory consistency model; C++20 atomics
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/atomic_ptx.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The processors that take part: the lanes of a block, all kernels of one GPU, or GPU and CPU together. `shared`: the
/// lanes of a block, for words in its shared memory; the instructions then need not find out the kind of memory. Words
/// of `device` and `system` must not lie in shared memory, nor on a stack: atomics that return a value (fetch_add and
/// the like) fault there.
enum class scope { shared, block, device, system };

#if !GRAVEL_CUDA
using interleave_function = void (*)();
GRAVEL_API extern constinit thread_local interleave_function interleave_hook;
inline void interleave_point() {
  if (interleave_hook) interleave_hook();
}
#else
GRAVEL_BOTH void interleave_point() {}
#endif

#if GRAVEL_ON_GPU
#define GRAVEL_ATOMIC(gpu, cpu) return gpu;
#else
namespace inner {
/// Loads a word, also a floating point number, which __atomic_load_n does not take.
template <int ORDER, class T>
GRAVEL_BOTH T load(const T* word) {
  T value;
  __atomic_load(word, &value, ORDER);
  return value;
}
}  // namespace inner
#define GRAVEL_ATOMIC(gpu, cpu) \
  interleave_point();           \
  return cpu;
#endif

/// Loads at once, without order.
/// @return the value
template <scope S = scope::system, class T>
GRAVEL_BOTH T load_relaxed(const T* word) {
  GRAVEL_ATOMIC(inner::from_bits<T>(inner::ptx_load_relaxed<S>(inner::raw(word))), inner::load<__ATOMIC_RELAXED>(word))
}
/// Loads with acquire order: what was written before the store_release that it sees is visible.
/// @return the value
template <scope S = scope::system, class T>
GRAVEL_BOTH T load_acquire(const T* word) {
  GRAVEL_ATOMIC(inner::from_bits<T>(inner::ptx_load_acquire<S>(inner::raw(word))), inner::load<__ATOMIC_ACQUIRE>(word))
}
/// One of several acquiring loads that run at once. On the GPU they are relaxed, and acquire_now() behind the last
/// orders them.
template <scope S = scope::system, class T>
GRAVEL_BOTH T load_acquire_later(const T* word) {
  if constexpr (GRAVEL_ON_GPU) return load_relaxed<S>(word);
  else return load_acquire<S>(word);
}
template <scope S = scope::system>
GRAVEL_BOTH void acquire_now() {
#if GRAVEL_ON_GPU
  inner::ptx_fence<S>();
#endif
}
/// Stores at once, without order.
/// @param value what is stored
template <scope S = scope::system, class T>
GRAVEL_BOTH void store_relaxed(T* word, T value) {
  GRAVEL_ATOMIC((inner::ptx_store_relaxed<S>(inner::raw(word), inner::to_bits(value))),
                __atomic_store_n(word, value, __ATOMIC_RELAXED))
}
/// Stores with release order: a thread that sees the value with load_acquire sees what was written before.
/// @param value what is stored
template <scope S = scope::system, class T>
GRAVEL_BOTH void store_release(T* word, T value) {
  GRAVEL_ATOMIC((inner::ptx_store_release<S>(inner::raw(word), inner::to_bits(value))),
                __atomic_store_n(word, value, __ATOMIC_RELEASE))
}
/// As store_release, for a caller that has called thread_fence() behind all that must be visible. On the GPU the fence
/// was the release already.
template <scope S = scope::system, class T>
GRAVEL_BOTH void store_behind_fence(T* word, T value) {
  if constexpr (GRAVEL_ON_GPU) store_relaxed<S>(word, value);
  else store_release<S>(word, value);
}
#define GRAVEL_FETCH_ADD(name, ptx, order)                                                       \
  template <scope S = scope::device, class T>                                                    \
  GRAVEL_BOTH T name(T* word, T value) {                                                         \
    GRAVEL_ATOMIC((inner::from_bits<T>(inner::ptx<S>(inner::raw(word), inner::to_bits(value)))), \
                  __atomic_fetch_add(word, value, order))                                        \
  }
/// Adds at once, without order: `*word += value`.
/// @param value what is added
/// @return the value before
GRAVEL_FETCH_ADD(fetch_add, ptx_add_relaxed, __ATOMIC_RELAXED)
GRAVEL_FETCH_ADD(fetch_add_acquire, ptx_add_acquire, __ATOMIC_ACQUIRE)
/// Adds at once with release order: `*word += value`.
/// @param value what is added
/// @return the value before
GRAVEL_FETCH_ADD(fetch_add_release, ptx_add_release, __ATOMIC_RELEASE)
GRAVEL_FETCH_ADD(fetch_add_acq_rel, ptx_add_acq_rel, __ATOMIC_ACQ_REL)
#undef GRAVEL_FETCH_ADD
/// Clears the bits that are 0 in `mask`, with acquire order: `*word &= mask`.
/// @param mask bits that stay
/// @return the value before
template <scope S = scope::device, class T>
GRAVEL_BOTH T fetch_and_acquire(T* word, T mask) {
  GRAVEL_ATOMIC(inner::ptx_and_acquire<S>(word, mask), __atomic_fetch_and(word, mask, __ATOMIC_ACQUIRE))
}
/// As fetch_add, for one lane that does other work until it uses the result. If all active lanes add one value to one
/// word, a GPU's compiler adds once for all of them, and waits for the result to distribute it. So this call hides from
/// the compiler that `value` is equal in all lanes.
template <scope S = scope::device, class T>
GRAVEL_BOTH T fetch_add_alone(T* word, T value) {
#if GRAVEL_ON_GPU
  uint32_t own_bit;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own_bit));
  return fetch_add<S>(word, value * static_cast<T>(__popc(own_bit)));
#else
  return fetch_add<S>(word, value);
#endif
}
/// As fetch_add_release, for a caller that has called thread_fence() behind all that must be visible.
template <scope S = scope::device, class T>
GRAVEL_BOTH void add_behind_fence(T* word, T value) {
  if constexpr (GRAVEL_ON_GPU) fetch_add<S>(word, value);
  else fetch_add_release<S>(word, value);
}
/// Compare and swap with acquire order on success.
/// @param expected value that the word must have
/// @param desired value that it gets then
/// @return true if *word was `expected` and is now `desired`
template <scope S = scope::device, class T>
GRAVEL_BOTH bool compare_swap_acquire(T* word, T expected, T desired) {
  GRAVEL_ATOMIC((inner::ptx_swap_acquire<S>(word, expected, desired) == expected),
                __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
}
/// As compare_swap_acquire, but returns the value before.
template <scope S = scope::device, class T>
GRAVEL_BOTH T swap_acquire(T* word, T expected, T desired) {
#if GRAVEL_ON_GPU
  return inner::ptx_swap_acquire<S>(word, expected, desired);
#else
  interleave_point();
  __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
  return expected;
#endif
}
/// As compare_swap_acquire, with release order on success, too.
template <scope S = scope::device, class T>
GRAVEL_BOTH bool compare_swap_acq_rel(T* word, T expected, T desired) {
  GRAVEL_ATOMIC((inner::ptx_swap_acq_rel<S>(word, expected, desired) == expected),
                __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
}
/// Compare and swap with release order on success, for a caller that has called thread_fence() behind all that must be
/// visible. On the GPU the fence was the release already.
template <scope S = scope::device, class T>
GRAVEL_BOTH bool compare_swap_behind_fence(T* word, T expected, T desired) {
  GRAVEL_ATOMIC((inner::ptx_swap_relaxed<S>(word, expected, desired) == expected),
                __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
}
/// *word = max(*word, value) with acquire and release order. Returns the larger of the two.
template <scope S = scope::device, class T>
GRAVEL_BOTH T raise_to(T* word, T value) {
#if GRAVEL_ON_GPU
  const T old = inner::ptx_max_acq_rel<S>(word, value);
  return old > value ? old : value;
#else
  interleave_point();
  T old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (old < value && !__atomic_compare_exchange_n(word, &old, value, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return old > value ? old : value;
#endif
}

/// Raises at once, without order and without a result, so the caller does not wait: `*word = max(*word, value)`.
/// @param value what the word is raised to
template <scope S = scope::device, class T>
GRAVEL_BOTH void raise_relaxed(T* word, T value) {
#if GRAVEL_ON_GPU
  inner::ptx_max_relaxed<S>(word, value);
#else
  raise_to<S>(word, value);
#endif
}

namespace inner {
template <int ORDER>
void fence_on_host() {
  interleave_point();
#if defined(__GNUC__) && !defined(__clang__) && defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // ThreadSanitizer does not know fences, and needs none to see no race here
#endif
  __atomic_thread_fence(ORDER);
#if defined(__GNUC__) && !defined(__clang__) && defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
}
}  // namespace inner

/// All that this thread wrote before is visible everywhere, or in that scope, before what it writes after.
template <scope S = scope::system>
GRAVEL_BOTH void thread_fence() {
#if GRAVEL_ON_GPU
  inner::ptx_fence<S>();
#else
  inner::fence_on_host<__ATOMIC_ACQ_REL>();
#endif
}

/// What this thread wrote before is visible everywhere before this thread reads what comes after. If two threads each
/// write a word, call this, and read the other's word, at least one sees what the other wrote.
GRAVEL_BOTH void full_fence() {
#if GRAVEL_ON_GPU
  inner::ptx_full_fence();
#else
  inner::fence_on_host<__ATOMIC_SEQ_CST>();
#endif
}

#undef GRAVEL_ATOMIC

/// Copies memory that another process may write at any time into memory of this process. The caller checks the copy and
/// uses only the copy. The compiler reads the original once.
inline void copy_once(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
template <class T>
T copy_once(const T& from) {
  T copy;
  copy_once(&copy, &from, sizeof(T));
  return copy;
}

}  // namespace gravel::detail
