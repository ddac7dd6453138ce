// Critical sections under contention: five problems, each by service blocks (docs/critical.md), by locks in global
// memory and by atomics. One program for all, since most of the code to compile is the same.
#include <utility>

#include "examples/common/run_application.hpp"
#include "examples/critical/all_problems.hpp"

using namespace app;

/// Each problem is a subcommand, which has its own --json.
struct critical_options {
  contest_options contest;
  uint64_t buckets = 0;
  uint32_t rounds = 4;
  std::vector<std::pair<std::string, command_line>> problems;

  const command_line& problem(const std::string& name) const {
    const auto has_name = [&](const auto& p) { return p.first == name; };
    return std::find_if(problems.begin(), problems.end(), has_name)->second;
  }
  bool is(const std::string& name) const { return problem(name).parsed(); }
  void add_options(command_line& line);
  void check();
};

void critical_options::add_options(command_line& line) {
  line.require_subcommand(1);
  const auto add = [&](const char* name, const std::string& text) -> command_line& {
    problems.emplace_back(name, line.add_subcommand(name, text.c_str()));
    return problems.back().second;
  };
  const auto add_problem = [&](const char* name, const std::string& text) -> command_line& {
    command_line& problem = add(name, text);
    ::app::add_options(problem, contest);
    return problem;
  };
  const auto and_less = [](const char* text, const char* less) {
    return std::string(text) + "; where calls are combined, " + less;
  };
  add_problem(counters_problem::name, "Counts values for keys: three words that change together");
  add_problem(bank_problem::name,
              and_less("Transfers between accounts: sections of two keys", bank_problem::asks_less));
  add_problem(hash_problem::name, and_less("Fills a hash table of 16-byte keys and values", hash_problem::asks_less))
      .add_option("--buckets", buckets,
                  "Of three places each, of all PEs together (of each with --own); 0: places for twice the keys")
      .capture_default_str();
  add_problem(boruvka_problem::name,
              "The minimum spanning forest of a random graph: vertices are --keys, edges of each PE --calls; uniform");
  add_problem(gmm_problem::name,
              "Fits normal distributions, --keys of them (16 if none is said), to --calls points of each PE")
      .add_option("--rounds", rounds, "Of expectation and maximization")
      .capture_default_str();
  command_line& all =
      add("all", "All of them, with keys and calls of their own, by service blocks, locks with backoff and sorting");
  add_common_options(all, contest);
  all.add_option("--zipf", contest.exponents,
                 "Besides, exponents of the distribution of keys, for those that draw them: such as 0,0.8,1,1.2")
      .range(0.0, 5.0)
      .delimiter(',');
}
void critical_options::check() {
  contest_options& o = contest;
  if (buckets == 0) buckets = buckets_for(o.keys);
  if (is(counters_problem::name)) check_options<counters_problem>(o, o.keys);
  if (is(bank_problem::name)) check_options<bank_problem>(o, o.keys);
  if (is(hash_problem::name)) {
    if (buckets < (o.keys + hash_bucket::places - 1) / hash_bucket::places)
      fail_text("these buckets have not enough places for the keys");
    check_options<hash_problem>(o, buckets, o.calls);
  }
  if (is(gmm_problem::name)) {
    if (problem(gmm_problem::name).count("--keys") == 0) o.keys = 16;
    if (o.keys > 1024 || o.calls > uint64_t{1} << 22) fail_text("up to 1024 components, and 2^22 points at each PE");
    check_options<gmm_problem>(o, o.keys);
  }
  if (is(boruvka_problem::name)) {
    if (o.keys > uint64_t{1} << 31 || o.calls > uint64_t{1} << 26)
      fail_text("up to 2^31 vertices, and 2^26 edges at each PE");
    check_options<boruvka_problem>(o, o.keys);
  }
  if (is("all")) {
    uint64_t most = 0;
    for (const auto& p : all_problems(o)) most = std::max(most, p.bytes);
    need_symmetric(most);
    if (!o.json.empty()) need_writable(o.json);
  }
}

contest_result solve_problem(const critical_options& chosen, const contest_options& o) {
  if (chosen.is("all")) return solve_all(o);
  if (chosen.is(counters_problem::name)) return solve<counters_problem>(o);
  if (chosen.is(bank_problem::name)) return solve<bank_problem>(o);
  if (chosen.is(hash_problem::name)) return solve_hash_table(o, chosen.buckets);
  if (chosen.is(gmm_problem::name)) return solve_gmm(o, chosen.rounds);
  return solve_boruvka(o);
}

/// Each problem writes a JSON file of its own, so there are no facts.
bool run(const critical_options& chosen, fact_list&) {
  contest_options o = chosen.contest;
  bool right = true;
  for (uint32_t i = 0; i < o.runs; ++i, ++o.seed) right &= solve_problem(chosen, o).right;
  return right;
}

int main(int argc, char** argv) {
  return run_application<counters_problem::sections::delivery, counters_problem::combining::delivery,
                         bank_problem::sections::delivery, bank_problem::combining::delivery,
                         hash_problem::sections::delivery, hash_problem::combining::delivery,
                         boruvka_problem::sections::delivery, boruvka_problem::combining::delivery,
                         gmm_problem::sections::delivery, gmm_problem::combining::delivery>(
      {"critical_sections", "Critical sections by service blocks, by locks and by atomics."}, argc, argv,
      critical_options{}, run);
}
