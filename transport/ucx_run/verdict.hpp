// Which PE's failure ended the job. A PE that is killed makes others fail, and one of theirs may be seen
// first; so a failure that may be an effect waits a moment for its cause.
#pragma once
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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
  void add(failure what, bool cause, time now) {
    if (first_ && !(cause && !is_cause_)) return;
    first_ = std::move(what);
    is_cause_ = cause;
    when_ = cause ? now : now + patience;
  }
  /// The failure to report, once it is certain; `certain`: no other can come.
  std::optional<failure> reached(time now, bool certain = false) const {
    return first_ && (certain || now >= when_) ? first_ : std::nullopt;
  }
  /// When reached() will have an answer, if it has one to come.
  std::optional<time> when() const { return first_ ? std::optional(when_) : std::nullopt; }

 private:
  std::optional<failure> first_;
  bool is_cause_ = false;
  time when_;
};

/// Does a process that died with this status (as waitpid gives it) do so as a consequence of nothing but
/// itself?
inline bool is_cause(int wait_status) {
  const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return number == SIGKILL || number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

}  // namespace gravel
