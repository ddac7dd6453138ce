// Runs the five problems one after the other, each with its own distribution of keys, by service blocks and by their
// rivals. Prints how many times as fast service blocks are as locks with backoff, and the geometric mean of that.
// Problems that draw their keys also run with the other problems' distributions.
#pragma once
#include <cmath>
#include <functional>

#include "examples/critical/bank.hpp"
#include "examples/critical/boruvka.hpp"
#include "examples/critical/counters.hpp"
#include "examples/critical/gmm.hpp"
#include "examples/critical/hash_table.hpp"

namespace app {

struct problem_case {
  const char* name;
  const char* less;  ///< what combining asks less of sections; nullptr: nothing
  bool draws_keys;
  uint64_t keys, calls;  ///< of each PE
  uint64_t fewer;        ///< locks of few keys take a thousand times as long: they get so many times fewer calls
  bool fewer_keys;       ///< and keys
  double exponent;
  std::function<contest_result(const contest_options&)> solve;
  uint64_t bytes;
};

/// Places for twice the keys.
inline uint64_t buckets_for(uint64_t keys) { return keys * 2 / hash_bucket::places + 64; }

/// Words, accounts of which some are busier than others, identifiers, a few clusters, a random graph.
inline std::vector<problem_case> all_problems(const contest_options& o) {
  constexpr uint64_t scale = GRAVEL_CUDA ? 1 << 10 : 1;
  const uint64_t words = 64 * scale, accounts = 1024 * scale, items = 1024 * scale, vertices = 128 * scale;
  return {{counters_problem::name, asks_less<counters_problem>, true, words, 4096 * scale, 32, false, 1,
           [](const contest_options& c) { return solve<counters_problem>(c); }, bytes_of<counters_problem>(o, words)},
          {bank_problem::name, asks_less<bank_problem>, true, accounts, 4096 * scale, 1, false, 0.5,
           [](const contest_options& c) { return solve<bank_problem>(c); }, bytes_of<bank_problem>(o, accounts)},
          {hash_problem::name, asks_less<hash_problem>, true, items, 16384 * scale, 1, false, 0,
           [](const contest_options& c) { return solve_hash_table(c, buckets_for(c.keys)); },
           bytes_of<hash_problem>(o, buckets_for(items), 16384 * scale)},
          {gmm_problem::name, asks_less<gmm_problem>, false, 16, 256 * scale, 32, false, 0,
           [](const contest_options& c) { return solve_gmm(c, 1); }, bytes_of<gmm_problem>(o, 16)},
          {boruvka_problem::name, asks_less<boruvka_problem>, false, vertices, 1024 * scale, 16, true, 0,
           [](const contest_options& c) { return solve_boruvka(c); }, bytes_of<boruvka_problem>(o, vertices)}};
}

/// Collective; the same answer on all PEs.
inline contest_result solve_all(const contest_options& given) {
  const bool prints = gravel_my_pe() == 0;
  double sum_of_blocks = 0, sum_of_best = 0;
  bool right = true;
  fact_list facts{{"program", "critical_sections all"},
                  {"backend", gravel_backend()},
                  {"pes", static_cast<uint64_t>(gravel_n_pes())}};
  const auto all = all_problems(given);
  for (const problem_case& p : all) {
    const auto run_with = [&](const char* method, double exponent, uint64_t fewer, const std::string& key) {
      contest_options o = given;
      if (method != std::string("backoff")) fewer = 1;
      o.calls = p.calls / fewer;
      o.keys = p.keys / (p.fewer_keys ? fewer : 1);
      o.exponent = exponent;
      o.method = method;
      o.own = true;
      o.json.clear();
      const contest_result result = p.solve(o);
      right &= result.right;
      facts.push_back({p.name + key + "_" + method, result.rate});
      return result.rate;
    };
    const auto run = [&](const char* method) { return run_with(method, p.exponent, p.fewer, ""); };
    const double sections = run("servers"), of_warps = run("combine"), of_blocks = run("combine-block"),
                 backoff = run("backoff"), combined = std::max(of_warps, of_blocks);
    run("sort");
    for (const double exponent : p.draws_keys ? given.exponents : std::vector<double>{})
      for (const char* method : {"servers", "combine", "combine-block", "backoff", "sort"}) {
        char key[32];
        std::snprintf(key, sizeof(key), "_zipf_%g", exponent);
        run_with(method, exponent, exponent > 0 ? std::max<uint64_t>(p.fewer, 32) : p.fewer, key);
      }
    sum_of_blocks += std::log(sections / backoff);
    sum_of_best += std::log((p.less ? sections : std::max(sections, combined)) / backoff);
    facts.push_back({std::string(p.name) + "_over_backoff", sections / backoff});
    if (prints)
      std::printf("%s: sections %.3g times as fast as locks with backoff, combining %.3g%s%s%s\n\n", p.name,
                  sections / backoff, combined / backoff, p.less ? " (" : "", p.less ? p.less : "", p.less ? ")" : "");
  }
  const auto n = static_cast<double>(all.size());
  const double mean = std::exp(sum_of_blocks / n), best = std::exp(sum_of_best / n);
  facts.push_back({"geometric_mean", mean});
  facts.push_back({"geometric_mean_where_calls_combine", best});
  facts.push_back({"right", right});
  if (prints)
    std::printf("geometric mean of the five: %.3g, combining where this asks no less of sections %.3g\n", mean, best);
  all_succeed("critical_sections", [&] {
    if (prints && !given.json.empty()) write_json(given.json, facts);
  });
  return {right, mean};
}

}  // namespace app
