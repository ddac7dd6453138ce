// Critical sections within each GPU: by service blocks, in place, and by rivals (locks in global memory, atomic
// operations), over the number of keys and the skew of the calls; over words of a record and of a call; and the latency
// of one call. Each run is compared with the same calls made by atomic operations, whose result does
// not depend on the order.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "bench/critical_latency.hpp"
#include "bench/critical_words.hpp"
#include "bench/perf/report.hpp"
#include "examples/common/program.hpp"
#include "examples/critical/bank.hpp"
#include "examples/critical/counters.hpp"
#include "examples/critical/key_source.hpp"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

constexpr const char* program_name = "critical";

struct bench_options {
  std::vector<std::string> parts{"rates", "words", "latency"}, problems{"counters", "bank"},
      methods{"servers",       "owners",   "locks",   "in-place", "combine",
              "combine-block", "try-lock", "backoff", "sort",     "atomics"};
  std::vector<uint64_t> keys =
      GRAVEL_CUDA ? std::vector<uint64_t>{1, 16, 1024, 65536, 1 << 20, 1 << 26} : std::vector<uint64_t>{1, 16, 1024};
  std::vector<double> zipf{0, 0.8, 1, 1.2};
  std::vector<uint64_t> words_keys =
      GRAVEL_CUDA ? std::vector<uint64_t>{16, 65536, 1 << 20} : std::vector<uint64_t>{16, 1024};
  std::vector<double> words_zipf{0, 1};
  uint32_t iterations = GRAVEL_CUDA ? 10000 : 100;
  std::vector<uint32_t> blocks{GRAVEL_CUDA ? 24 : 2};
  uint64_t calls = GRAVEL_CUDA ? uint64_t{1} << 28 : 20'000, first = GRAVEL_CUDA ? 1 << 14 : 1000;
  uint32_t under_way = 16384, repeat = 3;
  double milliseconds = 100;
  bool is_short = false;
  std::string json;
};

template <class P>
struct bench_of_problem {
  const bench_options& o;
  perf::report& r;

  /// One method on one set of keys. The calls of a run are doubled until it takes long enough: a contended lock does a
  /// thousandth of what others do.
  void measure(contest_method m, const contest_name& name, uint64_t keys, double exponent, uint32_t blocks,
               const uint32_t* drawn, uint64_t calls) {
    std::vector<double> rates;
    uint64_t made = 0, wrong = 0, n = std::min(o.first, calls);
    contest<P> run(m, keys, blocks, o.under_way), right(contest_method::atomics, keys, blocks, o.under_way);
    for (uint32_t done = 0; done < o.repeat;) {
      gravel_barrier_all();
      const auto begin = std::chrono::steady_clock::now();
      run.run({drawn, n});
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      right.run({drawn, n});
      made += n;
      const bool is_long = gravel_max_all(static_cast<uint64_t>(seconds * 1e9)) >= o.milliseconds * 1e6;
      if (!is_long && n < calls) {
        n = std::min(calls, n * 4);
        continue;
      }
      rates.push_back(static_cast<double>(n) / seconds);
      ++done;
    }
    const auto records = run.read(), expected = right.read();
    for (size_t i = 0; i < records.size(); ++i) wrong += !(records[i] == expected[i]);
    wrong = gravel_sum_all(wrong);
    std::sort(rates.begin(), rates.end());
    std::vector<perf::cell> cells{{"problem", "problem", std::string(P::name)}};
    if constexpr (requires { P::words; }) {
      cells.push_back({"words", "words", uint64_t{P::words}});
      cells.push_back({"words_given", "words given", uint64_t{P::given}});
    }
    cells.insert(cells.end(), {{"keys", "keys", keys},
                               {"zipf", "Zipf", exponent},
                               {"method", "method", std::string(name.name)},
                               {"blocks", "blocks", uint64_t{uses_sections(m) ? blocks : 0}},
                               {"million_calls_per_s", "M calls/s", rates[rates.size() / 2] / 1e6},
                               {"calls", "calls a run", n}});
    r.row(std::move(cells), {made, wrong});
  }

  void run() {
    const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
    const uint64_t calls = o.calls / P::keys_of_call;
    device_array<uint32_t> drawn(calls * P::keys_of_call);
    const bool is_words = requires { P::words; };
    for (const uint64_t keys : is_words ? o.words_keys : o.keys) {
      if (keys < n_pes) continue;  // each PE calls for keys of its own
      for (const double exponent : is_words ? o.words_zipf : o.zipf) {
        if (keys == 1 && exponent != o.zipf.front()) continue;
        gravel_launch(draw_keys<key_source>, blocks_to_fill_device(), lanes_of_block,
                      key_source{keys, exponent, 1 + me, n_pes, me, true}, drawn.data(), calls * P::keys_of_call);
        gravel_synchronize();
        for (const auto& name : contest_names) {
          if (std::find(o.methods.begin(), o.methods.end(), name.name) == o.methods.end()) continue;
          if (!has_method<P>(name.method)) continue;
          for (const uint32_t blocks : o.blocks) {
            if (!uses_sections(name.method) && blocks != o.blocks.front()) continue;
            measure(name.method, name, keys, exponent, blocks, drawn.data(), calls);
          }
        }
      }
    }
  }
};

