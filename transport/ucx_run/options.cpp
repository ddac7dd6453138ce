#include "transport/ucx_run/options.hpp"

#include <pmix.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "lib/base/closest_name.hpp"
#include "lib/base/error.hpp"
#include "lib/base/version.hpp"

namespace gravel::detail {
namespace {

constexpr const char* description =
    "Starts a Gravel job: N processes (PEs) of one program, as `mpirun -n N` does.\n"
    "Everything before the program is for ucx-run, everything after it for the program.";

constexpr const char* footer = R"(Other hosts:
  On this machine ucx-run needs no other launcher. With --host or --hostfile that name other machines it becomes the
  first of prterun, Open MPI's mpirun, srun --mpi=pmix that is installed (inside a Slurm job srun comes first);
  GRAVEL_* and UCX_* variables go along. --dry-run shows the command line.

Output and signals:
  PEs write straight to the output of ucx-run. PE 0 reads its input, the others read nothing. SIGINT, SIGTERM, SIGHUP,
  SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to every PE; a second SIGINT kills the job. When a PE fails (exit status
  other than 0, a signal, or leaving the job without finalizing it), a line on stderr says which and how, the others
  get SIGTERM, and SIGKILL 2 s later. No process that a PE has started survives the job.

Exit status:
  0          All PEs ended with 0
  2          The command line is wrong
  124        The job ran longer than --timeout allows
  126        The program cannot be executed
  127        The program is not found
  otherwise  That of the first PE that failed; 128 + signal number if a signal killed it

Examples:
  ucx-run -n 4 gravel-gups --table-log2 20  4 PEs on this machine
  ucx-run -n 4 --nodes 2 gravel-gups        the same as 2 emulated nodes: the network path on one machine
  ucx-run -n 4 --stats=net.json ./prog      network statistics on stderr and as JSON
  ucx-run -n 2 --tag-output -- ./prog -v    each line of output begins with the number of its PE
  ucx-run -n 16 --host a:8,b:8 ./prog       8 PEs on each of two hosts, through the PMIx launcher found there
)";

/// The help text with the program and its arguments, which CLI11 does not know.
class help_text : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: ucx-run [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n";
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    if (option->check_name("--stats")) return "--stats[=FILE.json]";  // otherwise it shows the default in braces
    return CLI::Formatter::make_option_name(option, positional);
  }
};

/// Turns Open MPI's spellings with one dash into two dashes.
std::string modern_spelling(const std::string& argument) {
  for (const char* old : {"-np", "-host", "-hostfile", "-machinefile", "-wdir", "-wd", "-nodes", "-timeout",
                          "-tag-output", "-oversubscribe", "-stats", "-version", "-help"})
    if (argument == old) return "-" + argument;
  return argument;
}

bool takes_value(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  return option && option->get_expected_min() > 0;
}

/// CLI11 names an option that it does not know, but not the one that may be meant; this does.
void check_known(const CLI::App& app, const std::string& argument) {
  const bool is_long = argument[1] == '-';
  const std::string name = argument.substr(0, is_long ? argument.find('=') : 2);  // "-n4" contains its value
  if (app.get_option_no_throw(name)) return;
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& known : option->get_lnames()) names.push_back("--" + known);
  const std::string unknown = is_long ? name : argument.substr(0, argument.find('='));
  fail("unknown option {}{}", unknown, did_you_mean((is_long ? "" : "-") + unknown, names));
}

/// The index of the first of `arguments` that is neither an option nor its value: "--", or the program. Options get
/// their modern spelling. Throws gravel::error if there is no such option.
size_t end_of_options(const CLI::App& app, std::vector<std::string>& arguments) {
  size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i] = modern_spelling(arguments[i]);
    if (argument == "--" || argument.size() < 2 || argument[0] != '-') return i;
    check_known(app, argument);
    const bool is_long = argument[1] == '-';
    // "--name=value" and "-n4" contain their value.
    if (argument.find('=') == std::string::npos && (is_long || argument.size() == 2) && takes_value(app, argument)) ++i;
  }
  return arguments.size();
}

bool is_variable_name(const std::string& name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::pair<std::string, std::optional<std::string>> parse_export(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (!is_variable_name(name)) fail("-x {}: expected VAR or VAR=VALUE", text);
  if (equals == std::string::npos) return {name, std::nullopt};
  return {name, text.substr(equals + 1)};
}

/// Checks that the file can be written: a long run should not find out only at its end.
std::string usable_output_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code).lexically_normal();
  if (!fs::is_directory(absolute.parent_path(), code))
    fail("--stats={}: there is no directory {}", path, absolute.parent_path().string());
  if (fs::is_directory(absolute, code)) fail("--stats={}: this is a directory, not a file", path);
  const std::string must_be_writable = fs::exists(absolute, code) ? absolute : absolute.parent_path();
  if (access(must_be_writable.c_str(), W_OK) != 0) fail("--stats={}: {} is not writable", path, must_be_writable);
  return absolute;
}

