// Operations on this PE's own memory: for the route `self`, and for messages that arrive.
//
// They are atomic against each other and against CUDA's atomics on the same device. Operations on a peer's memory have
// system scope. Operations on a GPU's own memory have device scope, although peers may operate on it at the same time.
// The owner's L2 cache carries out both scopes, one operation after the other, and on an H200 system scope has a tenth
// of the rate (docs/design.md; test/jobs/operations_job.cu checks the sums).
#pragma once
#include "device/simt.hpp"
#include "device/value.cuh"
#include "lib/base/atomic.hpp"

namespace gravel::detail {

#if GRAVEL_ON_GPU
/// Returns `at`, an address in global memory. If the compiler does not know that, it adds a loop for shared memory.
template <class T>
__device__ __forceinline__ T* known_to_be_global(T* at) {
  __builtin_assume(__isGlobal(at));
  return at;
}
/// Calls NAME or NAME_system, as the template parameter S of the function around it says.
#define GRAVEL_IN_SCOPE(name, at, ...) \
  (S == scope::system ? name##_system(known_to_be_global(at), __VA_ARGS__) : name(known_to_be_global(at), __VA_ARGS__))
#endif

#if !GRAVEL_ON_GPU
/// *at = f(*at), atomically. Returns the old value.
template <class T, class F>
GRAVEL_BOTH T update_in_place(T* at, F f) {
  using word = std::conditional_t<sizeof(T) == 4, uint32_t, unsigned long long>;
  word* raw = reinterpret_cast<word*>(at);
  word seen = __atomic_load_n(raw, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(raw, &seen, static_cast<word>(to_word(f(from_word<T>(seen)))), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return from_word<T>(seen);
}
#endif

template <class T>
GRAVEL_BOTH void put_in_place(T* at, T value) {
#if GRAVEL_ON_GPU
  *static_cast<volatile T*>(at) = value;
#else
  __atomic_store(at, &value, __ATOMIC_RELAXED);
#endif
}
template <class T>
GRAVEL_BOTH T read_in_place(const T* at) {
#if GRAVEL_ON_GPU
  return *static_cast<const volatile T*>(at);
#else
  T value;
  __atomic_load(at, &value, __ATOMIC_RELAXED);
  return value;
#endif
}

template <scope S = scope::device, class T>
GRAVEL_BOTH T add_in_place(T* at, T value) {
#if GRAVEL_ON_GPU
  if constexpr (std::is_floating_point_v<T>) return GRAVEL_IN_SCOPE(atomicAdd, at, value);
  else if constexpr (sizeof(T) == 4)
    return static_cast<T>(GRAVEL_IN_SCOPE(atomicAdd, reinterpret_cast<unsigned*>(at), static_cast<unsigned>(value)));
  else
    return static_cast<T>(
        GRAVEL_IN_SCOPE(atomicAdd, reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value)));
#else
  if constexpr (std::is_floating_point_v<T>) return update_in_place(at, [=](T old) { return old + value; });
  else return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

#if GRAVEL_ON_GPU
#define GRAVEL_WITHOUT_ANSWER(instruction, constraint, value) \
  asm volatile(instruction " [%0], %1;" ::"l"(at), constraint(value) : "memory")
#endif

/// A put of 4 or 8 bytes, among many others in no order. A put of 4 bytes is an exchange, for whose result no lane
/// waits: a multiprocessor issues more of these than stores to as many lines.
template <class T>
GRAVEL_BOTH void put_scattered(T* at, T value) {
#if GRAVEL_ON_GPU
  if constexpr (sizeof(T) == 4) {
    [[maybe_unused]] uint32_t old;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(static_cast<uint32_t>(to_word(value)))
                 : "memory");
  } else if constexpr (sizeof(T) == 8) GRAVEL_WITHOUT_ANSWER("st.relaxed.gpu.global.b64", "l", to_word(value));
  else put_in_place(at, value);
#else
  put_in_place(at, value);
#endif
}

/// An addition among many others in no order, without an answer.
template <class T>
GRAVEL_BOTH void add_scattered(T* at, T value) {
#if GRAVEL_ON_GPU
  if constexpr (std::is_same_v<T, float>) GRAVEL_WITHOUT_ANSWER("red.relaxed.gpu.global.add.f32", "f", value);
  else if constexpr (std::is_same_v<T, double>) GRAVEL_WITHOUT_ANSWER("red.relaxed.gpu.global.add.f64", "d", value);
  else if constexpr (sizeof(T) == 4) GRAVEL_WITHOUT_ANSWER("red.relaxed.gpu.global.add.u32", "r", value);
  else GRAVEL_WITHOUT_ANSWER("red.relaxed.gpu.global.add.u64", "l", value);
#else
  add_in_place(at, value);
#endif
}

/// Bitwise and arithmetic updates by operation code, one of add ... max. Returns the old value.
template <scope S = scope::device, class T>
GRAVEL_BOTH T fetch_in_place(op o, T* at, T value) {
  if (o == op::add) return add_in_place<S>(at, value);
  if constexpr (std::is_floating_point_v<T>) {
    // Positive numbers are ordered as their bits are, negative ones in reverse. NaN changes nothing.
    using bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    using signed_bits = std::make_signed_t<bits>;
    if (value != value) return read_in_place(at);
    const bits word = static_cast<bits>(to_word(value));
    if (word >> (8 * sizeof(T) - 1))
      return from_word<T>(fetch_in_place<S>(o == op::min ? op::max : op::min, reinterpret_cast<bits*>(at), word));
    return from_word<T>(
        static_cast<bits>(fetch_in_place<S>(o, reinterpret_cast<signed_bits*>(at), static_cast<signed_bits>(word))));
  } else {
    using word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
    word* raw = reinterpret_cast<word*>(at);
    const word operand = static_cast<word>(value);
#if GRAVEL_ON_GPU
    using ordered = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<word>, word>;
    switch (o) {
      case op::bit_and: return static_cast<T>(GRAVEL_IN_SCOPE(atomicAnd, raw, operand));
      case op::bit_or: return static_cast<T>(GRAVEL_IN_SCOPE(atomicOr, raw, operand));
      case op::bit_xor: return static_cast<T>(GRAVEL_IN_SCOPE(atomicXor, raw, operand));
      case op::min:
        return static_cast<T>(GRAVEL_IN_SCOPE(atomicMin, reinterpret_cast<ordered*>(at), static_cast<ordered>(value)));
      default:
        return static_cast<T>(GRAVEL_IN_SCOPE(atomicMax, reinterpret_cast<ordered*>(at), static_cast<ordered>(value)));
    }
#else
    switch (o) {
      case op::bit_and: return static_cast<T>(__atomic_fetch_and(raw, operand, __ATOMIC_RELAXED));
      case op::bit_or: return static_cast<T>(__atomic_fetch_or(raw, operand, __ATOMIC_RELAXED));
      case op::bit_xor: return static_cast<T>(__atomic_fetch_xor(raw, operand, __ATOMIC_RELAXED));
      case op::min: return update_in_place(at, [=](T old) { return old < value ? old : value; });
      default: return update_in_place(at, [=](T old) { return old > value ? old : value; });
    }
#endif
  }
}
/// A minimum of an unsigned word, without an answer.
GRAVEL_BOTH void min_scattered(uint32_t* at, uint32_t value) {
#if GRAVEL_ON_GPU
  GRAVEL_WITHOUT_ANSWER("red.relaxed.gpu.global.min.u32", "r", value);
#else
  fetch_in_place(op::min, at, value);
#endif
}

/// An update without an answer.
template <scope S = scope::device, class T>
GRAVEL_BOTH void apply_in_place(op o, T* at, T value) {
  if (S == scope::device && o == op::add) add_scattered(at, value);
  else fetch_in_place<S>(o, at, value);
}

/// Puts `value`. Returns the old value.
template <scope S = scope::device, class T>
GRAVEL_BOTH T swap_in_place(T* at, T value) {
  using word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
#if GRAVEL_ON_GPU
  return from_word<T>(GRAVEL_IN_SCOPE(atomicExch, reinterpret_cast<word*>(at), static_cast<word>(to_word(value))));
#else
  return from_word<T>(
      __atomic_exchange_n(reinterpret_cast<word*>(at), static_cast<word>(to_word(value)), __ATOMIC_RELAXED));
#endif
}

/// Stores `desired` if the word is `expected`. Returns the old value.
template <scope S = scope::device, class T>
GRAVEL_BOTH T compare_swap_in_place(T* at, T expected, T desired) {
  using word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
#if GRAVEL_ON_GPU
  return from_word<T>(GRAVEL_IN_SCOPE(atomicCAS, reinterpret_cast<word*>(at), static_cast<word>(to_word(expected)),
                                      static_cast<word>(to_word(desired))));
#else
  word seen = static_cast<word>(to_word(expected));
  __atomic_compare_exchange_n(reinterpret_cast<word*>(at), &seen, static_cast<word>(to_word(desired)), false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return from_word<T>(seen);
#endif
}

#undef GRAVEL_IN_SCOPE
#undef GRAVEL_WITHOUT_ANSWER

/// Adds to a number of 16 bits, atomically: by compare and swap of the word of 4 bytes around it. The sum is rounded to
/// the nearest, ties to even. Returns the old value.
template <scope S = scope::device, class T>
GRAVEL_BOTH T add_half_in_place(T* at, T value) {
  const auto place = reinterpret_cast<uint64_t>(at);
  const auto shift = static_cast<uint32_t>(place % sizeof(uint32_t)) * 8;
  auto* const word = reinterpret_cast<uint32_t*>(place - place % sizeof(uint32_t));
  for (uint32_t seen = load_relaxed<S>(word);;) {
    const T old{static_cast<uint16_t>(seen >> shift)};
    const uint32_t sum = T::from_float(old.to_float() + value.to_float()).bits;
    const uint32_t found = compare_swap_in_place<S>(word, seen, (seen & ~(uint32_t{0xffff} << shift)) | sum << shift);
    if (found == seen) return old;
    seen = found;
  }
}
/// Does so with the bits of the value, which are the low ones of a word. Not inlined: one copy serves all messages.
GRAVEL_BOTH_APART uint64_t add_half_bits_in_place(value_type type, char* at, uint64_t bits) {
  const auto low = static_cast<uint16_t>(bits);
  if (type == value_type::f16) return add_half_in_place(reinterpret_cast<gravel_half*>(at), gravel_half{low}).bits;
  return add_half_in_place(reinterpret_cast<gravel_bfloat16*>(at), gravel_bfloat16{low}).bits;
}

/// Operations with an answer: fetch_add ... compare_swap. Only the last of them needs `expected`.
template <scope S = scope::device, class T>
GRAVEL_BOTH T answer_in_place(op o, T* at, T value, T expected) {
  if constexpr (is_of_16_bits<T>) return add_half_in_place<S>(at, value);  // the only one
  else if (o == op::fetch) return read_in_place(at);
  if constexpr (sizeof(T) >= 4) {
    if (o == op::swap) return swap_in_place<S>(at, value);
    if constexpr (std::is_integral_v<T>)
      if (o == op::compare_swap) return compare_swap_in_place<S>(at, expected, value);
    return fetch_in_place<S>(update_of(o), at, value);
  }
  return T{};
}

/// Calls `f.template operator()<T>()` with the type that `type` names; for types of 16 bits `half(type)`.
template <class F, class Half>
GRAVEL_BOTH void with_type(value_type type, F&& f, Half&& half) {
  switch (type) {
    case value_type::u8: f.template operator()<uint8_t>(); return;
    case value_type::u16: f.template operator()<uint16_t>(); return;
    case value_type::u32: f.template operator()<uint32_t>(); return;
    case value_type::u64: f.template operator()<uint64_t>(); return;
    case value_type::i32: f.template operator()<int32_t>(); return;
    case value_type::i64: f.template operator()<int64_t>(); return;
    case value_type::f32: f.template operator()<float>(); return;
    case value_type::f64: f.template operator()<double>(); return;
    case value_type::f16:
    case value_type::bf16: half(type); return;
    default: return;
  }
}

}  // namespace gravel::detail
