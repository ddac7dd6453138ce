// gravel-top: shows a running job of this user on this host.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "host/top/jobs.hpp"
#include "host/top/view.hpp"
#include "lib/base/error.hpp"
#include "lib/base/output.hpp"
#include "lib/base/parse_error.hpp"
#include "lib/base/version.hpp"

namespace {

using namespace gravel::detail;

/// The wait for an aggregator that does not answer: on a machine with more threads than processors it may take seconds.
constexpr uint64_t patience_s = 10;

void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) fail_errno("writing to standard output");
}

/// A program's name may have any bytes. Those that are not UTF-8 are replaced.
std::string line_of(const nlohmann::ordered_json& j) {
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// The text for a terminal, over what stood there before.
std::string in_place(const std::string& text) {
  std::string all = "\033[H";
  for (char c : text) all += c == '\n' ? "\033[K\n" : std::string(1, c);
  return all + "\033[J";
}

int watch(const std::string& name, double interval_s, bool once, bool json) {
  watched_job job = choose(find_jobs(patience_s), name);
  const bool redraws = !once && !json && isatty(1);
  if (redraws) print("\033[2J");
  do {
    const watched_job before = job;
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    std::vector<uint32_t> silent;
    if (!renew(job, patience_s, silent)) {
      std::fprintf(stderr, "gravel-top: the job has ended (%s)\n", before.text().c_str());
      return once ? 1 : 0;
    }
    if (json) print(line_of(view_json(before, job, silent)));
    else if (redraws) print(in_place(view_text(before, job, silent)));
    else print(view_text(before, job, silent) + (once ? "" : "\n"));
  } while (!once);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "gravel-top: shows a running job of this user on this host: messages, packets, queues, and who waits for whom.",
      "gravel-top"};
  bool once = false, json = false;
  double interval_s = 1;
  std::string job;
  app.set_version_flag("--version", "gravel-top " GRAVEL_VERSION);
  app.add_flag("--once", once, "print one sample and end");
  app.add_flag("--json", json, "one JSON object in a line for each sample");
  app.add_option("--interval", interval_s, "seconds between samples; rates are of this time (default: 1)")
      ->check(CLI::Range(0.01, 86400.0))
      ->type_name("SECONDS");
  app.add_option("--job", job, "the job, if several run: its program, or the number of its launcher or of a process")
      ->type_name("NAME/PID");
  app.footer(
      "Exit status:\n"
      "  0  It has shown the job; without --once until the job's end\n"
      "  1  There is no such job, or not one alone, or it ended before --once had its sample\n"
      "  2  An option is wrong");
  check_output_at_exit(app.get_name());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fputs(text_of(app, e).c_str(), stderr);
    return 2;
  }
  try {
    return watch(job, interval_s, once, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gravel-top: %s\n", e.what());
    return 1;
  }
}
