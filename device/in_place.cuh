// Operations on this PE's own memory: route `self`, and what the receiver does with a message that arrived.
// Atomic against each other and against CUDA's atomics on the same device.
#pragma once
#include "device/simt.hpp"
#include "device/value.cuh"

namespace gravel {

/// *at = f(*at), atomically (device scope); returns the old value.
template <class T, class F>
GRAVEL_BOTH T update_in_place(T* at, F f) {
  using word = std::conditional_t<sizeof(T) == 4, uint32_t, unsigned long long>;
  word* raw = reinterpret_cast<word*>(at);
#if GRAVEL_ON_GPU
  word seen = *reinterpret_cast<volatile word*>(raw);
  for (;;) {
    const word wanted = static_cast<word>(to_word(f(from_word<T>(seen))));
    const word found = atomicCAS(raw, seen, wanted);
    if (found == seen) return from_word<T>(seen);
    seen = found;
  }
#else
  word seen = __atomic_load_n(raw, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(raw, &seen, static_cast<word>(to_word(f(from_word<T>(seen)))), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return from_word<T>(seen);
#endif
}

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

template <class T>
GRAVEL_BOTH T add_in_place(T* at, T value) {
#if GRAVEL_ON_GPU
  if constexpr (std::is_floating_point_v<T>) return atomicAdd(at, value);
  else if constexpr (sizeof(T) == 4) return static_cast<T>(atomicAdd(reinterpret_cast<unsigned*>(at), static_cast<unsigned>(value)));
  else return static_cast<T>(atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value)));
#else
  if constexpr (std::is_floating_point_v<T>) return update_in_place(at, [=](T old) { return old + value; });
  else return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

/// Bitwise and arithmetic updates by operation code; `o` is one of add ... max.
template <class T>
GRAVEL_BOTH void apply_in_place(op o, T* at, T value) {
  if (o == op::add) {
    add_in_place(at, value);
  } else if constexpr (is_atomic_integer<T>) {
    using bits = std::make_unsigned_t<T>;
    using word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
    word* raw = reinterpret_cast<word*>(at);
    const word operand = static_cast<word>(static_cast<bits>(value));
#if GRAVEL_ON_GPU
    using ordered = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 4, int, long long>, word>;
    switch (o) {
      case op::bit_and: atomicAnd(raw, operand); return;
      case op::bit_or: atomicOr(raw, operand); return;
      case op::bit_xor: atomicXor(raw, operand); return;
      case op::min: atomicMin(reinterpret_cast<ordered*>(at), static_cast<ordered>(value)); return;
      case op::max: atomicMax(reinterpret_cast<ordered*>(at), static_cast<ordered>(value)); return;
      default: return;
    }
#else
    switch (o) {
      case op::bit_and: __atomic_fetch_and(raw, operand, __ATOMIC_RELAXED); return;
      case op::bit_or: __atomic_fetch_or(raw, operand, __ATOMIC_RELAXED); return;
      case op::bit_xor: __atomic_fetch_xor(raw, operand, __ATOMIC_RELAXED); return;
      case op::min: update_in_place(at, [=](T old) { return old < value ? old : value; }); return;
      case op::max: update_in_place(at, [=](T old) { return old > value ? old : value; }); return;
      default: return;
    }
#endif
  }
}

/// Swaps if equal; returns the old value.
template <class T>
GRAVEL_BOTH T compare_swap_in_place(T* at, T expected, T desired) {
  using word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
#if GRAVEL_ON_GPU
  return from_word<T>(atomicCAS(reinterpret_cast<word*>(at), static_cast<word>(to_word(expected)), static_cast<word>(to_word(desired))));
#else
  word seen = static_cast<word>(to_word(expected));
  __atomic_compare_exchange_n(reinterpret_cast<word*>(at), &seen, static_cast<word>(to_word(desired)), false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return from_word<T>(seen);
#endif
}

/// Calls `f.template operator()<T>()` with the type that `type` names.
template <class F>
GRAVEL_BOTH void with_type(value_type type, F&& f) {
  switch (type) {
    case value_type::u8: f.template operator()<uint8_t>(); return;
    case value_type::u16: f.template operator()<uint16_t>(); return;
    case value_type::u32: f.template operator()<uint32_t>(); return;
    case value_type::u64: f.template operator()<uint64_t>(); return;
    case value_type::i32: f.template operator()<int32_t>(); return;
    case value_type::i64: f.template operator()<int64_t>(); return;
    case value_type::f32: f.template operator()<float>(); return;
    case value_type::f64: f.template operator()<double>(); return;
    default: return;
  }
}

}  // namespace gravel
