#include "transport/ucx_run/delegate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/error.hpp"
#include "transport/ucx_run/child.hpp"

namespace gravel::detail {
namespace {

std::optional<std::string> in_path(const char* name) {
  try {
    return find_program(name, "");
  } catch (const start_failure&) {
    return std::nullopt;
  }
}

/// The first 4 KiB that a command prints.
std::string output_of(const std::vector<std::string>& command) {
  FILE* pipe = popen((shell_quoted(command) + " 2>&1 </dev/null").c_str(), "re");
  if (!pipe) return {};
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  pclose(pipe);
  return text;
}

bool contains(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

/// If it is called by another name than mpirun, Open MPI 4 calls itself OpenRTE.
bool is_open_mpi(const std::string& path) {
  const std::string version = output_of({path, "--version"});
  return contains(version, "Open MPI") || contains(version, "OpenRTE");
}

std::string host_list(const std::vector<host_slots>& hosts, bool with_slots) {
  std::string result;
  for (const auto& host : hosts) {
    if (!result.empty()) result += ',';
    result += with_slots ? fmt::format("{}:{}", host.name, host.slots) : host.name;
  }
  return result;
}

/// The variables that reach the PEs without an option: Gravel's and UCX's own, so that a setting means the same on all
/// hosts.
std::vector<std::string> variables_to_export(const run_options& options) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("GRAVEL_") || text.starts_with("UCX_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& [name, value] : options.exports) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string result;
  for (const auto& word : words) {
    if (!result.empty()) result += ' ';
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isalnum(c) || std::strchr("_-./:,=+@%", c);
    });
    if (plain) {
      result += word;
      continue;
    }
    result += '\'';
    for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    result += '\'';
  }
  return result;
}

std::optional<launcher> find_launcher(bool in_slurm) {
  const auto srun = []() -> std::optional<launcher> {
    const auto path = in_path("srun");
    if (path && contains(output_of({*path, "--mpi=list"}), "pmix")) return launcher{launcher_kind::srun, *path};
    return std::nullopt;
  };
  if (in_slurm)
    if (auto found = srun()) return found;
  if (const auto path = in_path("prterun")) return launcher{launcher_kind::prterun, *path};
  // Other MPIs have an mpirun, too, but without PMIx.
  for (const char* name : {"mpirun", "mpirun.openmpi"})
    if (const auto path = in_path(name))
      if (is_open_mpi(*path)) return launcher{launcher_kind::open_mpi, *path};
  if (!in_slurm) return srun();
  return std::nullopt;
}

std::vector<std::string> launcher_command(const launcher& with, const run_options& options,
                                          const std::vector<std::string>& variables, bool as_root) {
  const uint32_t slots = total_slots(options.hosts);
  const uint32_t n_pes = options.n_pes.value_or(slots);
  std::vector<std::string> command{with.path};
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };

  if (with.kind == launcher_kind::srun) {
    add({"--mpi=pmix", "-n", std::to_string(n_pes), "--nodelist", host_list(options.hosts, false), "--nodes",
         std::to_string(options.hosts.size())});
    const bool equal = std::all_of(options.hosts.begin(), options.hosts.end(),
                                   [&](const host_slots& h) { return h.slots == options.hosts[0].slots; });
    if (equal && n_pes == slots) add({"--ntasks-per-node", std::to_string(options.hosts[0].slots)});
    if (n_pes > slots) add({"--overcommit"});
    if (!options.working_directory.empty()) add({"--chdir", options.working_directory});
    if (options.tag_output) add({"--label"});
    if (options.timeout_s) add({fmt::format("--time={}:{:02}", options.timeout_s / 60, options.timeout_s % 60)});
    // srun passes on the whole environment.
  } else {
    const bool prte = with.kind == launcher_kind::prterun;
    add({"-n", std::to_string(n_pes)});
    if (options.hostfile.empty()) add({"--host", host_list(options.hosts, true)});
    else add({"--hostfile", options.hostfile});
    if (n_pes > slots) {
      if (prte) add({"--map-by", ":OVERSUBSCRIBE"});
      else add({"--oversubscribe"});
    }
    if (as_root) add({"--allow-run-as-root"});
    if (!options.working_directory.empty()) add({"--wdir", options.working_directory});
    if (options.tag_output) {
      if (prte) add({"--output", "tag"});
      else add({"--tag-output"});
    }
    if (options.timeout_s) add({"--timeout", std::to_string(options.timeout_s)});
    for (const auto& name : variables) add({"-x", name});
  }
  command.insert(command.end(), options.program.begin(), options.program.end());
  return command;
}

int delegate_job(const run_options& options) {
  const char* slurm_job = std::getenv("SLURM_JOB_ID");
  const auto with = find_launcher(slurm_job && *slurm_job);
  if (!with)
    fail(
        "the hosts {} need a PMIx launcher, and none is installed: looked in PATH for prterun, Open MPI's mpirun, and "
        "srun with PMIx. On Debian and Ubuntu: apt-get install openmpi-bin",
        host_list(options.hosts, false));
  set_job_variables(options);
  const auto command = launcher_command(*with, options, variables_to_export(options), geteuid() == 0);
  if (options.dry_run) {
    std::printf("%s\n", shell_quoted(command).c_str());
    return 0;
  }
  execv(command[0].c_str(), c_array(command).data());
  fail_errno("cannot start " + with->path);
}

}  // namespace gravel::detail
