// The types that operations take, and the form in which a value travels in a word.
#pragma once
#include <type_traits>

#include "lib/base/half.hpp"
#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"

// Declared, so that programs which do not use these types need not compile CUDA's headers.
struct __half;
struct __nv_bfloat16;

namespace gravel::detail {

namespace inner {
template <class T>
struct plain_type {
  using type = T;
};
template <>
struct plain_type<__half> {
  using type = gravel_half;
};
template <>
struct plain_type<__nv_bfloat16> {
  using type = gravel_bfloat16;
};
}  // namespace inner
/// The type that Gravel computes with for a T: T itself, except for CUDA's types of 16 bits.
template <class T>
using plain = typename inner::plain_type<T>::type;
template <class T>
constexpr bool is_of_16_bits = std::is_same_v<T, gravel_half> || std::is_same_v<T, gravel_bfloat16>;

template <class T>
constexpr bool is_value = (std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
                           std::is_same_v<T, float> || std::is_same_v<T, double> ||
                           is_of_16_bits<plain<T>>)&&sizeof(T) <= 8;
/// Types for all operations: integers of 4 and 8 bytes.
template <class T>
constexpr bool is_atomic_integer = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
/// Types that can be added and ordered.
template <class T>
constexpr bool is_addable = is_atomic_integer<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;
/// Types that gravel_add and gravel_fetch_add take.
template <class T>
constexpr bool is_summand = is_addable<T> || is_of_16_bits<plain<T>>;
/// Types that can be exchanged; and types that can be compared, which is done bit by bit.
template <class T>
constexpr bool is_swappable = is_value<T> && (sizeof(T) == 4 || sizeof(T) == 8);
template <class T>
constexpr bool is_comparable = is_swappable<T> && !std::is_floating_point_v<T>;

namespace inner {
template <class T>
constexpr auto number_for() {
  if constexpr (std::is_enum_v<T>) return number_for<std::underlying_type_t<T>>();
  else if constexpr (std::is_pointer_v<T>) return uint64_t{};
  else if constexpr (std::is_same_v<T, bool>) return uint8_t{};
  else if constexpr (is_of_16_bits<plain<T>>) return uint16_t{};
  else return T{};
}
}  // namespace inner
/// The number that represents a T in memory and in messages: T itself, except for enumerations, pointers, bool, and
/// types of 16 bits, which are moved as their bits.
template <class T>
using number = decltype(inner::number_for<T>());

template <class T>
GRAVEL_BOTH constexpr value_type value_type_of() {
  static_assert(is_value<T>,
                "Gravel moves integers, enumerations and pointers of up to 8 bytes, float and double; use "
                "gravel_put_bulk for others");
  using N = number<T>;
  if constexpr (std::is_same_v<T, gravel_half>) return value_type::f16;
  else if constexpr (std::is_same_v<T, gravel_bfloat16>) return value_type::bf16;
  else if constexpr (std::is_same_v<N, float>) return value_type::f32;
  else if constexpr (std::is_same_v<N, double>) return value_type::f64;
  else if constexpr (sizeof(N) == 1) return value_type::u8;
  else if constexpr (sizeof(N) == 2) return value_type::u16;
  else if constexpr (sizeof(N) == 4) return std::is_signed_v<N> ? value_type::i32 : value_type::u32;
  else return std::is_signed_v<N> ? value_type::i64 : value_type::u64;
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

/// A value as a number, and its address as that of a number.
template <class T>
GRAVEL_BOTH number<T> as_number(T value) {
  if constexpr (std::is_same_v<number<T>, T>) return value;
  else return from_word<number<T>>(to_word(value));
}
template <class T>
GRAVEL_BOTH number<T>* as_numbers(T* at) {
  return reinterpret_cast<number<T>*>(at);
}
template <class T>
GRAVEL_BOTH const number<T>* as_numbers(const T* at) {
  return reinterpret_cast<const number<T>*>(at);
}

/// So that gravel_put(g, &u64, 1, pe) takes its type from the address only.
template <class T>
using same = std::type_identity_t<T>;

}  // namespace gravel::detail
