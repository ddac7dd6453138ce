// Critical sections under contention: five problems, each by service blocks (docs/critical.md), by locks in global memory and
// by atomics. One program for all, as most of what a compiler has to do is the same.
#include "examples/critical/all_problems.hpp"

int main(int argc, char** argv) {
  using namespace app;
  using namespace gravel::detail;
  contest_options o;
  uint64_t buckets = 0;
  command_line app("Critical sections by servers, by locks and by atomics.", "critical_sections");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* text) {
    command_line problem = app.add_subcommand(name, text);
    add_options(problem, o);
    return problem;
  };
  command_line counters = add(counters_problem::name, "Counts values for keys: three words that change together");
  const auto and_less = [](const char* text, const char* less) {
    return std::string(text) + "; where calls are combined, " + less;
  };
  command_line bank =
      add(bank_problem::name,
          and_less("Transfers between accounts: sections of two keys", bank_problem::asks_less).c_str());
  command_line table = add(hash_problem::name,
                           and_less("Fills a hash table of 16-byte keys and values", hash_problem::asks_less).c_str());
  command_line boruvka =
      add(boruvka_problem::name,
          "The minimum spanning forest of a random graph: vertices are --keys, edges of each PE --calls; uniform");
  command_line gmm =
      add(gmm_problem::name,
          "Fits normal distributions, --keys of them (16 if none is said), to --calls points of each PE");
  command_line all = app.add_subcommand(
      "all", "All of them, with keys and calls of their own, by servers, locks with backoff and sorting");
  add_common_options(all, o);
  all.add_option("--zipf", o.exponents,
                 "Besides, exponents of the distribution of keys, for those that draw them: such as 0,0.8,1,1.2")
      .range(0.0, 5.0)
      .delimiter(',');
  uint32_t rounds = 4;
  gmm.add_option("--rounds", rounds, "Of expectation and maximization").capture_default_str();
  table
      .add_option("--buckets", buckets,
                  "Of three places each, of all PEs together (of each with --own); 0: places for twice the keys")
      .capture_default_str();
  parse_or_exit(app, argc, argv, [&] {
    if (buckets == 0) buckets = buckets_for(o.keys);
    if (counters.parsed()) check_options<counters_problem>(o, o.keys);
    if (bank.parsed()) check_options<bank_problem>(o, o.keys);
    if (table.parsed()) {
      if (buckets < (o.keys + hash_bucket::places - 1) / hash_bucket::places)
        fail_text("these buckets have not enough places for the keys");
      check_options<hash_problem>(o, buckets, o.calls);
    }
    if (gmm.parsed()) {
      if (gmm.count("--keys") == 0) o.keys = 16;
      if (o.keys > 1024 || o.calls > uint64_t{1} << 22) fail_text("up to 1024 components, and 2^22 points at each PE");
      check_options<gmm_problem>(o, o.keys);
    }
    if (boruvka.parsed()) {
      if (o.keys > uint64_t{1} << 31 || o.calls > uint64_t{1} << 26)
        fail_text("up to 2^31 vertices, and 2^26 edges at each PE");
      check_options<boruvka_problem>(o, o.keys);
    }
    if (all.parsed()) {
      uint64_t most = 0;
      for (const auto& p : all_problems(o)) most = std::max(most, p.bytes);
      need_symmetric(most);
      if (!o.json.empty()) need_writable(o.json);
    }
  });
  gravel_init<counters_problem::sections::delivery, counters_problem::combining::delivery,
              bank_problem::sections::delivery, bank_problem::combining::delivery, hash_problem::sections::delivery,
              hash_problem::combining::delivery, boruvka_problem::sections::delivery,
              boruvka_problem::combining::delivery, gmm_problem::sections::delivery,
              gmm_problem::combining::delivery>();
  bool right = true;
  for (uint32_t run = 0; run < o.runs; ++run, ++o.seed)
    right &= (all.parsed()        ? solve_all(o)
              : counters.parsed() ? solve<counters_problem>(o)
              : bank.parsed()     ? solve<bank_problem>(o)
              : table.parsed()    ? solve_hash_table(o, buckets)
              : gmm.parsed()      ? solve_gmm(o, rounds)
                                  : solve_boruvka(o))
                 .right;
  return finish("critical_sections", right);
}
