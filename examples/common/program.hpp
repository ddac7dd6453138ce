// What the example programs share: how they take their options, and how a job of many processes says one
// thing once.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "examples/common/command_line.hpp"
#include "lib/base/error.hpp"

namespace app {
using gravel::detail::fail;
using gravel::detail::fail_errno;
using gravel::detail::fail_text;

/// Exit statuses of the examples.
constexpr int exit_wrong_result = 1, exit_bad_usage = 2;

/// Parses the command line, then calls `check`, which throws gravel::error for values that do not go together. Adds
/// --version. To be called before gravel_init: --help, --version and errors end the process here (status 0
/// and exit_bad_usage), and of all processes of the job only the first one prints. From here on the process ends with
/// a status other than 0 if standard output could not be written.
void parse_or_exit(command_line& line, int argc, char** argv, const std::function<void()>& check = {});

/// The option --dump PREFIX, for dump_columns() of together.hpp.
void add_dump_option(command_line& line, std::string& prefix);

/// Sees to it, before gravel_init, that `bytes` will fit into each PE's symmetric heap: raises the default of
/// GRAVEL_SYMMETRIC_SIZE if need be. Throws gravel::error if the variable is set and too small.
void need_symmetric(uint64_t bytes);

/// Throws gravel::error if the file cannot be opened: for reading, or (without touching what it holds) for
/// writing.
void need_readable(const std::string& path);
void need_writable(const std::string& path);

}  // namespace app
