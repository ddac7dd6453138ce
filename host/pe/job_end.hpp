// How a job ends for this PE other than by its own gravel_finalize: once, by whoever is first, and with the cause in
// words.
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

  /// Prints the text, tells the others, ends this process. Thread: any.
  [[noreturn]] void abort(const std::string& text, int status) {
    static std::atomic<bool> first{true};
    while (!first.exchange(false)) pause();
    // What is wrong with the program is often wrong in every PE: it is enough that PE 0 says so.
    if (pe_ != 0) let_cause_speak();
    while (elsewhere_) pause();  // who knows of it ends this process
    log_error("{}", text);
    leave();
    try {
      link_.send(abort_word{fmt::format("PE {}: {}", pe_, text)});
    } catch (const std::exception&) {
      // The aggregator is gone: it knows, then.
    }
    end_process(status >= 1 && status <= 255 ? status : 1);
  }
  /// Somebody else ends the job, and has said why: abort() now waits for end_process().
  void comes_from_elsewhere() { elsewhere_ = true; }
  [[noreturn]] static void end_process(int status) { _exit(status); }

  /// From now on the aggregator may go away.
  void leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }

 private:
  aggregator_link& link_;
  uint32_t pe_;
  std::atomic<bool> leaving_{false}, elsewhere_{false};
};

}  // namespace gravel::detail
