// Structure of arrays: elements of one type, kept as columns of 4-byte words. So the lanes of a warp that store or load
// neighbouring elements touch neighbouring words. Channels (ISCA 2014), section 8.2.1 (figure 17), compares this layout
// with records.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// A T as words. T is trivially copyable; its size is rounded up to whole words.
template <class T>
struct as_words {
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied word by word");
  static constexpr uint32_t count = (sizeof(T) + 3) / 4;
  uint32_t word[count];

  GRAVEL_BOTH static as_words from(const T& element) {
    as_words w;
    w.word[count - 1] = 0;
    std::memcpy(w.word, &element, sizeof(T));
    return w;
  }
  GRAVEL_BOTH T value() const {
    T element;
    std::memcpy(static_cast<void*>(&element), word, sizeof(T));
    return element;
  }
};

/// `rows` elements. Word k of element i is at[k * rows + i]. `at` may be any memory.
template <class T>
struct columns {
  uint32_t* at;
  uint32_t rows;

  static constexpr uint32_t words = as_words<T>::count;
  GRAVEL_BOTH static constexpr uint64_t bytes(uint64_t rows) { return rows * words * 4; }

  GRAVEL_BOTH void store(uint32_t row, const T& element) const {
    const auto w = as_words<T>::from(element);
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < words; ++k) at[k * rows + row] = w.word[k];
  }
  GRAVEL_BOTH T load(uint32_t row) const {
    as_words<T> w;
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < words; ++k) w.word[k] = at[k * rows + row];
    return w.value();
  }
};

}  // namespace gravel::detail
