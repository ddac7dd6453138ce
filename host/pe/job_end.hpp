// Ends the job for this PE other than by its own gravel_finalize: once, by the first thread that asks for it, with the
// cause in words.
#pragma once
#include <unistd.h>

#include <atomic>
#include <string>

#include "host/pe/aggregator_link.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace gravel::detail {

class job_end {
 public:
  job_end(aggregator_link& link, uint32_t pe) : link_(link), pe_(pe) {}

  /// Prints the text, notifies the other PEs, and ends this process. Any thread.
  [[noreturn]] void abort(const std::string& text, int status) {
    static std::atomic<bool> first{true};
    while (!first.exchange(false)) pause();
    // A mistake in the program often occurs at every PE. It is enough that PE 0 reports it.
    if (pe_ != 0) wait_for_root_cause();
    while (elsewhere_) pause();  // the thread that knows of it ends this process
    log_error("{}", text);
    leave();
    try {
      link_.send(abort_message{fmt::format("PE {}: {}", pe_, text)});
    } catch (const std::exception&) {
      // The aggregator has ended, so it knows.
    }
    end_process(status >= 1 && status <= 255 ? status : 1);
  }
  /// Another process ends the job and has said why. From now on abort() waits for end_process().
  void comes_from_elsewhere() { elsewhere_ = true; }
  [[noreturn]] static void end_process(int status) { _exit(status); }

  /// From now on the aggregator may end.
  void leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }

 private:
  aggregator_link& link_;
  uint32_t pe_;
  std::atomic<bool> leaving_{false}, elsewhere_{false};
};

}  // namespace gravel::detail
