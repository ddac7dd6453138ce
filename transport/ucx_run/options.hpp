// The command line of ucx-run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/ucx_run/hosts.hpp"

namespace gravel::detail {

struct run_options {
  std::optional<uint32_t> n_pes;  ///< unset: the cores of this host, or the slots of the listed hosts
  uint32_t nodes = 0;             ///< emulated nodes; 0: not set
  std::vector<host_slots> hosts;  ///< of --host and --hostfile; empty: this host
  std::string hostfile;           ///< path; "" if not set
  bool stats = false;
  std::string stats_json;  ///< absolute path; "" if not set
  bool tag_output = false;
  uint32_t timeout_s = 0;                                                   ///< 0: no limit
  std::vector<std::pair<std::string, std::optional<std::string>>> exports;  ///< -x NAME[=VALUE]
  std::string working_directory;                                            ///< "": the current one
  bool dry_run = false;
  bool quiet = false;
  std::vector<std::string> program;  ///< with its arguments; never empty
};

/// The result of the command line: run a job, or print `text` and exit with `status` (help, version, or a mistake on
/// the command line).
struct parsed_options {
  std::optional<run_options> run;
  std::string text;
  int status = 0;
};
parsed_options parse_options(std::vector<std::string> arguments);

/// The variables that the options of ucx-run stand for: names and values.
std::vector<std::pair<std::string, std::string>> job_variables(const run_options& options);

/// Sets these variables in this process's environment, with which PEs and other launchers are started.
void set_job_variables(const run_options& options);

}  // namespace gravel::detail