// Records of up to 32 bytes are in registers while their calls run, those of 64 are not; those of 5 to 12 (counters)
// are a word with their lock.
using words_1_1 = words_problem<1, 1>;
using words_4_1 = words_problem<4, 1>;
using words_4_4 = words_problem<4, 4>;
using words_16_1 = words_problem<16, 1>;
using words_16_16 = words_problem<16, 16>;

int main(int argc, char** argv) {
  bench_options o;
  command_line app("Critical sections a second: service blocks, locks in global memory, atomic operations.",
                   program_name);
  app.add_option("--parts", o.parts,
                 "rates: of problems; words: the same over words of a record and words given; latency: of one call")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--problems", o.problems,
                 "counters: three words of one key; bank: two keys, and two sections of one where calls are combined")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--methods", o.methods,
                 "\"servers\" (service blocks), owners, locks, in-place, combine, combine-block, try-lock, backoff, "
                 "sort, atomics")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--keys", o.keys, "Numbers of keys, of all PEs together").delimiter(',').capture_default_str();
  app.add_option("--zipf", o.zipf, "Exponents of their distribution; 0: uniform").delimiter(',').capture_default_str();
  app.add_option("--words-keys", o.words_keys, "The same for words").delimiter(',').capture_default_str();
  app.add_option("--words-zipf", o.words_zipf, "The same for words").delimiter(',').capture_default_str();
  app.add_option("--iterations", o.iterations, "Calls whose latency is taken").range(1, 1 << 24).capture_default_str();
  app.add_option("--blocks", o.blocks, "Numbers of service blocks").delimiter(',').capture_default_str();
  app.add_option("--calls", o.calls, "Keys that are drawn: at most so many calls a run (half as many of two keys)")
      .capture_default_str();
  app.add_option("--milliseconds", o.milliseconds, "A run has so many calls that it takes so long, or all")
      .capture_default_str();
  app.add_option("--under-way", o.under_way, "Nested calls under way at once").capture_default_str();
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_flag("--short", o.is_short, "A smoke test: few keys, few calls, one run");
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    for (const auto& m : o.methods)
      if (std::none_of(std::begin(contest_names), std::end(contest_names), [&](const auto& n) { return m == n.name; }))
        fail_text("there is no method '" + m + "'");
    for (const auto& p : o.parts)
      if (p != "rates" && p != "words" && p != "latency") fail_text("there is no part '" + p + "'");
    if (o.is_short) {
      o.words_keys = {40};
      o.words_zipf = {1};
      o.iterations = 20;
      o.keys = {4, 3000};
      o.zipf = {0, 1};
      o.blocks = {2};
      o.calls = 2000;
      o.first = 500;
      o.repeat = 1;
      o.milliseconds = 1;
    }
    const auto most_of = [](const std::vector<uint64_t>& keys) { return *std::max_element(keys.begin(), keys.end()); };
    need_symmetric(std::max({contest<bank_problem>::bytes(most_of(o.keys), o.under_way, 64) +
                                 (most_of(o.keys) + 1) * sizeof(locked_record<bank_account>),
                             contest<words_16_16>::bytes(most_of(o.words_keys), o.under_way, 64) +
                                 (most_of(o.words_keys) + 1) * sizeof(locked_record<words_16_16::record>),
                             latency_bench::bytes(o.iterations)}) +
                   (64 << 10));
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<counters_problem::sections::delivery, counters_problem::combining::delivery,
              bank_problem::sections::delivery, bank_problem::combining::delivery, words_1_1::sections::delivery,
              words_4_1::sections::delivery, words_4_4::sections::delivery, words_16_1::sections::delivery,
              words_16_16::sections::delivery, asking_one::sections::delivery, asking_two::sections::delivery>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());
  r.fact("pes", static_cast<uint64_t>(gravel_n_pes()));
  const auto has_part = [&](const char* name) {
    return std::find(o.parts.begin(), o.parts.end(), name) != o.parts.end();
  };
  if (has_part("rates")) {
    // The key of recorded result files.
    r.title("servers", "critical sections of each PE for keys of its own");
    for (const auto& p : o.problems) {
      if (p == counters_problem::name) bench_of_problem<counters_problem>{o, r}.run();
      else if (p == bank_problem::name) bench_of_problem<bank_problem>{o, r}.run();
      else fail_text("there is no problem '" + p + "'");
    }
  }
  if (has_part("words")) {
    r.title("words", "sections that change so many words of 4 bytes, and are given so many");
    bench_of_problem<words_1_1>{o, r}.run();
    bench_of_problem<words_4_1>{o, r}.run();
    bench_of_problem<words_4_4>{o, r}.run();
    bench_of_problem<words_16_1>{o, r}.run();
    bench_of_problem<words_16_16>{o, r}.run();
  }
  if (has_part("latency")) {
    r.title("latency", "one lane of each PE asks a section and waits for the answer");
    latency_bench(r, o.blocks.front(), o.iterations).run();
  }
  r.finish();
  const bool right = gravel_min_all(uint64_t{r.right()}) != 0;
  return finish(program_name, right);
}
