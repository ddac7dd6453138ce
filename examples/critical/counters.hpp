// Counters of several words: how many values a key has had, their sum, and the largest. The three words belong
// together, so a section is exclusive; one by one they could also be atomic.
#pragma once
#include "examples/critical/contest.hpp"

namespace app {

struct value_counter {
  uint32_t values, sum, largest;
  GRAVEL_BOTH void add(const value_counter& more) {
    values += more.values;
    sum += more.sum;
    largest = largest > more.largest ? largest : more.largest;
  }
  bool operator==(const value_counter&) const = default;
};

/// The section.
struct count_value {
  static constexpr const char* name = "count_value";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(value_counter& c, uint32_t value) const { c.add({1, value, value}); }
};
/// The same of several values at once.
struct count_values {
  static constexpr const char* name = "count_values";
  static constexpr bool pure = true;
  GRAVEL_HANDLER void operator()(value_counter& c, value_counter more) const { c.add(more); }
  GRAVEL_HANDLER static value_counter combine(value_counter a, value_counter b) {
    a.add(b);
    return a;
  }
};

struct counters_problem {
  static constexpr const char* name = "counters";
  static constexpr uint32_t keys_of_call = 1;
  static constexpr bool combines = true, sorts = true;
  using input = keyed_calls;
  using record = value_counter;
  using sections = gravel_critical_sections<value_counter, count_value>;
  using combining = gravel_critical_sections<value_counter, count_values>;
  using section_of_many = count_values;
  using argument = value_counter;
  GRAVEL_BOTH static uint32_t value_of(uint64_t i) { return static_cast<uint32_t>(i * 0x9e3779b9u >> 16 & 0xff); }

  template <class Sections>
  GRAVEL_DEVICE static void by_sections(typename Sections::handle_type to, const input& in) {
    auto& out = gravel_sender_of_block<typename Sections::sender>();
    out.begin(to);
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      const uint32_t value = value_of(i);
      if constexpr (std::is_same_v<Sections, sections>) out.template call<count_value>(in.keys[i], value);
      else out.template call<count_values>(in.keys[i], value_counter{1, value, value});
    }
    out.end();
  }
  GRAVEL_DEVICE static void by_locks(locked_record<record>* table, const input& in, uint32_t n_pes, bool backs_off) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      auto& slot = table[in.keys[i] / n_pes];
      with_lock(&slot.lock, backs_off, [&] { count_value{}(slot.record, value_of(i)); });
    }
  }
  GRAVEL_DEVICE static void by_atomics(locked_record<record>* table, const input& in, uint32_t n_pes) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) {
      value_counter& c = table[in.keys[i] / n_pes].record;
      const uint32_t value = value_of(i);
      atomicAdd(&c.values, 1u);
      atomicAdd(&c.sum, value);
      atomicMax(&c.largest, value);
    }
  }
  static uint64_t most_calls(const input& in) { return in.n; }
  template <class F>
  GRAVEL_DEVICE static void each_call(const input& in, const F& call) {
    for (uint64_t i = first_of_lane(); i < in.n; i += lanes_of_grid()) call(in.keys[i], {1, value_of(i), value_of(i)});
  }
  /// By one thread.
  static void run_serially(std::vector<record>& records, const uint32_t* keys, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) count_value{}(records[keys[i]], value_of(i));
  }
};

}  // namespace app
