// Scoped atomics on plain words, spelled once for GPU and CPU. Words that two processors share are plain integers
// in structs whose layout is fixed; these functions are the only way they are touched.
//
// On the host every call is also an interleaving point: a test may install `interleave_hook` to switch to another
// lane there, so that lock-free code is explored under seeded schedules (device/simt_cpu.hpp).
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

#if GRAVEL_CUDA
#include <cuda/atomic>
#endif

namespace gravel {

/// Who takes part: the lanes of a block, all kernels of one GPU, or GPU and CPU together.
enum class scope { block, device, system };

#if !GRAVEL_CUDA
using interleave_function = void (*)();
inline constinit thread_local interleave_function interleave_hook = nullptr;
inline void interleave_point() {
  if (interleave_hook) interleave_hook();
}
#else
GRAVEL_BOTH void interleave_point() {}
#endif

#if GRAVEL_CUDA
namespace detail {
template <scope S>
struct cuda_scope;
template <>
struct cuda_scope<scope::block> {
  static constexpr auto value = cuda::thread_scope_block;
};
template <>
struct cuda_scope<scope::device> {
  static constexpr auto value = cuda::thread_scope_device;
};
template <>
struct cuda_scope<scope::system> {
  static constexpr auto value = cuda::thread_scope_system;
};
template <scope S, class T>
using atomic_ref = cuda::atomic_ref<T, cuda_scope<S>::value>;
}  // namespace detail
#define GRAVEL_ATOMIC(gpu, cpu) return gpu;
#else
#define GRAVEL_ATOMIC(gpu, cpu) \
  interleave_point();           \
  return cpu;
#endif

template <scope S = scope::system, class T>
GRAVEL_BOTH T load_relaxed(const T* word) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*const_cast<T*>(word)).load(cuda::std::memory_order_relaxed)),
                __atomic_load_n(word, __ATOMIC_RELAXED))
}
template <scope S = scope::system, class T>
GRAVEL_BOTH T load_acquire(const T* word) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*const_cast<T*>(word)).load(cuda::std::memory_order_acquire)),
                __atomic_load_n(word, __ATOMIC_ACQUIRE))
}
/// Several acquiring loads at once: on the GPU they are relaxed, and ordered by acquire_now() behind the last.
template <class T>
GRAVEL_BOTH T load_acquire_later(const T* word) {
#if GRAVEL_ON_GPU
  return load_relaxed(word);
#else
  return load_acquire(word);
#endif
}
GRAVEL_BOTH void acquire_now() {
#if GRAVEL_ON_GPU
  cuda::atomic_thread_fence(cuda::std::memory_order_acquire, cuda::thread_scope_system);
#endif
}
template <scope S = scope::system, class T>
GRAVEL_BOTH void store_relaxed(T* word, T value) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*word).store(value, cuda::std::memory_order_relaxed)),
                __atomic_store_n(word, value, __ATOMIC_RELAXED))
}
template <scope S = scope::system, class T>
GRAVEL_BOTH void store_release(T* word, T value) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*word).store(value, cuda::std::memory_order_release)),
                __atomic_store_n(word, value, __ATOMIC_RELEASE))
}
template <scope S = scope::device, class T>
GRAVEL_BOTH T fetch_add(T* word, T value) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*word).fetch_add(value, cuda::std::memory_order_relaxed)),
                __atomic_fetch_add(word, value, __ATOMIC_RELAXED))
}
template <scope S = scope::device, class T>
GRAVEL_BOTH T fetch_add_release(T* word, T value) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*word).fetch_add(value, cuda::std::memory_order_release)),
                __atomic_fetch_add(word, value, __ATOMIC_RELEASE))
}
/// Compare and swap, acquire on success: true if *word was `expected` and is now `desired`.
template <scope S = scope::device, class T>
GRAVEL_BOTH bool compare_swap_acquire(T* word, T expected, T desired) {
  GRAVEL_ATOMIC((detail::atomic_ref<S, T>(*word).compare_exchange_strong(
                    expected, desired, cuda::std::memory_order_acquire, cuda::std::memory_order_relaxed)),
                __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
}
/// *word = max(*word, value), release; returns the larger of the two.
template <scope S = scope::device, class T>
GRAVEL_BOTH T raise_to(T* word, T value) {
#if GRAVEL_ON_GPU
  const T old = detail::atomic_ref<S, T>(*word).fetch_max(value, cuda::std::memory_order_acq_rel);
  return old > value ? old : value;
#else
  interleave_point();
  T old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (old < value && !__atomic_compare_exchange_n(word, &old, value, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return old > value ? old : value;
#endif
}

/// The same without an order and without an answer, so that nobody waits for it.
template <scope S = scope::device, class T>
GRAVEL_BOTH void raise_relaxed(T* word, T value) {
#if GRAVEL_ON_GPU
  detail::atomic_ref<S, T>(*word).fetch_max(value, cuda::std::memory_order_relaxed);
#else
  raise_to<S>(word, value);
#endif
}

/// All that this thread wrote before is visible everywhere before what it writes after.
GRAVEL_BOTH void thread_fence() {
#if GRAVEL_ON_GPU
  cuda::atomic_thread_fence(cuda::std::memory_order_acq_rel, cuda::thread_scope_system);
#endif
}

#undef GRAVEL_ATOMIC

}  // namespace gravel
