// How a job ends for this PE other than by its own gravel_finalize: once, by whoever is first, and with the cause in words.
#pragma once
#include <atomic>
#include <string>

#include "host/pe/aggregator_link.hpp"

namespace gravel {

class job_end {
 public:
  job_end(aggregator_link& link, uint32_t pe) : link_(link), pe_(pe) {}

  /// Prints the text, tells the others, ends this process. Thread: any.
  [[noreturn]] void abort(const std::string& text, int status);
  /// Somebody else ends the job, and has said why: abort() now waits for end_process().
  void comes_from_elsewhere() { elsewhere_ = true; }
  [[noreturn]] static void end_process(int status);

  /// From now on the aggregator may go away.
  void leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }

 private:
  aggregator_link& link_;
  uint32_t pe_;
  std::atomic<bool> leaving_{false}, elsewhere_{false};
};

}  // namespace gravel
