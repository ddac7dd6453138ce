// Two shots: large arrays, among PEs that reach each other's memory. Of each block's part, every PE reduces one range:
// it loads the range from all PEs and stores the result to all PEs. A rendezvous before makes sure that the arrays are
// written, and one after it that the results are.
#pragma once
#include "lib/allreduce/reduction_rendezvous.cuh"
#include "lib/base/element.hpp"

namespace gravel::detail {

/// Range `number` of `of` ranges of the words [0, words). The sizes of the ranges differ by at most one word.
struct word_range {
  uint64_t begin, end;
  GRAVEL_BOTH static word_range of(uint64_t words, uint64_t number, uint64_t of) {
    const uint64_t each = words / of, more = words % of;
    const uint64_t begin = number * each + (number < more ? number : more);
    return {begin, begin + each + (number < more)};
  }
};

/// Reduces words from `i` to `end`. `Word`: one or several T that are loaded at once. AT_ONCE words of one PE are in
/// flight at a time, besides those of the next PE. Returns where the thread stopped. Thread scope: block, each thread
/// for its own words.
template <gravel_reduction HOW, class T, class Word, uint32_t AT_ONCE>
GRAVEL_DEVICE uint64_t reduce_words(const gravel_reducer_handle& r, T* to, const T* from, uint64_t i, uint64_t end,
                                    int root) {
  const reducer_memory& m = r.memory;
  const auto* const source = reinterpret_cast<const Word*>(from);
  auto* const result = reinterpret_cast<Word*>(to);
  const uint64_t step = blockDim.x;
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    Word now[AT_ONCE], next[AT_ONCE];
    const auto load = [&](Word(&words)[AT_ONCE], uint32_t pe) {
      const Word* const there = m.at(r.g, source, pe);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < AT_ONCE; ++k) words[k] = there[i + k * step];
    };
    load(now, 0);
    load(next, 1);
    combination<HOW, T, Word> all[AT_ONCE];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) all[k].begin(now[k]);
    for (uint32_t q = 2; q < m.n_pes; ++q) {
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < AT_ONCE; ++k) now[k] = next[k];
      load(next, q);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < AT_ONCE; ++k) all[k].add(now[k]);
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) all[k].add(next[k]);
    for (uint32_t q = 0; q < m.n_pes; ++q) {
      if (root != no_root && static_cast<uint32_t>(root) != q) continue;
      Word* const there = m.at(r.g, result, q);
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < AT_ONCE; ++k) there[i + k * step] = all[k].result();
    }
  }
  return i;
}

/// Reduces range `number` of `of` ranges of all elements, at the PE that has this range. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_range(const gravel_reducer_handle& r, T* to, const T* from, uint64_t count, uint64_t number,
                                uint64_t of, int root) {
  constexpr uint32_t n = sizeof(unit) / sizeof(T);
  const bool aligned = (reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % sizeof(unit) == 0;
  const uint64_t units = aligned ? count / n : 0;
  const word_range s = word_range::of(units, number, of), rest = word_range::of(count - units * n, number, of);
  uint64_t i = s.begin + threadIdx.x;
  i = reduce_words<HOW, T, unit, 4>(r, to, from, i, s.end, root);
  reduce_words<HOW, T, unit, 1>(r, to, from, i, s.end, root);
  reduce_words<HOW, T, T, 1>(r, to, from, units * n + rest.begin + threadIdx.x, units * n + rest.end, root);
}

/// Reduces this block's part, one of `blocks`. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_in_two_shots(const gravel_reducer_handle& r, const reduction_part& p, T* to, const T* from,
                                       uint64_t count, uint32_t blocks, int root) {
  const reducer_memory& m = r.memory;
  sync_at_begin(r, p);
  reduce_range<HOW>(r, to, from, count, uint64_t{p.slice} * m.n_pes + m.my_pe, uint64_t{blocks} * m.n_pes, root);
  sync_at(r, p.slice, 2 * p.call + 1);
}

}  // namespace gravel::detail
