// The types that operations take, and how a value travels in a word.
#pragma once
#include <type_traits>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"

namespace gravel {

template <class T>
constexpr bool is_value = (std::is_integral_v<T> && sizeof(T) <= 8) || std::is_same_v<T, float> || std::is_same_v<T, double>;
/// Integers of 4 and 8 bytes: all operations.
template <class T>
constexpr bool is_atomic_integer = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
/// What can be added to.
template <class T>
constexpr bool is_addable = is_atomic_integer<T> || std::is_floating_point_v<T>;

template <class T>
GRAVEL_BOTH constexpr value_type value_type_of() {
  static_assert(is_value<T>, "Gravel moves integers of 1, 2, 4, 8 bytes, float and double; use gravel_put_bulk for others");
  if constexpr (std::is_same_v<T, float>) return value_type::f32;
  else if constexpr (std::is_same_v<T, double>) return value_type::f64;
  else if constexpr (sizeof(T) == 1) return value_type::u8;
  else if constexpr (sizeof(T) == 2) return value_type::u16;
  else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? value_type::i32 : value_type::u32;
  else return std::is_signed_v<T> ? value_type::i64 : value_type::u64;
}

template <class T>
GRAVEL_BOTH uint64_t to_word(T value) {
  union {
    uint64_t word;
    T value;
  } u{0};
  u.value = value;
  return u.word;
}
template <class T>
GRAVEL_BOTH T from_word(uint64_t word) {
  union {
    uint64_t word;
    T value;
  } u{word};
  return u.value;
}

/// So that gravel_put(g, &u64, 1, pe) takes its type from the address alone.
template <class T>
using same = std::type_identity_t<T>;

}  // namespace gravel