std::string with_advice(const std::string& message) {
  return "ucx-run: " + message + "\n(ucx-run --help lists all options)\n";
}

}  // namespace

parsed_options parse_options(std::vector<std::string> arguments) {
  run_options run;
  CLI::App app(description, "ucx-run");
  app.formatter(std::make_shared<help_text>());
  app.footer(footer);
  app.set_help_flag("-h,--help", "Print this help");
  const std::string version = std::string("ucx-run (Gravel) " GRAVEL_VERSION ", ") + PMIx_Get_version() + "\n";
  app.set_version_flag("-V,--version", version);

  int64_t n_pes = 0, nodes = 0, timeout = 0;
  std::string hosts, stats;
  std::vector<std::string> exports;
  bool accepted = false;
  constexpr int64_t most_pes = 16384;
  const auto* n_option =
      app.add_option("-n,--np,-c", n_pes,
                     "Number of PEs (default: one per core of this machine, or one per slot of the listed hosts)")
          ->option_text("N")
          ->check(CLI::Range(int64_t{1}, most_pes));
  app.add_option("--nodes", nodes, "Split the PEs of each host into K emulated nodes, each with its own aggregator")
      ->option_text("K")
      ->check(CLI::Range(int64_t{1}, most_pes));
  app.add_option("-H,--host", hosts, "Hosts to run on, each with the number of PEs it takes (default 1)")
      ->option_text("HOST[:SLOTS],...");
  app.add_option("--hostfile,--machinefile", run.hostfile,
                 "File with one host a line: `HOST [slots=N]`; # begins a comment")
      ->option_text("FILE");
  app.add_flag("--stats{-}", stats,
               "Print network statistics at the end (GRAVEL_STATS); --stats=FILE.json: write them as JSON too");
  app.add_flag("--tag-output", run.tag_output, "Begin each line of output with `[PE] `; lines stay whole");
  app.add_option("--timeout", timeout, "Kill the job after S seconds (exit status 124)")
      ->option_text("S")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}));
  app.add_option("-x", exports, "Environment variable to set for the PEs, or to take along to other hosts (repeatable)")
      ->option_text("VAR[=VALUE]")
      ->expected(1)
      ->take_all();
  app.add_option("--wdir,--wd", run.working_directory,
                 "Start the program in DIR; a relative path of the program counts from there")
      ->option_text("DIR");
  app.add_flag("--dry-run", run.dry_run, "Print what would be started, and start nothing");
  app.add_flag("-q,--quiet", run.quiet, "No messages about failing PEs");
  app.add_flag("--oversubscribe,--allow-run-as-root", accepted, "Accepted for mpirun's sake: always allowed");

  auto end = arguments.begin();
  try {
    end += static_cast<ptrdiff_t>(end_of_options(app, arguments));
    app.parse(std::vector<std::string>(std::reverse_iterator(end), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, app.help(), 0};
  } catch (const CLI::CallForVersion&) {
    return {std::nullopt, version, 0};
  } catch (const std::exception& e) {  // CLI::ParseError and gravel::error
    return {std::nullopt, with_advice(e.what()), 2};
  }

  try {
    run.program.assign(end != arguments.end() && *end == "--" ? end + 1 : end, arguments.end());
    if (run.program.empty() || run.program[0].empty()) fail("no program given: ucx-run -n 4 ./program");
    if (n_option->count()) run.n_pes = static_cast<uint32_t>(n_pes);
    run.nodes = static_cast<uint32_t>(nodes);
    run.timeout_s = static_cast<uint32_t>(timeout);
    if (!hosts.empty() && !run.hostfile.empty()) fail("--host and --hostfile exclude each other: use one of them");
    if (!hosts.empty()) run.hosts = parse_host_list(hosts);
    if (!run.hostfile.empty()) run.hosts = read_hostfile(run.hostfile);
    if (app.count("--stats")) {
      run.stats = true;
      if (stats != "-") run.stats_json = usable_output_file(stats);
    }
    for (const auto& text : exports) run.exports.push_back(parse_export(text));
    return {std::move(run), "", 0};
  } catch (const error& e) {
    return {std::nullopt, with_advice(e.what()), 2};
  }
}

std::vector<std::pair<std::string, std::string>> job_variables(const run_options& options) {
  std::vector<std::pair<std::string, std::string>> result;
  if (options.nodes) result.emplace_back("GRAVEL_NODES", std::to_string(options.nodes));
  if (options.stats) result.emplace_back("GRAVEL_STATS", "1");
  if (!options.stats_json.empty()) result.emplace_back("GRAVEL_STATS_JSON", options.stats_json);
  for (const auto& [name, value] : options.exports)
    if (value) result.emplace_back(name, *value);
  return result;
}

void set_job_variables(const run_options& options) {
  for (const auto& [name, value] : job_variables(options)) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace gravel::detail
