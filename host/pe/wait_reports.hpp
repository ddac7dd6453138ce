// Long waits of this PE's kernels, which its monitor reads and reports (lib/base/wait_report.hpp).
#pragma once
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "lib/base/error.hpp"
#include "lib/base/stall_watch.hpp"
#include "lib/base/wait_report.hpp"

namespace gravel::detail {

class wait_reports {
 public:
  /// `patience_ns`: the time after which lanes report a wait.
  wait_reports(wait_report& shared, uint64_t patience_ns) : shared_(shared), patience_ns_(patience_ns) {}

  /// Polls once; a stall_watch counts the polls within the patience. Returns a sentence that is due, or nothing. One
  /// thread at a time, any.
  std::optional<std::string> poll() {
    last_.reset();
    if (!ring<>::arrived(&shared_.published, shared_.read)) {  // [P1]
      // A lane reports again and again while it waits.
      if (++polls_in_vain_ > most_in_vain) reported_.clear();
      return {};
    }
    polls_in_vain_ = 0;
    const uint64_t waited_ns = shared_.waited_ns;
    const wait_subject s = shared_.subject;
    const lane_place at = shared_.place;
    ring<>::mark_done(&shared_.read, shared_.read + 1);  // [P2]
    last_ = s;
    const key which{s.what, s.pe, s.offset};
    if (!reported_.contains(which) && reported_.size() == most_reported) return {};
    if (!reported_[which].is_due(waited_ns, patience_ns_)) return {};
    return fmt::format(
        "a kernel has waited {} s (GRAVEL_WATCHDOG_S) for {}; block ({},{},{}), thread ({},{},{}). It goes on waiting",
        waited_ns / 1'000'000'000, text_of(s), at.block[0], at.block[1], at.block[2], at.thread[0], at.thread[1],
        at.thread[2]);
  }

  /// The report that the last poll() has read, or nothing.
  const std::optional<wait_subject>& last() const { return last_; }

 private:
  using key = std::tuple<awaited, uint32_t, uint64_t>;
  /// If thousands of lanes wait for different words, the first few describe the situation.
  static constexpr size_t most_reported = 8;
  static constexpr int most_in_vain = 2 * heartbeat_polls;

  wait_report& shared_;
  uint64_t patience_ns_;
  std::optional<wait_subject> last_;
  std::map<key, report_times> reported_;
  int polls_in_vain_ = 0;
};

}  // namespace gravel::detail
