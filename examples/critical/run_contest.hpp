// Runs a problem: options, keys, the run, a serial run to compare with, the report.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <gravel/device_array.hpp>
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"
#include "examples/critical/contest.hpp"
#include "examples/critical/key_source.hpp"

namespace app {
using gravel::device_array;

struct contest_options {
  uint64_t keys = 1000, calls = GRAVEL_CUDA ? 1 << 20 : 5000;
  double exponent = 0;
  std::string method = "servers";
  uint32_t blocks = 0, calls_under_way = 4096;
  uint64_t seed = 1;
  uint32_t runs = 1;
  bool own = false;
  std::vector<double> exponents;  ///< of `all`: further distributions
  std::string json;
};

struct contest_result {
  bool right;
  double rate;  ///< a second
};

inline contest_method method_of(const std::string& name) {
  for (const auto& n : contest_names)
    if (name == n.name) return n.method;
  fail_text("there is no method '" + name + "'");
}
inline const char* name_of(contest_method m) {
  const char* name = "";
  for (const auto& n : contest_names)
    if (n.method == m) name = n.name;
  return name;
}
inline std::string text_of_methods() {
  std::string text;
  for (const auto& n : contest_names) text += std::string(text.empty() ? "" : "; ") + n.name + ": " + n.text;
  return text;
}

/// A line that says what the method asks less of sections than the others do; empty if nothing.
template <class P>
std::string text_of_less(contest_method m) {
  const bool combines = combines_calls(m) || m == contest_method::sort;
  return combines && asks_less<P> ? std::string("by ") + name_of(m) + ": " + asks_less<P> + '\n' : "";
}

/// Between gravel_init and gravel_finalize. Collective; the same answer on all PEs.
template <class P>
contest_result solve(const contest_options& o) {
  const contest_method m = method_of(o.method);
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  const bool own = o.own || !uses_sections(m);  // locks and atomics of this program reach the own PE alone
  const uint64_t words = o.calls * P::keys_of_call;
  device_array<uint32_t> keys(words);
  gravel_launch(draw_keys<key_source>, blocks_to_fill_device(), lanes_of_block,
                key_source{o.keys, o.exponent, o.seed + me, n_pes, me, own}, keys.data(), words);
  gravel_synchronize();
  contest<P> run(m, o.keys, o.blocks, o.calls_under_way);
  run.prepare({keys.data(), o.calls});
  gravel_barrier_all();
  const auto begin = std::chrono::steady_clock::now();
  run.run({keys.data(), o.calls});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto records = run.read();

  std::vector<uint32_t> mine(words), all(words * n_pes);
  gravel_copy(mine.data(), keys.data(), words * sizeof(uint32_t));
  gravel_allgather(all.data(), mine.data(), words);
  std::vector<typename P::record> expected(o.keys);
  for (uint32_t pe = 0; pe < n_pes; ++pe) P::run_serially(expected, all.data() + pe * words, o.calls);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < records.size(); ++i) wrong += !(records[i] == expected[i * n_pes + me]);
  wrong = gravel_sum_all(wrong);
  const double rate = static_cast<double>(o.calls) * n_pes / seconds;
  if (me == 0) {
    std::printf("%s: %u PEs on %d nodes, %s backend: %llu calls of each PE by %s, %llu keys, Zipf %g\n%.4g M calls/s; ",
                P::name, n_pes, gravel_n_nodes(), gravel_backend(), static_cast<unsigned long long>(o.calls),
                o.method.c_str(), static_cast<unsigned long long>(o.keys), o.exponent, rate / 1e6);
    std::printf("%llu records differ from those of a serial run\n%s", static_cast<unsigned long long>(wrong),
                text_of_less<P>(m).c_str());
  }
  all_succeed(P::name, [&] {
    if (me == 0 && !o.json.empty())
      write_json(o.json, {{"program", P::name},
                          {"backend", gravel_backend()},
                          {"pes", uint64_t{n_pes}},
                          {"method", o.method.c_str()},
                          {"keys", o.keys},
                          {"zipf", o.exponent},
                          {"calls", o.calls * n_pes},
                          {"seconds", seconds},
                          {"calls_per_s", rate},
                          {"wrong", wrong},
                          {"right", wrong == 0}});
  });
  return {wrong == 0, rate};
}

/// Those of all runs.
inline void add_common_options(command_line& app, contest_options& o) {
  app.add_option(
         "--blocks", o.blocks,
         "Service blocks of each PE; 0: up to 24, and as many as a sender gathers calls for (2 on the CPU backend)")
      .range(0, 256)
      .capture_default_str();
  app.add_option("--under-way", o.calls_under_way, "Calls of nested sections under way at once, of each PE")
      .capture_default_str();
  app.add_option("--seed", o.seed, "Of the keys").capture_default_str();
  app.add_option("--runs", o.runs, "So many runs, each with the seed after that of the one before")
      .range(1, 1'000'000)
      .capture_default_str();
  app.add_option("--json", o.json, "Write the results to this file too");
}
inline void add_options(command_line& app, contest_options& o) {
  add_common_options(app, o);
  app.add_option("--keys", o.keys, "Keys, of all PEs together")
      .range(uint64_t{1}, uint64_t{1} << 32)
      .capture_default_str();
  app.add_option("--calls", o.calls, "Calls of each PE").range(uint64_t{0}, uint64_t{1} << 32).capture_default_str();
  app.add_option("--zipf", o.exponent, "Exponent of the distribution of keys; 0: uniform")
      .range(0.0, 5.0)
      .capture_default_str();
  app.add_option("--method", o.method, text_of_methods()).capture_default_str();
  app.add_flag("--own", o.own, "Each PE calls for its own keys alone, as with locks and atomics");
}
/// Symmetric memory. `records`: of one PE, at most.
template <class P>
uint64_t bytes_of(const contest_options& o, uint64_t records, uint64_t more_bytes = 0) {
  return contest<P>::bytes(records, o.calls_under_way, 64) + more_bytes + (64 << 10);
}
/// What the command line asks for can be.
template <class P>
void check_options(const contest_options& o, uint64_t records, uint64_t more_bytes = 0) {
  need_method<P>(method_of(o.method));
  need_symmetric(bytes_of<P>(o, records, more_bytes));
  if (!o.json.empty()) need_writable(o.json);
}

}  // namespace app
