// Decides which PE's failure ended the job. A PE that is killed makes others fail, and ucx-run may see one of their
// failures first. So it waits a moment for the cause of a failure that may be an effect.
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
  int exit_status = 1;  ///< the exit status of ucx-run
  std::string text;     ///< for the user
};

/// The evidence that a failure is not the effect of another one; a higher value outranks a lower one.
enum class evidence {
  none,
  /// An exit status of its own, of a PE that was ending before: a PE that ends because of others has exit status 1.
  own_status,
  full  ///< no failure of another PE leads to such a failure
};

/// Collects the failures in the order in which they are seen, and names one. The caller provides the time.
class verdict {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr auto patience = std::chrono::milliseconds(100);

  /// Adds a failure. Of those with equal evidence the first counts.
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
  /// The time at which reached() will return a failure, if there is one.
  std::optional<time> when() const { return first_ ? std::optional(when_) : std::nullopt; }

 private:
  std::optional<failure> first_;
  evidence evidence_ = evidence::none;
  time when_;
};

/// True if a process that died with this status (as waitpid returns it) cannot have died because of another one.
inline bool is_cause(int wait_status) {
  const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return number == SIGKILL || number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

inline evidence evidence_of(int wait_status) { return is_cause(wait_status) ? evidence::full : evidence::none; }

}  // namespace gravel::detail
