#include "examples/applications/gups_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "examples/common/facts.hpp"
#include "lib/base/version.hpp"

namespace app {
namespace {

bool is_power_of_two(uint64_t n) { return n && (n & (n - 1)) == 0; }

struct rule {
  const char* name;
  const char* text;
  enum { yes, no, open } kept;
};

/// HPCC's rules for RandomAccess (HPC Challenge 1.5), and what this run makes of them.
std::vector<rule> rules_of(const gups_report& r) {
  const auto& o = r.options;
  bool checked = true, few_errors = true;
  const uint64_t words = uint64_t{r.n_pes} << o.table_log2;
  for (const gups_run& run : r.runs) {
    checked &= run.serial_checked || run.undo_checked;
    few_errors &= std::max(run.serial_errors, run.undo_errors) <= words / 100;
  }
  const auto when = [](bool kept) { return kept ? rule::yes : rule::no; };
  return {
      {"power_of_two_table", "the table has a power of two of words", when(is_power_of_two(r.n_pes))},
      {"half_of_memory", "the table takes half of the memory (up to you: --table-log2)", rule::open},
      {"four_updates_per_word", "as many updates as four times the words of the table",
       when(o.updates == 4ull << o.table_log2)},
      {"xor_of_stream", "an update is table[ran mod size] ^= ran, with HPCC's random numbers",
       when(o.mode == "xor" && !o.remote_only && is_power_of_two(r.n_pes))},
      {"own_part_of_stream", "every PE starts at its own place of the one sequence of random numbers", rule::yes},
      {"look_ahead_1024", "no process holds back more than 1024 updates (aggregation gathers more)", rule::no},
      {"errors_below_1_percent", "after the run at most 1 % of the words are wrong (here a single one is an error)",
       !checked ? rule::open : when(few_errors)},
  };
}

}  // namespace

bool gups_report::right(const gups_run& run) const {
  return (!run.hash_checked || run.hash_right) && run.serial_errors == 0 && run.undo_errors == 0 &&
         (!run.sum_checked || run.sum == total_updates());
}
bool gups_report::right() const {
  return std::all_of(runs.begin(), runs.end(), [&](const gups_run& run) { return right(run); });
}

std::string gups_report::header() const {
  const auto& o = options;
  return fmt::format(
      "gups: {} PEs on {} nodes, {} backend, {}, {} blocks of {} lanes\n"
      "table: 2^{} words of 8 bytes per PE, {:.1f} MiB in all\n"
      "updates: {} per PE, {} in all, {}{}\n",
      n_pes, n_nodes, backend, o.network.name == "gravel" ? o.sender + " sender" : "model " + o.network.name, o.grid,
      o.block, o.table_log2, static_cast<double>(n_pes) * static_cast<double>(8ull << o.table_log2) / (1 << 20),
      o.updates, total_updates(), o.mode == "xor" ? "xor" : "increments", o.remote_only ? ", to other PEs only" : "");
}

std::string gups_report::line(const gups_run& run) const {
  const double rate = static_cast<double>(total_updates()) / run.seconds;
  std::string text = fmt::format(
      "{:.3f} s: {:.4g} M updates/s, {:.4g} M/s per PE, {:.4g} GUP/s; {:.1f} % of the updates to other PEs\n",
      run.seconds, rate / 1e6, rate / 1e6 / n_pes, rate / 1e9,
      100.0 * static_cast<double>(run.remote) / static_cast<double>(std::max<uint64_t>(1, total_updates())));
  if (run.serial_checked)
    text += fmt::format("  {} wrong words, compared with a serial computation\n", run.serial_errors);
  if (run.hash_checked)
    text += fmt::format("  the table's hash is {} of all updates\n", run.hash_right ? "that" : "NOT that");
  if (run.undo_checked)
    text +=
        fmt::format("  {} wrong words after all updates were made a second time, which undoes them\n", run.undo_errors);
  if (run.sum_checked) text += fmt::format("  the counters sum up to {} of {}\n", run.sum, total_updates());
  if (options.no_verify) text += "  not verified\n";
  return text;
}

std::string gups_report::rules() const {
  std::string text = "HPCC's rules for RandomAccess:\n";
  constexpr const char* kept[] = {"yes", "NO", "open"};
  for (const rule& r : rules_of(*this)) text += fmt::format("  {:4}  {}\n", kept[r.kept], r.text);
  return text;
}

void gups_report::write_json(const std::string& path) const {
  using nlohmann::ordered_json;
  const auto& o = options;
  ordered_json all = {{"program", "gups"},
                      {"version", GRAVEL_VERSION},
                      {"backend", backend},
                      {"pes", n_pes},
                      {"nodes", n_nodes},
                      {"table_words_per_pe", 1ull << o.table_log2},
                      {"updates_per_pe", o.updates},
                      {"updates", total_updates()},
                      {"mode", o.mode},
                      {"sender", o.sender},
                      {"model", o.network.name},
                      {"grid", o.grid},
                      {"block", o.block},
                      {"remote_only", o.remote_only},
                      {"verified", !o.no_verify},
                      {"right", right()}};
  for (const gups_run& run : runs) {
    ordered_json one = {{"seconds", run.seconds},
                        {"updates_per_s", static_cast<double>(total_updates()) / run.seconds},
                        {"remote_updates", run.remote}};
    if (run.serial_checked) one["errors_against_serial"] = run.serial_errors;
    if (run.hash_checked) one["hash_right"] = run.hash_right;
    if (run.undo_checked) one["errors_after_undo"] = run.undo_errors;
    if (run.sum_checked) one["sum_of_counters"] = run.sum;
    all["runs"].push_back(one);
  }
  for (const rule& r : rules_of(*this))
    all["hpcc_rules"][r.name] = r.kept == rule::open ? ordered_json(nullptr) : ordered_json(r.kept == rule::yes);
  write_file(path, all.dump(2) + '\n');
}

}  // namespace app
