// Detects PEs that are stopped (SIGSTOP, or a read from a terminal in the background). While a PE takes part in the job
// its aggregator notices. ucx-run also notices before and after that: while the PE starts, and after gravel_finalize.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/process_stat.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

/// True if this process is stopped, but not by a debugger.
inline bool is_stopped(pid_t pid) {
  const auto fields = stat_of_process(static_cast<uint64_t>(pid));
  return fields.size() > 2 && fields[2] == "T";
}

class stop_watch {
 public:
  using time = std::chrono::steady_clock::time_point;
  /// `watchdog_s`: GRAVEL_WATCHDOG_S; 0: never checks.
  explicit stop_watch(uint64_t watchdog_s, std::function<bool(pid_t)> stopped = is_stopped)
      : watchdog_s_(watchdog_s), stopped_(std::move(stopped)) {}

  /// The time of the next check; none: never.
  std::optional<time> next() const { return watchdog_s_ ? std::optional(next_) : std::nullopt; }
  /// One check of a process; to be called once for each process when a check is due. Returns true if the process has
  /// been stopped for longer than twice GRAVEL_WATCHDOG_S, after which its aggregator would have reported it.
  bool poll(pid_t pid) { return seen_.try_emplace(pid, patience).first->second.poll(stopped_(pid), 0); }
  /// True if a check is due. Then the next one is due a twentieth of GRAVEL_WATCHDOG_S later.
  bool is_due(time now) {
    if (!watchdog_s_ || now < next_) return false;
    next_ = now + std::chrono::milliseconds(watchdog_s_ * 1000 / heartbeat_polls);
    return true;
  }
  uint64_t limit_s() const { return 2 * watchdog_s_; }

 private:
  static constexpr int patience = 2 * heartbeat_polls + heartbeat_polls / 2;
  uint64_t watchdog_s_;
  std::function<bool(pid_t)> stopped_;
  time next_{};
  std::map<pid_t, stall_watch> seen_;
};

/// GRAVEL_WATCHDOG_S of this environment. An invalid value counts as 0: the PEs report what is wrong with it.
inline uint64_t watchdog_of_environment() {
  try {
    return read_settings([](const char* name) {
             return std::strcmp(name, "GRAVEL_WATCHDOG_S") == 0 ? std::getenv(name) : nullptr;
           })
        .watchdog_s;
  } catch (const error&) {
    return 0;
  }
}

}  // namespace gravel::detail
