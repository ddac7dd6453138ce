// Log lines. They go to stderr, each with a prefix that names the process ("gravel: PE 3: ..."). GRAVEL_LOG sets the
// level.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace gravel::detail {

/// The levels, numbered as in spdlog.
enum class log_level { debug = 1, info, warning, error };

/// Sets the name of this process in log lines, e.g. "PE 3" or "aggregator of node 1".
void set_log_name(std::string name);
const std::string& log_name();
/// Sets the level: "debug", "info", "warning" or "error".
void set_log_level(const std::string& name);
bool log_enabled(log_level level);
void log_line(log_level level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> f, Args&&... args) {
  if (log_enabled(log_level::debug)) log_line(log_level::debug, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> f, Args&&... args) {
  if (log_enabled(log_level::info)) log_line(log_level::info, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> f, Args&&... args) {
  log_line(log_level::warning, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> f, Args&&... args) {
  log_line(log_level::error, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace gravel::detail
