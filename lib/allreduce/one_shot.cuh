// One shot: small arrays, among PEs that reach each other's memory. Every PE writes its elements into every other PE's
// staging, and each PE combines all of them. There is no barrier, neither before nor after: each word of staging says
// by a flag to which call it belongs. Source: XTQ (SC 2016), section on reductions; networks with ordered words signal
// by flags within the data.
#pragma once
#include "lib/allreduce/reduction_rendezvous.cuh"
#include "lib/base/element.hpp"

namespace gravel::detail {

/// Loads a word of 8 bytes of an array. `left` elements of it exist; the others are 0.
template <class T>
GRAVEL_DEVICE uint64_t load_elements(const T* from, bool aligned, uint64_t left) {
  constexpr uint32_t n = sizeof(uint64_t) / sizeof(T);
  if (aligned && left >= n) return *reinterpret_cast<const uint64_t*>(from);
  struct alignas(8) elements {
    T of[n];
  };
  elements some = __builtin_bit_cast(elements, uint64_t{0});
  for (uint32_t i = 0; i < n; ++i)
    if (i < left) some.of[i] = from[i];
  return __builtin_bit_cast(uint64_t, some);
}
template <class T>
GRAVEL_DEVICE void store_elements(T* to, bool aligned, uint64_t left, uint64_t word) {
  constexpr uint32_t n = sizeof(uint64_t) / sizeof(T);
  if (aligned && left >= n) {
    *reinterpret_cast<uint64_t*>(to) = word;
    return;
  }
  struct alignas(8) elements {
    T of[n];
  };
  const auto some = __builtin_bit_cast(elements, word);
  for (uint32_t i = 0; i < n; ++i)
    if (i < left) to[i] = some.of[i];
}

/// Part of a block, of at most 2^20 bytes. `from` and `to`: its first elements.
template <class T>
struct one_shot_part {
  T* to;
  const T* from;
  uint32_t count;  ///< elements
  bool keeps;      ///< `to` is written
};

/// Sends the units i, i + step, ..., AT_ONCE of them, to all other PEs, calls behind_send(), and combines the units
/// with those of the other PEs. All are read together, as a read takes long. Thread scope: lane.
template <gravel_reduction HOW, uint32_t AT_ONCE, class T, class F>
GRAVEL_DEVICE void exchange_words(const gravel_reducer_handle& r, const reduction_part& p, const one_shot_part<T>& part,
                                  uint32_t i, uint32_t words, uint32_t step, const F& behind_send) {
  constexpr uint32_t n = sizeof(uint64_t) / sizeof(T);
  const reducer_memory& m = r.memory;
  const bool from_aligned = reinterpret_cast<uint64_t>(part.from) % 8 == 0,
             to_aligned = reinterpret_cast<uint64_t>(part.to) % 8 == 0;
  uint64_t own[AT_ONCE] = {};
  unit* const out = m.staging(p.slice, p.call, m.my_pe) + i;
  GRAVEL_UNROLL
  for (uint32_t k = 0; k < AT_ONCE; ++k) {
    const uint32_t at = i + k * step;
    if (k && at >= words) continue;
    own[k] = load_elements(part.from + at * n, from_aligned, part.count - at * n);
    const unit flagged = flagged_words::make(own[k], p.call);
    for (uint32_t q = 0; q < m.n_pes; ++q)
      if (q != m.my_pe) flagged_words::store(m.at(r.g, out, q) + k * step, flagged);  // [A3]
  }
  behind_send();
  combination<HOW, T, uint64_t> all[AT_ONCE] = {};
  for (uint32_t q = 0; q < m.n_pes; ++q) {
    uint64_t data[AT_ONCE] = {};
    if (q == m.my_pe) {
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < AT_ONCE; ++k) data[k] = own[k];
    } else {
      const unit* const in = m.staging(p.slice, p.call, q) + i;
      bool all_here;
      for (relax wait;; wait.closely()) {
        unit seen[AT_ONCE] = {};
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; ++k)
          if (k == 0 || i + k * step < words) seen[k] = flagged_words::load(in + k * step);  // [A3]
        all_here = true;
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < AT_ONCE; ++k) {
          if (k && i + k * step >= words) continue;
          all_here &= flagged_words::are_of(seen[k], p.call);
          data[k] = flagged_words::data(seen[k]);
        }
        if (all_here) break;
      }
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) {
      if (q == 0) all[k].begin(data[k]);
      else all[k].add(data[k]);
    }
  }
  GRAVEL_UNROLL
  for (uint32_t k = 0; k < AT_ONCE; ++k) {
    const uint32_t at = i + k * step;
    const bool exists = k == 0 || at < words;
    if (part.keeps && exists) store_elements(part.to + at * n, to_aligned, part.count - at * n, all[k].result());
  }
}

/// Reduces this block's part. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_in_one_shot(const gravel_reducer_handle& r, const reduction_part& p,
                                      const one_shot_part<T>& part) {
  constexpr uint32_t n = sizeof(uint64_t) / sizeof(T), at_once = 4;
  const reducer_memory& m = r.memory;
  const uint32_t words = (part.count + n - 1) / n, step = blockDim.x;
  for_others(
      m, [&](uint32_t pe) { store_relaxed(m.at(r.g, m.header(p.slice, p.call, m.my_pe), pe), p.call << 32 | p.what); });
  // The headers are awaited before the words: so PEs whose calls differ are reported, and do not wait for words that
  // never arrive.
  bool awaits = visits_others(m);
  const auto await_headers = [&] {
    if (!awaits) return;
    awaits = false;
    for_others(m, [&](uint32_t pe) { await_header<false>(r, p, pe); });
  };
  const uint32_t first = threadIdx.x;
  if (first >= words) return await_headers();
  if (words <= step) return exchange_words<HOW, 1>(r, p, part, first, words, step, await_headers);
  for (uint32_t i = first; i < words; i += at_once * step)
    exchange_words<HOW, at_once>(r, p, part, i, words, step, await_headers);
}

}  // namespace gravel::detail
