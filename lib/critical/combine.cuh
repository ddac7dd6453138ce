// Combining: the lanes of a warp that have calls of one key make one call of them.
#pragma once
#include "device/lane_group.cuh"
#include "lib/critical/section.hpp"

namespace gravel::detail {

/// Combines the values of lanes that have the same `word` and the same S::combine_by() of their value. One lane of each
/// such group gets the result in `value`, and the number of lanes of the group as return value. The other lanes get 0.
/// Thread scope: the lanes of `mask`, together.
template <class S, class T>
GRAVEL_DEVICE uint32_t combine_equal(uint32_t mask, uint32_t lane, uint32_t word, T& value) {
  uint32_t peers = __match_any_sync(mask, word);
  if constexpr (combined_by<S, T>::words > 0) {
    const combined_by<S, T> by(value);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < by.words; ++i) peers &= __match_any_sync(mask, by.word[i]);
  }
  const uint32_t below = peers & ((1u << lane) - 1);
  uint32_t others = peers & ~below & ~(1u << lane), place = lane_group::popcount(below);
  while (__any_sync(mask, others != 0)) {
    const uint32_t from = others ? lane_group::lowest(others) : lane;
    uint32_t word_of[words_of<T>];
    write_words(word_of, value);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < words_of<T>; ++i) word_of[i] = __shfl_sync(mask, word_of[i], static_cast<int>(from));
    if (others) value = S::combine(value, read_words<T>(word_of));
    others &= ~__ballot_sync(mask, place & 1);  // lanes whose values are part of another lane's
    place >>= 1;
  }
  return below == 0 ? lane_group::popcount(peers) : 0;
}

}  // namespace gravel::detail
