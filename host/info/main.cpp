// gravel-info: what Gravel finds on this machine, its settings, and the routes it will use.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "host/info/report.hpp"
#include "host/info/variables.hpp"
#include "host/node/aggregator_process.hpp"
#include "lib/base/error.hpp"
#include "lib/base/output.hpp"
#include "lib/base/parse_error.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/version.hpp"

extern char** environ;

namespace {

using namespace gravel::detail;

findings inspect() {
  findings f;
  f.software = inspect_software();
  f.gpus = find_gpus();
  std::vector<std::string> bus_ids;
  for (const gpu& g : f.gpus.gpus) bus_ids.push_back(g.bus_id);
  f.machine = inspect_machine(bus_ids);
  f.mps = find_mps();
  if (const char* set = std::getenv("UCX_TLS")) f.ucx_tls = set;
  f.unknown_variables = unknown_settings(environ);
  std::string aggregator;
  f.settings_error = text_of_error([&] {
    const settings s = resolved_settings(1);
    f.routes = s.routes;
    f.partition = s.partition;
    // Staging memory here has the size of the landing slots there: two sinks of each PE, for each thread.
    f.registered = 2 * s.aggregator_threads * s.packets_per_destination * s.packet_size;
    aggregator = s.aggregator;
  });
  f.aggregator_error = text_of_error([&] { f.aggregator = find_aggregator(aggregator); });
  if (!f.gpus.gpus.empty()) f.ipc_error = try_cuda_ipc();
  if (!f.gpus.gpus.empty()) f.handles = try_memory_handles();
  return f;
}

/// The original standard output. After this call standard output is standard error, as UCX writes its log there.
std::FILE* output() {
  static std::FILE* const kept = [] {
    std::FILE* const made = fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "w");
    dup2(2, 1);
    return made;
  }();
  return kept;
}

void print(const std::string& text) {
  if (!output() || std::fputs(text.c_str(), output()) < 0 || std::fflush(output()) != 0)
    fail_errno("writing to standard output");
}
/// The environment may contain any bytes. Those that are not UTF-8 are replaced.
void print(const nlohmann::json& j) { print(j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"); }

int run(bool variables, bool check, bool markdown, bool json) {
  if (markdown) {
    print(variables_markdown());
    return 0;
  }
  bool fine = true;
  nlohmann::json all;
  std::string text;
  if (variables) {
    text += variables_text(std::getenv);
    fine = text_of_error([] { read_settings(std::getenv); }).empty();
    if (json) all["variables"] = variables_json(std::getenv);
    for (const auto& name : unknown_settings(environ)) text += fmt::format("\n{}.\n", describe_unknown_setting(name));
  }
  if (check || !variables) {
    const findings found = inspect();
    if (check) fine = fine && can_run(find_problems(found));
    if (!json) text += check ? check_text(found) : report_text(found);
    if (json && check) all.update(check_json(found));
    if (json) all.update(report_json(found));
  }
  if (json) print(all);
  else print(text);
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"gravel-info: versions, GPUs, transports and limits that Gravel finds on this machine.", "gravel-info"};
  bool variables = false, check = false, markdown = false, json = false;
  std::string ipc_handle;
  app.set_version_flag("--version", "gravel-info " GRAVEL_VERSION);
  app.add_flag("-c,--config", variables, "every GRAVEL_* variable: value here, default, range, unit, meaning");
  app.add_flag("--check", check, "which route each pair of devices will use, why not a faster one, and what is wrong");
  app.add_flag("--json", json, "the same as JSON");
  app.add_flag("--markdown", markdown, "with -c: the table of docs/configuration.md");
  app.add_option("--open-cuda-ipc", ipc_handle)->group("");  // the second process of try_cuda_ipc
  app.footer(
      "Exit status:\n"
      "  0  All is well\n"
      "  1  --check finds that no job can run here, or -c a value that cannot be used\n"
      "  2  An option is wrong");
  check_output_at_exit(app.get_name());
  try {
    app.parse(argc, argv);
    if (markdown && !variables) throw CLI::RequiresError("--markdown", "-c");
    if (markdown && (json || check)) throw CLI::ExcludesError("--markdown", json ? "--json" : "--check");
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fputs(text_of(app, e).c_str(), stderr);
    return 2;
  }
  try {
    output();
    if (!ipc_handle.empty()) {
      const std::string why_not = open_cuda_ipc(ipc_handle);
      print(why_not);
      return why_not.empty() ? 0 : 1;
    }
    return run(variables, check, markdown, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gravel-info: %s\n", e.what());
    return 1;
  }
}
