// Detects that something has stopped: it ought to make progress, and did not for many polls.
#pragma once
#include <cstdint>

namespace gravel::detail {

/// The number of polls in GRAVEL_WATCHDOG_S. Many short intervals are better than a long one: if the whole job is
/// stopped for a while, only one poll finds no progress.
constexpr int heartbeat_polls = 20;

class stall_watch {
 public:
  /// `patience`: the number of polls without progress after which it counts as stopped.
  explicit stall_watch(int patience = heartbeat_polls) : patience_(patience) {}
  /// One poll. `due`: should there have been progress? `progress`: any number that changes with progress.
  /// @return true if it has stopped
  bool poll(bool due, uint64_t progress) {
    in_vain_ = due && progress == last_ ? in_vain_ + 1 : 0;
    last_ = progress;
    return in_vain_ >= patience_;
  }

 private:
  int patience_, in_vain_ = 0;
  uint64_t last_ = 0;
};

}  // namespace gravel::detail
