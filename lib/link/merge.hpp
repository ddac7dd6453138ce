// Merges: how elements of arrays are combined along a path. A merge is an operation on numbers, or a function object of
// the program.
#pragma once
#include <numeric>
#include <type_traits>

#include "lib/base/element.hpp"

namespace gravel::detail {

/// An operation on numbers. Several 16-bit numbers are rounded only once.
template <gravel_reduction HOW>
struct number_merge {
  /// Combines words of elements of type T, in their order.
  template <class T, class Word, uint32_t N>
  GRAVEL_DEVICE Word merged(const Word (&words)[N]) const {
    combination<HOW, T, Word> all;
    all.begin(words[0]);
    GRAVEL_UNROLL
    for (uint32_t i = 1; i < N; ++i) all.add(words[i]);
    return all.result();
  }
};

/// A function object of the program: merge(into, from) combines two elements in `into`.
template <class Merge>
struct program_merge {
  Merge merge;

  template <class T, class Word, uint32_t N>
  GRAVEL_DEVICE Word merged(const Word (&words)[N]) const {
    constexpr uint32_t n = sizeof(Word) / sizeof(T);
    struct alignas(Word) elements {
      T of[n];
    };
    auto all = __builtin_bit_cast(elements, words[0]);
    GRAVEL_UNROLL
    for (uint32_t i = 1; i < N; ++i) {
      const auto more = __builtin_bit_cast(elements, words[i]);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < n; ++k) merge(all.of[k], more.of[k]);
    }
    return __builtin_bit_cast(Word, all);
  }
};

/// Elements that are copied and not combined.
struct no_merge {};

/// Parts and packets that begin at multiples of so many elements begin at multiples of 16 bytes.
template <class T>
constexpr uint64_t element_grain = 16 / std::gcd(uint64_t{16}, uint64_t{sizeof(T)});

/// Refuses, when the program is compiled, what cannot be merged. Returns whether it can be, so that one mistake leads
/// to one error.
template <class T, class Merge>
GRAVEL_BOTH constexpr bool check_merge() {
  constexpr bool is_element =
      std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && std::is_copy_assignable_v<T>;
  static_assert(
      is_element,
      "a merge: elements travel as bytes: their type is trivially copyable, default constructible, assignable");
  constexpr bool is_aligned = alignof(T) <= 16;
  static_assert(is_aligned, "a merge: elements are aligned to 16 bytes at most");
  constexpr bool is_operation = std::is_same_v<Merge, gravel_reduction>;
  static_assert(!is_operation, "an operation is a template argument, as in gravel_allreduce<GRAVEL_MAX>(...)");
  constexpr bool is_callable = std::is_invocable_v<const Merge&, T&, const T&>;
  static_assert(is_operation || is_callable,
                "a merge is a function object of the device: void operator()(T& into, const T& from) const");
  constexpr bool travels = std::is_trivially_copyable_v<Merge> && sizeof(Merge) <= 512;
  static_assert(travels, "a merge travels to kernels as bytes: trivially copyable, at most 512 bytes");
  return is_element && is_aligned && is_callable && travels;
}

}  // namespace gravel::detail
