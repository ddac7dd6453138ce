#include "bench/perf/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/base/output.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;
namespace {

std::string today() {
  char text[sizeof "2026-01-01"];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

/// The settings that are not defaults. Paths say nothing about speed.
nlohmann::ordered_json settings_in_environment() {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  for (char** at = environ; *at; ++at) {
    const std::string_view text(*at);
    const size_t end = text.find('=');
    if (text.starts_with("GRAVEL_") && end != text.npos && text.find('/') == text.npos)
      found[std::string(text.substr(0, end))] = std::string(text.substr(end + 1));
  }
  return found;
}

/// Three significant digits, and whole numbers as they are.
std::string shown(const std::variant<std::string, uint64_t, double>& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<uint64_t>(&value)) return fmt::format("{}", *number);
  const double number = std::get<double>(value);
  return number < 1000 ? fmt::format("{:#.3g}", number) : fmt::format("{:.0f}", number);
}

size_t width(const cell& c) {
  return std::max<size_t>(std::holds_alternative<std::string>(c.value) ? 12 : 8, std::strlen(c.heading));
}

}  // namespace

std::string processor() {
  std::string name = "unknown processor";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{} cores, {}", sysconf(_SC_NPROCESSORS_ONLN), name);
}

struct report::state {
  std::string json, benchmark;
  std::vector<std::string> headings;
  nlohmann::ordered_json out;
};

report::report(bool speaks, std::string command, std::string json)
    : state_(std::make_unique<state>()), speaks_(speaks) {
  state_->json = std::move(json);
  state_->out["name"] = "perf";
  state_->out["date"] = today();
  state_->out["command"] = std::move(command);
  state_->out["environment"] = settings_in_environment();
}
report::~report() = default;

void report::fact(const char* key, std::variant<std::string, uint64_t, double> value) {
  if (speaks_) fmt::print("{}: {}\n", key, shown(value));
  std::visit([&](const auto& v) { state_->out[key] = v; }, value);
}

void report::title(const std::string& benchmark, const std::string& text) {
  state_->benchmark = benchmark;
  state_->headings.clear();
  if (speaks_) fmt::print("\n{}: {}\n", benchmark, text);
  std::fflush(stdout);
}

void report::row(std::vector<cell> cells, verified v) {
  if (v.checked == 0) fail("{}: nothing of this result was checked", state_->benchmark);
  right_ &= v.wrong == 0;
  if (!speaks_) return;
  std::vector<std::string> headings;
  for (const cell& c : cells) headings.emplace_back(c.heading);
  if (headings != state_->headings) {
    for (const cell& c : cells) fmt::print("  {:>{}}", c.heading, width(c));
    fmt::print("\n");
    state_->headings = headings;
  }
  nlohmann::ordered_json row{{"benchmark", state_->benchmark}};
  for (const cell& c : cells) {
    fmt::print("  {:>{}}", shown(c.value), width(c));
    std::visit([&](const auto& value) { row[c.key] = value; }, c.value);
  }
  if (v.wrong) fmt::print("  WRONG: {} of {} checks", v.wrong, v.checked);
  fmt::print("\n");
  std::fflush(stdout);
  row["checked"] = v.checked;
  row["wrong"] = v.wrong;
  state_->out["rows"].push_back(row);
}

void report::finish() const {
  if (!speaks_ || state_->json.empty()) return;
  write_file(state_->json, state_->out.dump(2) + '\n');
}

}  // namespace gravel_bench::perf
