// Results of gravel-perf: a table on standard output and, on request, a JSON file of the form that all benches have:
//
//   {"name": "perf", "date": ..., "hardware": ..., "command": ..., "rows": [{"benchmark": NAME, KEY: value, ...}, ...]}
//
// A key ends with the unit of its value (gb_per_s: 10^9 bytes a second). Rates are those of one PE.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace gravel_bench::perf {

/// Number and name of this machine's processors.
std::string processor();

/// One value of a row. Rows whose headings differ from those before begin a new table.
struct cell {
  const char* key;
  const char* heading;  ///< with the unit
  std::variant<std::string, uint64_t, double> value;
};

/// How many values were compared with the right ones, and how many were wrong, over all PEs.
struct verified {
  uint64_t checked = 0, wrong = 0;
};

class report {
 public:
  /// `speaks`: this PE prints and writes the file.
  report(bool speaks, std::string command, std::string json);
  ~report();

  /// Facts about the job, for the heading and the file.
  void fact(const char* key, std::variant<std::string, uint64_t, double> value);
  void title(const std::string& benchmark, const std::string& text);
  /// Throws gravel::error if nothing was checked: such a number is not reported.
  void row(std::vector<cell> cells, verified);
  /// Writes the file.
  void finish() const;
  /// Were all results right?
  bool right() const { return right_; }

 private:
  struct state;
  std::unique_ptr<state> state_;
  bool speaks_, right_ = true;
};

}  // namespace gravel_bench::perf
