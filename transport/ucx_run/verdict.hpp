// Which PE's failure ended the job. A PE that is killed makes others fail, and one of theirs may be seen
// first; so a failure that may be an effect waits a moment for its cause.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace gravel {

struct failure {
  uint32_t pe = 0;
  int exit_status = 1;  ///< that ucx-run will have
  std::string text;     ///< for the user
};

/// Takes the failures as they are seen and names one. The clock is the caller's.
class verdict {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr auto patience = std::chrono::milliseconds(100);

  /// `cause`: nobody else's failure leads to such a one; it outranks an earlier failure that may be an
  /// effect.
  void add(failure what, bool cause, time now);
  /// The failure to report, once it is certain; `certain`: no other can come.
  std::optional<failure> reached(time now, bool certain = false) const;
  /// When reached() will have an answer, if it has one to come.
  std::optional<time> when() const;

 private:
  std::optional<failure> first_;
  bool is_cause_ = false;
  time when_;
};

/// Does a process that died with this status (as waitpid gives it) do so as a consequence of nothing but
/// itself?
bool is_cause(int wait_status);

}  // namespace gravel
