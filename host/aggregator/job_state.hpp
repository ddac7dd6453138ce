// What the threads of an aggregator tell each other about the job: that it is over, that it cannot go on, that they
// shall stop.
#pragma once
#include <sys/eventfd.h>

#include <atomic>
#include <mutex>
#include <string>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class job_state {
 public:
  job_state() {
    if (!wake_) fail_errno("eventfd");
  }

  /// The job cannot go on. The first text wins. `heard`: from another node, which has printed it. Thread: any.
  void fail(const std::string& text, bool heard = false) {
    {
      std::lock_guard guard(lock_);
      if (!failed_) failure_ = {text, heard};
      failed_ = true;
    }
    eventfd_write(wake_.get(), 1);
  }
  struct failure {
    std::string text;
    bool heard = false;
  };
  failure what_failed() const {
    std::lock_guard guard(lock_);
    return failure_;
  }
  /// Can be read from once fail() was called: for poll.
  int failed_descriptor() const { return wake_.get(); }

  /// A PE does not run. The first text wins; plane 0 adds how things stand, and ends the job.
  void find_stopped(const std::string& text) {
    if (pe_stopped_) return;
    stopped_text_ = text;
    pe_stopped_ = true;
  }
  bool has_stopped_pe() const { return pe_stopped_; }
  const std::string& stopped_text() const { return stopped_text_; }

  std::atomic<bool> stop{false};  ///< planes shall end
  std::atomic<bool> over{false};  ///< the last collective is done: other nodes may go away

 private:
  owned_descriptor wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  mutable std::mutex lock_;
  bool failed_ = false;
  failure failure_;
  std::string stopped_text_;  ///< written before pe_stopped_
  std::atomic<bool> pe_stopped_{false};
};

}  // namespace gravel::detail
