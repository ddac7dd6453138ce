#include "lib/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace gravel::detail {
namespace {

std::string& name_storage() {
  static std::string name;
  return name;
}

spdlog::logger& logger() {
  // Leaked on purpose: threads may log while the process exits.
  static spdlog::logger* instance = [] {
    auto* made = new spdlog::logger("gravel", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::warn);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

static_assert(static_cast<int>(log_level::debug) == spdlog::level::debug &&
              static_cast<int>(log_level::info) == spdlog::level::info &&
              static_cast<int>(log_level::warning) == spdlog::level::warn &&
              static_cast<int>(log_level::error) == spdlog::level::err);
auto of_spdlog(log_level level) { return static_cast<spdlog::level::level_enum>(level); }

}  // namespace

void set_log_name(std::string name) { name_storage() = std::move(name); }
const std::string& log_name() { return name_storage(); }
void set_log_level(const std::string& name) { logger().set_level(spdlog::level::from_str(name)); }
bool log_enabled(log_level level) { return logger().should_log(of_spdlog(level)); }

void log_line(log_level level, std::string_view text) {
  const char* mark = "";
  if (level == log_level::warning) mark = "warning: ";
  else if (level == log_level::error) mark = "error: ";
  const std::string& name = log_name();
  logger().log(of_spdlog(level), "gravel: {}{}{}{}", name, name.empty() ? "" : ": ", mark, text);
}

}  // namespace gravel::detail
