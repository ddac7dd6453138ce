// Sections that touch only their records. They may run in place, also for keys of other PEs whose memory is mapped
// (test/jobs/critical_job.cu). While no section holds a record, all its words are equal: each section checks that and
// changes all words. A record of 12 bytes is one word together with its lock; a record of 64 bytes is not.
#pragma once
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "lib/base/mix.hpp"
#include "lib/critical/critical_sections.cuh"

namespace gravel::detail {

template <uint32_t N>
struct even_words {
  uint32_t word[N];
  GRAVEL_BOTH bool are_even() const {
    bool even = true;
    for (uint32_t i = 1; i < N; ++i) even &= word[i] == word[0];
    return even;
  }
  /// A record that is not even stays so.
  GRAVEL_BOTH void add(uint32_t more) {
    if (!are_even()) word[0] ^= 1u << 31;
    for (uint32_t i = 0; i < N; ++i) word[i] += more;
  }
};
template <uint32_t N>
struct add_quietly {
  static constexpr const char* name = N == 3 ? "add_quietly to words" : "add_quietly";
  static constexpr bool pure = true;
  __device__ void operator()(even_words<N>& r, uint32_t more) const { r.add(more); }
};
template <uint32_t N>
struct add_and_report {
  static constexpr bool pure = true;
  __device__ uint8_t operator()(even_words<N>& r, uint32_t more) const {
    const bool even = r.are_even();
    r.add(more);
    return even ? 1 : 2;
  }
};
template <uint32_t N>
struct move_between {
  static constexpr bool pure = true;
  __device__ void operator()(even_words<N>& from, even_words<N>& to, uint32_t amount) const {
    from.add(0 - amount);
    to.add(amount);
  }
};
template <uint32_t N>
struct spread_out {
  static constexpr bool pure = true;
  __device__ uint8_t operator()(even_words<N>& from, even_words<N>& a, even_words<N>& b, uint32_t amount) const {
    const bool even = from.are_even() && a.are_even() && b.are_even();
    from.add(0 - 2 * amount);
    a.add(amount);
    b.add(amount);
    return even ? 1 : 2;
  }
};
using pure_words =
    gravel_critical_sections<even_words<3>, add_quietly<3>, add_and_report<3>, move_between<3>, spread_out<3>>;
using pure_lines = gravel_critical_sections<even_words<16>, add_quietly<16>, add_and_report<16>>;

struct pure_calls {
  uint64_t seed, keys;
  uint32_t each;
  GRAVEL_BOTH uint64_t random(uint32_t pe, uint32_t lane, uint32_t i) const {
    return mix(seed ^ mix(uint64_t{pe} << 48 | uint64_t{lane} << 24 | i));
  }
  GRAVEL_BOTH uint32_t key(uint64_t random, uint32_t which) const {
    return static_cast<uint32_t>(mix(random + which) % keys);
  }
  GRAVEL_BOTH uint32_t amount(uint64_t random) const { return static_cast<uint32_t>(random >> 40 & 0xff); }
};

template <class Sections>
__global__ void call_pure(typename Sections::handle_type to, pure_calls from, uint8_t* answers) {
  constexpr uint32_t N = sizeof(*to.table.slots) == 16 ? 3 : 16;
  __shared__ typename Sections::sender out;
  out.begin(to);
  const uint32_t lane = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = 0; i < from.each; ++i) {
    const uint64_t r = from.random(to.table.my_pe, lane, i);
    const uint32_t a = from.key(r, 0), amount = from.amount(r);
    uint8_t* const answer = &answers[lane * from.each + i];
    switch (r % 4) {
      case 0: out.template call<add_quietly<N>>(a, amount); break;
      case 1:
        if (const auto answered = out.template ask<add_and_report<N>>(answer, a, amount);
            answered && answered.value != *static_cast<volatile uint8_t*>(answer))
          *answer = 3;
        break;
      case 2:
        if constexpr (N == 3) out.template call<move_between<N>>(a, from.key(r, 1), amount);
        else gravel_critical_call<add_quietly<N>>(to, a, amount);
        break;
      default:
        if constexpr (N == 3) gravel_critical_ask<spread_out<N>>(to, answer, a, from.key(r, 1), from.key(r, 2), amount);
        else gravel_critical_ask<add_and_report<N>>(to, answer, a, amount);
    }
  }
  out.end();
}

/// The error; empty: none. Collective.
template <class Sections>
std::string run_pure(const gravel_critical_options& how, uint32_t blocks, uint32_t lanes, uint32_t each,
                     uint64_t seed) {
  constexpr bool nested = std::is_same_v<Sections, pure_words>;
  const pure_calls from{seed, how.keys, each};
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  std::vector<uint32_t> expected(how.keys);
  for (uint32_t pe = 0; pe < n_pes; ++pe)
    for (uint32_t lane = 0; lane < blocks * lanes; ++lane)
      for (uint32_t i = 0; i < each; ++i) {
        const uint64_t r = from.random(pe, lane, i);
        const uint32_t a = from.key(r, 0), b = from.key(r, 1), amount = from.amount(r);
        if (!nested || r % 4 < 2) expected[a] += amount;
        else if (r % 4 == 2) {
          expected[a] -= amount;
          expected[b] += amount;
        } else {
          expected[a] -= 2 * amount;
          expected[b] += amount;
          expected[from.key(r, 2)] += amount;
        }
      }
  std::vector<uint8_t> got(uint64_t{blocks} * lanes * each);
  auto* answers = gravel_malloc<uint8_t>(got.size());
  gravel_copy(answers, got.data(), got.size());
  uint64_t wrong = 0, unanswered = 0;
  {
    Sections sections(how);
    gravel_launch(call_pure<Sections>, blocks, lanes, sections.handle(), from, answers);
    const auto mine = sections.read();
    for (uint64_t i = 0; i < mine.size(); ++i)
      wrong += !mine[i].are_even() || mine[i].word[0] != expected[i * n_pes + me];
  }
  gravel_copy(got.data(), answers, got.size());
  for (uint32_t lane = 0; lane < blocks * lanes; ++lane)
    for (uint32_t i = 0; i < each; ++i) unanswered += got[lane * each + i] != (from.random(me, lane, i) % 2 ? 1 : 0);
  gravel_free(answers);
  if (wrong + unanswered == 0) return {};
  return std::to_string(wrong) + " records and " + std::to_string(unanswered) + " answers are wrong";
}

}  // namespace gravel::detail
