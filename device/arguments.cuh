// The arguments of an active message: how they are packed into its words, and how a handler is called with them.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/handle.cuh"
#include "device/value.cuh"

namespace gravel::detail {

/// The bytes of a T that begins at byte OFFSET of a message, as whole words. Word i of the value lies `shift` bits
/// above the beginning of word `first + i` of the message. Bits that do not fit there are in the next word. So
/// arguments need no padding between them, and memory is accessed by aligned words only.
template <class T, uint32_t OFFSET>
struct packed_words {
  static constexpr uint32_t count = (sizeof(T) + 7) / 8, first = OFFSET / 8, shift = OFFSET % 8 * 8;
  GRAVEL_BOTH static constexpr bool crosses(uint32_t i) {
    return shift / 8 + (sizeof(T) - 8 * i < 8 ? sizeof(T) - 8 * i : 8) > 8;
  }
};

/// Writes `value` at byte OFFSET of a message. Its bytes in `data` must be zero.
template <uint32_t OFFSET, class T>
GRAVEL_BOTH void pack(unit* data, const T& value) {
  using words = packed_words<T, OFFSET>;
  uint64_t word[words::count] = {};
  __builtin_memcpy(word, &value, sizeof(T));
  for (uint32_t i = 0; i < words::count; ++i) {
    const uint32_t at = words::first + i;
    data[at / 2].word[at % 2] |= word[i] << words::shift;
    if (words::crosses(i)) data[(at + 1) / 2].word[(at + 1) % 2] |= word[i] >> ((64 - words::shift) % 64);
  }
}

template <class T>
union unpacked_value {  // a union, since T may have no default constructor
  GRAVEL_BOTH unpacked_value() {}
  T value;
};
template <class T, uint32_t OFFSET>
GRAVEL_BOTH T unpack(const unit* message) {
  using words = packed_words<T, OFFSET>;
  uint64_t word[words::count];
  for (uint32_t i = 0; i < words::count; ++i) {
    const uint32_t at = words::first + i;
    word[i] = message[at / 2].word[at % 2] >> words::shift;
    if (words::crosses(i)) word[i] |= message[(at + 1) / 2].word[(at + 1) % 2] << ((64 - words::shift) % 64);
  }
  unpacked_value<T> result;
  __builtin_memcpy(static_cast<void*>(&result.value), word, sizeof(T));
  return result.value;
}

/// The arguments of a handler. They follow each other in a message, from byte `arguments_begin` on.
template <class... A>
struct argument_list {
  static constexpr uint32_t bytes = (0 + ... + static_cast<uint32_t>(sizeof(A)));
  static constexpr bool trivially_copyable = (std::is_trivially_copyable_v<A> && ...);
  /// True if a send may pass B... for them: as many arguments, each of which converts.
  template <class... B>
  static constexpr bool as_many = sizeof...(A) == sizeof...(B);
  template <class... B>
  static constexpr bool convertible() {
    if constexpr (as_many<B...>) return (std::is_convertible_v<B&, A> && ...);
    else return true;
  }
  GRAVEL_BOTH static constexpr uint32_t offset(size_t i) {
    constexpr uint32_t sizes[] = {static_cast<uint32_t>(sizeof(A))..., 0};
    uint32_t at = arguments_begin;
    for (size_t before = 0; before < i; ++before) at += sizes[before];
    return at;
  }
  GRAVEL_BOTH static void fill(unit* data, same<A>... arguments) {  // converted, as in any call
    fill_each(data, std::index_sequence_for<A...>(), arguments...);
  }
  /// `before`: what the handler gets before the arguments.
  template <class Handler, class... B>
  GRAVEL_BOTH static void call(const gravel_t& g, const unit* message, const B&... before) {
    write_GRAVEL_HANDLER_before_it<Handler>(g, message, std::index_sequence_for<A...>(), before...);
  }

 private:
  template <size_t... I>
  GRAVEL_BOTH static void fill_each(unit* data, std::index_sequence<I...>, const A&... arguments) {
    (pack<offset(I)>(data, arguments), ...);
    (void)data;
  }
  // If a device handler is compiled for the host only, nvcc's message names both functions. So the name of this
  // function says what to do.
#if GRAVEL_CUDA
#pragma nv_diagnostic push
#pragma nv_diag_suppress 20014  // as 20011, without the names
#pragma nv_diag_error 20011
#endif
  template <class Handler, size_t... I, class... B>
  GRAVEL_BOTH static void write_GRAVEL_HANDLER_before_it(const gravel_t& g, const unit* message,
                                                         std::index_sequence<I...>, const B&... before) {
    (void)message;
    Handler{}(g, before..., unpack<A, offset(I)>(message)...);
  }
#if GRAVEL_CUDA
#pragma nv_diagnostic pop
#endif
};

}  // namespace gravel::detail
