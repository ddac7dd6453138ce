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

/// Waits until the words of AT_ONCE units are those of call `call`, and puts their data into `data`. Units i + k * step
/// with i + k * step < end exist. All are read together: a read takes long. Thread scope: lane.
template <uint32_t AT_ONCE>
GRAVEL_DEVICE void await_words(uint64_t (&data)[AT_ONCE], const unit* staged, uint64_t i, uint64_t step, uint64_t end,
                               uint64_t call) {
  for (relax wait;; wait.closely()) {
    unit seen[AT_ONCE];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k)
      if (i + k * step < end) seen[k] = flagged_words::load(staged + i + k * step);  // [A3]
    bool all_here = true;
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) {
      if (i + k * step >= end) continue;
      all_here &= flagged_words::are_of(seen[k], call);
      data[k] = flagged_words::data(seen[k]);
    }
    if (all_here) return;
  }
}

/// Reduces this block's part: to[0 .. count) from from[0 .. count). Writes `to` only if `keeps`. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_in_one_shot(const gravel_reducer_handle& r, const reduction_part& p, T* to, const T* from,
                                      uint64_t count, bool keeps) {
  constexpr uint32_t n = sizeof(uint64_t) / sizeof(T), at_once = 4;
  const reducer_memory& m = r.memory;
  const uint64_t words = (count + n - 1) / n, step = blockDim.x;
  const bool from_aligned = reinterpret_cast<uint64_t>(from) % 8 == 0,
             to_aligned = reinterpret_cast<uint64_t>(to) % 8 == 0;
  const unit* const staged = m.staging(p.slice, p.call, 0);
  unit* const mine = m.staging(p.slice, p.call, m.my_pe);
  for (uint64_t i = threadIdx.x; i < words; i += step) {
    const unit flagged = flagged_words::make(load_elements(from + i * n, from_aligned, count - i * n), p.call);
    for (uint32_t q = 0; q < m.n_pes; ++q)
      if (q != m.my_pe) flagged_words::store(m.at(r.g, mine, q) + i, flagged);  // [A3]
  }
  for_others(
      m, [&](uint32_t pe) { store_relaxed(m.at(r.g, m.header(p.slice, p.call, m.my_pe), pe), p.call << 32 | p.what); });
  // The headers come first: so PEs whose calls differ are reported, and do not wait for words that never arrive.
  for_others(m, [&](uint32_t pe) { await_header<false>(r, p, pe); });
  for (uint64_t i = threadIdx.x; i < words; i += at_once * step) {
    combination<HOW, T, uint64_t> all[at_once];
    for (uint32_t q = 0; q < m.n_pes; ++q) {
      uint64_t data[at_once] = {};
      if (q != m.my_pe) {
        await_words(data, staged + uint64_t{q} * 2 * m.staged_units, i, step, words, p.call);
      } else {
        GRAVEL_UNROLL
        for (uint32_t k = 0; k < at_once; ++k) {
          const uint64_t at = i + k * step;
          if (at < words) data[k] = load_elements(from + at * n, from_aligned, count - at * n);
        }
      }
      GRAVEL_UNROLL
      for (uint32_t k = 0; k < at_once; ++k) {
        if (q == 0) all[k].begin(data[k]);
        else all[k].add(data[k]);
      }
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k) {
      const uint64_t at = i + k * step;
      if (keeps && at < words) store_elements(to + at * n, to_aligned, count - at * n, all[k].result());
    }
  }
}

}  // namespace gravel::detail
