// Elements of arrays that are reduced: their types, and several of them in one word.
#pragma once
#include <type_traits>

#include "lib/base/half.hpp"
#include "lib/base/reduction.hpp"

namespace gravel::detail {

/// The properties of an element of type T: its reduction_type; `code`, which tells types apart in a hash; and `wide`,
/// the type in which elements are combined. So several 16-bit numbers are rounded only once.
template <class T>
struct element {
  static_assert(std::is_same_v<T, T*>,
                "reductions take float, double, gravel_half, gravel_bfloat16 and integers of 1 to 8 bytes");
};
template <class T, reduction_type TYPE, class WIDE>
struct element_as {
  static constexpr reduction_type type = TYPE;
  static constexpr uint64_t code = static_cast<uint64_t>(TYPE);
  using wide = WIDE;
  GRAVEL_BOTH static wide widen(T value) { return static_cast<wide>(value); }
  GRAVEL_BOTH static T narrow(wide value) { return static_cast<T>(value); }
};
template <class T, reduction_type TYPE>
struct element_of_16_bits {
  static constexpr reduction_type type = TYPE;
  static constexpr uint64_t code = static_cast<uint64_t>(TYPE);
  using wide = float;
  GRAVEL_BOTH static float widen(T value) { return value.to_float(); }
  GRAVEL_BOTH static T narrow(float value) { return T::from_float(value); }
};
template <class T>
requires(std::is_integral_v<T> && sizeof(T) == 4) struct element<T>
    : element_as<T, std::is_signed_v<T> ? reduction_type::i32 : reduction_type::u32, T> {
};
template <class T>
requires(std::is_integral_v<T> && sizeof(T) == 8) struct element<T>
    : element_as<T, std::is_signed_v<T> ? reduction_type::i64 : reduction_type::u64, T> {
};
template <class T>
requires(std::is_integral_v<T> && sizeof(T) == 2) struct element<T>
    : element_as<T, std::is_signed_v<T> ? reduction_type::i16 : reduction_type::u16, T> {
};
template <class T>
requires(std::is_integral_v<T> && sizeof(T) == 1) struct element<T>
    : element_as<T, std::is_signed_v<T> ? reduction_type::i8 : reduction_type::u8, T> {
};
template <>
struct element<float> : element_as<float, reduction_type::f32, float> {};
template <>
struct element<double> : element_as<double, reduction_type::f64, double> {};
template <>
struct element<gravel_half> : element_of_16_bits<gravel_half, reduction_type::f16> {};
template <>
struct element<gravel_bfloat16> : element_of_16_bits<gravel_bfloat16, reduction_type::bf16> {};
/// A value with its index has no reduction_type: only reductions of teams take it.
template <class V, class I>
struct element<gravel_located<V, I>> {
  static_assert(std::is_arithmetic_v<V> && std::is_arithmetic_v<I>,
                "gravel_located has values and indices that are integers of 1 to 8 bytes, float or double");
  static constexpr uint64_t code =
      (element<V>::code + 1) * static_cast<uint64_t>(reduction_type::count) + element<I>::code;
  using wide = gravel_located<V, I>;
  GRAVEL_BOTH static wide widen(wide pair) { return pair; }
  GRAVEL_BOTH static wide narrow(wide pair) { return pair; }
};

/// Combines two wide numbers.
template <gravel_reduction HOW, class W>
GRAVEL_BOTH W combine(W a, W b) {
  if constexpr (HOW == GRAVEL_MIN) return b < a || a != a ? b : a;
  else if constexpr (HOW == GRAVEL_MAX) return a < b || a != a ? b : a;
  else if constexpr (HOW == GRAVEL_AND || HOW == GRAVEL_OR || HOW == GRAVEL_XOR) {
    static_assert(std::is_integral_v<W>, "GRAVEL_AND, GRAVEL_OR and GRAVEL_XOR take integers");
    if constexpr (HOW == GRAVEL_AND) return static_cast<W>(a & b);
    else return static_cast<W>(HOW == GRAVEL_OR ? a | b : a ^ b);
  } else if constexpr (std::is_floating_point_v<W>) return HOW == GRAVEL_SUM ? a + b : a * b;
  else {
    using U = std::common_type_t<std::make_unsigned_t<W>, unsigned>;  // wraps around
    return static_cast<W>(HOW == GRAVEL_SUM ? static_cast<U>(a) + static_cast<U>(b)
                                            : static_cast<U>(a) * static_cast<U>(b));
  }
}

/// Combines two values with their indices.
template <gravel_reduction HOW, class V, class I>
GRAVEL_BOTH gravel_located<V, I> combine(gravel_located<V, I> a, gravel_located<V, I> b) {
  static_assert(HOW == GRAVEL_MIN || HOW == GRAVEL_MAX, "of gravel_located there are GRAVEL_MIN and GRAVEL_MAX");
  if (a.value != a.value) return b;
  if (a.value == b.value) return b.index < a.index ? b : a;
  const bool takes_b = HOW == GRAVEL_MIN ? b.value < a.value : a.value < b.value;
  return takes_b ? b : a;
}

/// The combination of words, each of which holds as many T as fit (a Word may be a T): what PEs contribute, in the
/// order of the calls.
template <gravel_reduction HOW, class T, class Word>
class combination {
  static constexpr uint32_t n = sizeof(Word) / sizeof(T);
  struct alignas(Word) elements {
    T of[n];
  };
  using wide = typename element<T>::wide;

 public:
  GRAVEL_BOTH void begin(const Word& word) {
    const auto in = __builtin_bit_cast(elements, word);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) so_far_[i] = element<T>::widen(in.of[i]);
  }
  GRAVEL_BOTH void add(const Word& word) {
    const auto in = __builtin_bit_cast(elements, word);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) so_far_[i] = combine<HOW>(so_far_[i], element<T>::widen(in.of[i]));
  }
  GRAVEL_BOTH Word result() const {
    elements out;
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < n; ++i) out.of[i] = element<T>::narrow(so_far_[i]);
    return __builtin_bit_cast(Word, out);
  }

 private:
  wide so_far_[n];
};

}  // namespace gravel::detail
