// Something that ought to move: looked at now and then, it has stopped when it did not for many looks.
#pragma once
#include <cstdint>

namespace gravel::detail {

/// In GRAVEL_WATCHDOG_S there are this many looks. Many short ones, not one long: when the whole job was stopped for a
/// while, only one of them is in vain.
constexpr int heartbeat_polls = 20;

class stall_watch {
 public:
  /// `patience`: looks in vain after which it has stopped.
  explicit stall_watch(int patience = heartbeat_polls) : patience_(patience) {}
  /// `due`: ought it to have moved at all? `progress`: any number that changes when it does. True: it has stopped.
  bool look(bool due, uint64_t progress) {
    in_vain_ = due && progress == last_ ? in_vain_ + 1 : 0;
    last_ = progress;
    return in_vain_ >= patience_;
  }

 private:
  int patience_, in_vain_ = 0;
  uint64_t last_ = 0;
};

}  // namespace gravel::detail
