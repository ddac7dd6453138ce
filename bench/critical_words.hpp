// A problem whose records and calls have any number of words: it shows how the cost of a critical section grows with
// its record and with its message.
#pragma once
#include "examples/critical/contest.hpp"

namespace gravel_bench {
using namespace gravel::detail;
using namespace app;

template <uint32_t WORDS>
struct some_words {
  uint32_t word[WORDS];
  bool operator==(const some_words&) const = default;
};

/// Adds to all words of the record what the words of the argument say, over and over.
template <uint32_t WORDS, uint32_t GIVEN>
struct add_words {
  static constexpr const char* name_of() {
    if (WORDS == 1) return "add_1_1";
    if (WORDS == 4) return GIVEN == 1 ? "add_4_1" : "add_4_4";
    return GIVEN == 1 ? "add_16_1" : "add_16_16";
  }
  static constexpr const char* name = name_of();
  static_assert(WORDS == 1 || WORDS == 4 || WORDS == 16);
  static_assert(GIVEN == 1 || GIVEN == WORDS);
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(some_words<WORDS>& record, some_words<GIVEN> more) const {
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < WORDS; ++i) record.word[i] += more.word[i % GIVEN];
  }
};

template <uint32_t WORDS, uint32_t GIVEN>
struct words_problem {
  static constexpr const char* name = "words";
  static constexpr uint32_t keys_of_call = 1, words = WORDS, given = GIVEN;
  static constexpr bool combines = false, sorts = false;
  using input = keyed_calls;
  using record = some_words<WORDS>;
  using section = add_words<WORDS, GIVEN>;
  using sections = gravel_critical_sections<record, section>;
  using combining = sections;
  GRAVEL_BOTH static some_words<GIVEN> value_of(uint64_t i) {
    some_words<GIVEN> value;
    GRAVEL_UNROLL
    for (uint32_t w = 0; w < GIVEN; ++w) value.word[w] = static_cast<uint32_t>((i + w) * 0x9e3779b9u >> 16 & 0xff);
    return value;
  }
  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    out.begin(to);
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid())
      out.template call<section>(in.keys[i], value_of(i));
    out.end();
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      auto& slot = table[in.keys[i] / n_pes];
      with_lock(&slot.lock, backs_off, [&] { section{}(slot.record, value_of(i)); });
    }
  }
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      uint32_t* const word = table[in.keys[i] / n_pes].record.word;
      const auto more = value_of(i);
      GRAVEL_UNROLL
      for (uint32_t w = 0; w < WORDS; ++w) atomicAdd(&word[w], more.word[w % GIVEN]);
    }
  }
};

}  // namespace gravel_bench
