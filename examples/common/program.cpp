#include "examples/common/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "lib/base/output.hpp"
#include "lib/base/parse_error.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/version.hpp"

namespace app {
using gravel::detail::check_output_at_exit;
using gravel::detail::error;
using gravel::detail::parse_size;
using gravel::detail::text_of;
using gravel::detail::usual_fixed_heap;
namespace {

/// Before gravel_init only the launcher's variable says which process this is; without a launcher there is one process.
bool is_first_process() {
  const char* rank = std::getenv("PMIX_RANK");
  return !rank || std::strcmp(rank, "0") == 0;
}

/// The first process prints and fails. The others fail after it: a launcher that sees one of them fail ends
/// all, perhaps before the first has spoken.
[[noreturn]] void leave(const std::string& text) {
  if (is_first_process()) std::fputs(text.c_str(), stderr);
  else sleep(2);
  std::exit(exit_bad_usage);
}

}  // namespace

void parse_or_exit(command_line& line, int argc, char** argv, const std::function<void()>& check) {
  CLI::App& app = line.parser();
  check_output_at_exit(app.get_name());
  app.set_version_flag("--version", app.get_name() + " of Gravel " GRAVEL_VERSION);
  app.get_formatter()->column_width(34);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    if (is_first_process()) app.exit(e);
    std::exit(0);
  } catch (const CLI::ParseError& e) {
    leave(text_of(app, e));
  }
  if (!check) return;
  try {
    check();
  } catch (const error& e) {
    leave(fmt::format("{}: {}\n", app.get_name(), e.what()));
  }
}

void add_dump_option(command_line& line, std::string& prefix) {
  const auto writable = [](const std::string& text) {
    try {
      need_writable(text + ".csv");
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  line.parser()
      .add_option("--dump", prefix, "Write what was found to files PREFIX-WHAT.csv: tools/pictures draws them")
      ->check(CLI::Validator(writable, "PREFIX"));
}

void need_symmetric(uint64_t bytes) {
  constexpr uint64_t page = 4096, spare = 1 << 20;  // alignment of the single objects
  const uint64_t needed = (bytes + spare + page - 1) / page * page;
  if (const char* given = std::getenv("GRAVEL_SYMMETRIC_SIZE"); given && parse_size(given) != 0) {
    if (parse_size(given) < needed)
      fail("{} bytes of symmetric memory are needed, but GRAVEL_SYMMETRIC_SIZE is {}", needed, given);
    return;
  }
  if (needed > usual_fixed_heap) setenv("GRAVEL_SYMMETRIC_SIZE", std::to_string(needed).c_str(), 1);
}

void need_readable(const std::string& path) {
  if (!std::ifstream(path)) fail_errno(path);
}

void need_writable(const std::string& path) {
  const bool existed = access(path.c_str(), F_OK) == 0;
  if (!std::ofstream(path, std::ios::app)) fail_errno(path);
  if (!existed) unlink(path.c_str());
}

}  // namespace app
