// How long one lane waits for a critical section, if nothing else runs: from its call to its answer.
#pragma once
#include <algorithm>
#include <vector>

#include "bench/perf/report.hpp"
#include "examples/critical/contest.hpp"

namespace gravel_bench {
using namespace gravel::detail;
using namespace app;

struct number_drawn {
  uint32_t next;
};
/// Answers how many calls came before this one. A lane that gets consecutive numbers was the only caller.
struct draw_number {
  static constexpr const char* name = "draw_number";
  GRAVEL_HANDLER uint32_t operator()(number_drawn& n) const { return n.next++; }
};
struct draw_two {
  static constexpr const char* name = "draw_two";
  GRAVEL_HANDLER uint32_t operator()(number_drawn& a, number_drawn& b) const {
    ++b.next;
    return a.next++;
  }
};

constexpr uint32_t no_answer = ~0u;

template <class Section, class Sections, uint32_t KEYS>
struct asking {
  static constexpr uint32_t keys = KEYS;
  using section = Section;
  using sections = Sections;
  template <class Handle>
  GRAVEL_DEVICE static bool ask(const Handle& to, uint32_t* slot, uint32_t key, [[maybe_unused]] uint32_t other) {
    if constexpr (KEYS == 1) return gravel_critical_ask<Section>(to, slot, key);
    else return gravel_critical_ask<Section>(to, slot, key, other);
  }
};
using asking_one = asking<draw_number, gravel_critical_sections<number_drawn, draw_number>, 1>;
using asking_two = asking<draw_two, gravel_critical_sections<number_drawn, draw_two>, 2>;

/// One lane: calls, waits for the answer. wrong: answers that are not the call's number.
template <class Asking>
__global__ void ask_sections(typename Asking::sections::handle_type to, uint32_t* slot, uint32_t key, uint32_t other,
                             uint32_t n, uint64_t* ns, uint32_t* wrong) {
  for (uint32_t i = 0; i < n; ++i) {
    store_relaxed<scope::system>(slot, no_answer);
    const uint64_t begin = globaltimer_ns();
    if (!Asking::ask(to, slot, key, other)) gravel_wait_until(to.service.g, slot, GRAVEL_NE, no_answer);
    ns[i] = globaltimer_ns() - begin;
    *wrong += load_relaxed<scope::system>(slot) != i;
  }
}
template <class Record>
__global__ void ask_locks(locked_record<Record>* table, uint32_t n, uint64_t* ns, uint32_t* wrong) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t begin = globaltimer_ns();
    uint32_t answer = no_answer;
    with_lock(&table->lock, false, [&] { answer = draw_number{}(table->record); });
    ns[i] = globaltimer_ns() - begin;
    *wrong += answer != i;
  }
}

/// All PEs at the same time, each for keys that only it asks for. Collective.
class latency_bench {
 public:
  static uint64_t bytes(uint32_t n) { return uint64_t{n} * sizeof(uint64_t) + (1 << 20); }

  latency_bench(perf::report& r, uint32_t blocks, uint32_t n) : r_(r), blocks_(blocks), n_(n) {
    ns_ = gravel_malloc<uint64_t>(n * sizeof(uint64_t));
    slot_ = gravel_malloc<uint32_t>(sizeof(uint32_t));
    wrong_ = gravel_malloc<uint32_t>(sizeof(uint32_t));
    table_ = gravel_malloc<locked_record<number_drawn>>(sizeof(locked_record<number_drawn>));
  }
  ~latency_bench() {
    gravel_free(table_);
    gravel_free(wrong_);
    gravel_free(slot_);
    gravel_free(ns_);
  }
  void run() {
    using data = gravel_critical_data;
    using place = gravel_critical_place;
    ask<asking_one>("service block, records in device memory", data::device, place::service, 0);
    ask<asking_one>("service block, records in shared memory", data::shared, place::service, 0);
    ask<asking_one>("in place", data::device, place::caller, 0);
    ask<asking_two>("two keys, service blocks", data::device, place::service, 0);
    ask<asking_two>("two keys, in place", data::device, place::caller, 0);
    if (gravel_n_pes() > 1) {
      ask<asking_one>("service block of the next PE", data::device, place::service, 1);
      ask<asking_two>("two keys, service blocks of the next PE", data::device, place::service, 1);
    }
    clear();
    gravel_launch(ask_locks<number_drawn>, 1, 1, table_, n_, ns_, wrong_);
    report("lock in global memory");
  }

 private:
  /// Each PE asks for keys of the PE that is `away` further on.
  template <class Asking>
  void ask(const char* way, gravel_critical_data data, gravel_critical_place place, uint32_t away) {
    const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
    const uint32_t key = (me + away) % n_pes;
    typename Asking::sections sections({.keys = uint64_t{2} * n_pes, .blocks = blocks_, .data = data, .place = place});
    clear();
    gravel_launch(ask_sections<Asking>, 1, 1, sections.handle(), slot_, key, key + n_pes, n_, ns_, wrong_);
    report(way);
    sections.close();
  }
  void clear() {
    const uint32_t none = 0;
    gravel_copy(wrong_, &none, sizeof(none));
    gravel_barrier_all();
  }
  void report(const char* way) {
    gravel_synchronize();
    std::vector<uint64_t> ns(n_);
    uint32_t wrong = 0;
    gravel_copy(ns.data(), ns_, n_ * sizeof(uint64_t));
    gravel_copy(&wrong, wrong_, sizeof(wrong));
    std::sort(ns.begin(), ns.end());
    r_.row({{"way", "way", std::string(way)},
            {"median_ns", "median ns", static_cast<double>(ns[n_ / 2])},
            {"p99_ns", "99% ns", static_cast<double>(ns[uint64_t{n_} * 99 / 100])}},
           {n_, gravel_sum_all(uint64_t{wrong})});
  }

  perf::report& r_;
  uint32_t blocks_, n_;
  uint64_t* ns_;
  uint32_t *slot_, *wrong_;
  locked_record<number_drawn>* table_;
};

}  // namespace gravel_bench
