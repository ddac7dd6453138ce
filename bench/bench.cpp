#include "bench/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/output.hpp"
#include "lib/base/parse_error.hpp"

namespace gravel_bench {
using namespace gravel_bench;
using namespace gravel::detail;
namespace {

/// The value of the first line of `file` that begins with `key`.
std::string value_in(const char* file, std::string_view key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      line = line.substr(line.find(separator) + 1);
      std::erase(line, '"');
      return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    }
  return "";
}

std::string hardware() {
  std::string processor = value_in("/proc/cpuinfo", "model name", ':');
  if (processor.empty()) processor = "unknown processor";
  return fmt::format("{} cores, {}, {}", sysconf(_SC_NPROCESSORS_ONLN), processor,
                     value_in("/etc/os-release", "PRETTY_NAME", '='));
}

std::string today() {
  char text[sizeof "2026-01-01"];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

/// Without folders and without --json: what says where this was run, not what was run.
std::string whole_command(int argc, char** argv) {
  std::string text = std::filesystem::path(argv[0]).filename();
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") ++i;
    if (!word.starts_with("--json")) text += fmt::format(" {}", word);
  }
  return text;
}

/// Three significant digits, and whole numbers as they are.
std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  const double number = value.get<double>();
  return number < 1000 ? fmt::format("{:#.3g}", number) : fmt::format("{:.0f}", number);
}

}  // namespace

bench::bench(std::string name, const std::string& description, std::vector<column> columns)
    : app(description.c_str(), name.c_str()), columns_(std::move(columns)) {
  report_["name"] = std::move(name);
  app.add_option("--repeat", repeat, "times that each row is measured; the median counts")
      .range(1u, 1000u)
      .capture_default_str();
  app.add_option("--json", json_, "file for the results");
}

void bench::parse(int argc, char** argv) {
  check_output_at_exit(app.parser().get_name());
  try {
    app.parser().parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help
    std::exit(app.parser().exit(e));
  } catch (const CLI::ParseError& e) {
    std::fputs(text_of(app.parser(), e).c_str(), stderr);
    std::exit(2);
  }
  report_["date"] = today();
  report_["hardware"] = hardware();
  report_["command"] = whole_command(argc, argv);
  report_["rows"] = nlohmann::ordered_json::array();
  fmt::print("{}: {}\n", report_["command"].get<std::string>(), report_["hardware"].get<std::string>());
  for (const column& c : columns_) fmt::print("  {:>9}", c.heading);
  fmt::print("\n");
}

void bench::row(const std::vector<nlohmann::ordered_json>& values) {
  nlohmann::ordered_json row;
  for (size_t i = 0; i < columns_.size(); ++i) {
    row[columns_[i].key] = values.at(i);
    fmt::print("  {:>{}}", shown(values[i]), std::max<size_t>(9, std::strlen(columns_[i].heading)));
  }
  fmt::print("\n");
  std::fflush(stdout);
  report_["rows"].push_back(row);
}

void bench::finish() const {
  if (json_.empty()) return;
  write_file(json_, report_.dump(2) + '\n');
}

bench_memory::bench_memory(size_t bytes)
    : bytes_((bytes + 4095) / 4096 * 4096), memory_(static_cast<char*>(std::aligned_alloc(4096, bytes_))) {
  if (!memory_) fail("no memory for {} bytes", bytes_);
  std::memset(memory_.get(), static_cast<int>(poison), bytes_);
}

double memcpy_rate(size_t from, size_t to, size_t piece) {
  const bench_memory source(from), target(to);
  const size_t sources = from / piece, targets = to / piece;
  if (sources == 0 || targets == 0) fail("pieces of {} bytes in buffers of {} and {}", piece, from, to);
  const auto copy_all = [&] {
    size_t read = 0, written = 0;
    for (size_t i = 0; i < std::max(sources, targets); ++i) {
      std::memcpy(target.data() + written * piece, source.data() + read * piece, piece);
      asm volatile("" : : "r"(target.data()) : "memory");  // the copy is wanted, though nobody reads it
      if (++read == sources) read = 0;
      if (++written == targets) written = 0;
    }
    return std::max(sources, targets) * piece;
  };
  // A limit is the best that was seen: five times 5 ms or more.
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    size_t bytes = 0;
    const double begin = thread_seconds();
    double seconds = 0;
    for (; seconds < 0.005; seconds = thread_seconds() - begin) bytes += copy_all();
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace gravel_bench
