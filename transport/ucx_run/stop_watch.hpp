// PEs that are stopped (SIGSTOP, or reading from a terminal in the background). While a PE takes part in the job its
// aggregator notices; ucx-run notices before and after that, too: while it starts, and behind gravel_finalize.
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

/// Is this process stopped, and by no debugger?
inline bool is_stopped(pid_t pid) {
  const auto fields = stat_of_process(static_cast<uint64_t>(pid));
  return fields.size() > 2 && fields[2] == "T";
}

class stop_watch {
 public:
  using time = std::chrono::steady_clock::time_point;
  /// `watchdog_s`: GRAVEL_WATCHDOG_S; 0: never looks.
  explicit stop_watch(uint64_t watchdog_s, std::function<bool(pid_t)> stopped = is_stopped)
      : watchdog_s_(watchdog_s), stopped_(std::move(stopped)) {}

  /// When to look next; none: never.
  std::optional<time> next() const { return watchdog_s_ ? std::optional(next_) : std::nullopt; }
  /// One of the looks, if it is due; once for each process. True: this process has been stopped for longer than twice
  /// GRAVEL_WATCHDOG_S, after which its aggregator would have said so.
  bool look(pid_t pid) { return seen_.try_emplace(pid, patience).first->second.look(stopped_(pid), 0); }
  /// Is a look due? Then the next one is due a twentieth of GRAVEL_WATCHDOG_S later.
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

/// GRAVEL_WATCHDOG_S of this environment. One that cannot be read counts as 0: the PEs say what is wrong with it.
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
