#include "transport/ucx_run/verdict.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <utility>

namespace gravel {

void verdict::add(failure what, bool cause, time now) {
  if (first_ && !(cause && !is_cause_)) return;
  first_ = std::move(what);
  is_cause_ = cause;
  when_ = cause ? now : now + patience;
}

std::optional<failure> verdict::reached(time now, bool certain) const {
  if (first_ && (certain || now >= when_)) return first_;
  return std::nullopt;
}

std::optional<verdict::time> verdict::when() const {
  if (first_) return when_;
  return std::nullopt;
}

bool is_cause(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return false;
  const int number = WTERMSIG(wait_status);
  return number == SIGKILL || number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

}  // namespace gravel
