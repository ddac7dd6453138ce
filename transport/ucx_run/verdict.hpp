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

namespace gravel::detail {

struct failure {
  uint32_t pe = 0;
  int exit_status = 1;  ///< that ucx-run will have
  std::string text;     ///< for the user
};

/// What speaks for it that a failure is nobody else's effect; more outranks less.
enum class evidence {
  none,
  own_status,  ///< one of its own, of a PE that was ending before: who ends because of others does so with 1
  full         ///< nobody else's failure leads to such a one
};

/// Takes the failures as they are seen and names one. The clock is the caller's.
class verdict {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr auto patience = std::chrono::milliseconds(100);

  /// Of those with the same evidence the first counts.
  void add(failure what, evidence of_it, time now) {
    if (first_ && of_it <= evidence_) return;
    if (first_ && of_it == evidence::own_status && first_->exit_status != 1) return;
    first_ = std::move(what);
    evidence_ = of_it;
    when_ = of_it == evidence::full ? now : now + patience;
  }
  /// The failure to report, once it is certain; `certain`: no other can come.
  std::optional<failure> reached(time now, bool certain = false) const {
    return first_ && (certain || now >= when_) ? first_ : std::nullopt;
  }
  /// When reached() will have an answer, if it has one to come.
  std::optional<time> when() const { return first_ ? std::optional(when_) : std::nullopt; }

 private:
  std::optional<failure> first_;
  evidence evidence_ = evidence::none;
  time when_;
};

/// Does a process that died with this status (as waitpid gives it) do so as a consequence of nothing but
/// itself?
inline bool is_cause(int wait_status) {
  const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return number == SIGKILL || number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

inline evidence evidence_of(int wait_status) { return is_cause(wait_status) ? evidence::full : evidence::none; }

}  // namespace gravel::detail
