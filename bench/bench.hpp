// Shared by the benches: options, clock, memory, the limit that one core's memcpy sets, and a report that is
// a table on standard output and, on request, a JSON file. The files of all benches have the same form:
//
//   {"name": ..., "date": ..., "hardware": ..., "command": ..., "rows": [{"KEY": value, ...}, ...]}
//
// A key ends with the unit of its value (gb_per_s: 10^9 bytes a second).
#pragma once
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "examples/common/command_line.hpp"

namespace gravel_bench {
using namespace app;

class bench {
 public:
  struct column {
    const char* key;
    const char* heading;  ///< with the unit
  };
  bench(std::string name, const std::string& description, std::vector<column> columns);

  command_line app;  ///< for options of this bench
  uint32_t repeat = 5;

  /// --help and mistakes end the process (status 0 and 2).
  void parse(int argc, char** argv);
  /// Prints a row and keeps it: the values of the columns, in their order; null where there is none.
  void row(const std::vector<nlohmann::ordered_json>& values);
  /// Writes the file of --json, if it was asked for.
  void finish() const;

  /// The median of `repeat` results of `measure`.
  template <class F>
  double median_of(F&& measure) const {
    std::vector<double> results;
    for (uint32_t i = 0; i < repeat; ++i) results.push_back(measure());
    std::nth_element(results.begin(), results.begin() + repeat / 2, results.end());
    return results[repeat / 2];
  }

 private:
  std::vector<column> columns_;
  std::string json_;
  nlohmann::ordered_json report_;
};

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Time that this thread had a processor: for work of one thread that waits for no other, whatever else the
/// machine does.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The content of memory before anything is written into it.
constexpr std::byte poison{0xA5};

/// Page-aligned memory, present and poisoned.
class bench_memory {
 public:
  explicit bench_memory(size_t bytes);
  char* data() const { return memory_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct free_it {
    void operator()(char* memory) const { std::free(memory); }
  };
  size_t bytes_;
  std::unique_ptr<char, free_it> memory_;
};

/// Bytes a second that one core copies, in pieces, from a buffer of `from` bytes to one of `to` bytes: the
/// limit of whatever moves bytes from the one to the other.
double memcpy_rate(size_t from, size_t to, size_t piece);

}  // namespace gravel_bench
