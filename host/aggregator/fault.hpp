// GRAVEL_FAULT causes a failure on purpose, to test what happens then.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace gravel::detail {

/// "corrupt-packet:PE:COUNT": the COUNT-th packet (from 1) that this aggregator closes for that PE gets a wrong table
/// of rows.
class injected_fault {
 public:
  /// An empty text means no fault. Throws gravel::error if the text has another form.
  explicit injected_fault(const std::string& setting);
  /// Counts a packet. True: corrupt this one. Any thread.
  bool corrupts_packet_for(uint32_t pe) {
    return active_ && pe == pe_ && left_.fetch_sub(1, std::memory_order_relaxed) == 1;
  }

 private:
  bool active_ = false;
  uint32_t pe_ = 0;
  std::atomic<int64_t> left_{0};
};

}  // namespace gravel::detail
