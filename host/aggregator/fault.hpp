// GRAVEL_FAULT: a failure on purpose, for tests of what happens then.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace gravel::detail {

/// "corrupt-packet:PE:COUNT": the COUNT-th packet (from 1) that this aggregator closes for that PE gets a wrong row
/// table.
class injected_fault {
 public:
  /// Empty: none. Throws gravel::error if the text is not as above.
  explicit injected_fault(const std::string& setting);
  /// Counts a packet; true for the one to corrupt. Any thread.
  bool corrupts_packet_for(uint32_t pe) {
    return active_ && pe == pe_ && left_.fetch_sub(1, std::memory_order_relaxed) == 1;
  }

 private:
  bool active_ = false;
  uint32_t pe_ = 0;
  std::atomic<int64_t> left_{0};
};

}  // namespace gravel::detail
