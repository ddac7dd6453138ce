// gravel-info: what Gravel finds on this machine, its variables, and which routes it will use.
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
#include "lib/base/settings.hpp"

extern char** environ;

namespace {

using namespace gravel;

const char* environment(const char* name) { return std::getenv(name); }

findings look_around(const software_report& software) {
  findings f;
  f.gpus = find_gpus();
  std::vector<std::string> bus_ids;
  for (const gpu& g : f.gpus.gpus) bus_ids.push_back(g.bus_id);
  f.machine = look_at_machine(bus_ids);
  f.mps = find_mps();
  f.ucx_transports = software.ucx_transports;
  f.ucx_error = software.ucx_error;
  f.ucx_build_error = software.ucx_build_error;
  if (const char* set = std::getenv("UCX_TLS")) f.ucx_tls = set;
  f.unknown_variables = unknown_settings(environ);
  f.built_with_cuda = software.built_with_cuda;
  std::string aggregator;
  try {
    const settings s = resolved_settings(1);
    f.routes = s.routes;
    f.partition = s.partition;
    // Staging memory here and landing slots there have the same size: two sinks of each PE, for each thread.
    f.registered = 2 * s.aggregator_threads * s.packets_per_destination * s.packet_size;
    aggregator = s.aggregator;
  } catch (const error& e) {
    f.settings_error = e.what();
  }
  try {
    f.aggregator = find_aggregator(aggregator);
  } catch (const error& e) {
    f.aggregator_error = e.what();
  }
  return f;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) fail_errno("writing to standard output");
}
/// Values of the environment may be anything: what is no UTF-8 is replaced.
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
    bool faulty = false;
    text += variables_text(environment, &faulty);
    fine = !faulty;
    if (fine) try {
        read_settings(environment);
      } catch (const error& e) {  // values that do not fit together
        text += fmt::format("\nCANNOT BE USED: {}\n", e.what());
        fine = false;
      }
    if (json) all["variables"] = variables_json(environment);
    for (const auto& name : unknown_settings(environ)) text += fmt::format("\n{} is set, but Gravel does not know it.\n", name);
  }
  if (check || !variables) {
    const software_report software = look_at_software();
    findings found = look_around(software);
    if (!found.gpus.gpus.empty()) found.ipc_error = try_cuda_ipc();
    if (check) {
      for (const problem& p : find_problems(found)) fine = fine && !p.fatal;
      text += check_text(found);
      if (json) all.update(check_json(found));
    }
    if (!check || json) {
      if (!check) text += report_text(software, found);
      if (json) all.update(report_json(software, found));
    }
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
      "Exit status: 0; 1 if --check finds that no job can run here, or -c a value that cannot be used; 2 for\n"
      "wrong options.");
  try {
    app.parse(argc, argv);
    if (markdown && !variables) throw CLI::RequiresError("--markdown", "-c");
    if (markdown && (json || check)) throw CLI::ExcludesError("--markdown", json ? "--json" : "--check");
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    if (!ipc_handle.empty()) return open_cuda_ipc(ipc_handle);
    return run(variables, check, markdown, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gravel-info: %s\n", e.what());
    return 1;
  }
}
