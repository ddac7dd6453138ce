// State of the job that the threads of an aggregator share: the job is over, the job has failed, or the threads shall
// stop.
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

  /// The job cannot continue. The first text wins. `is_from_other_node`: the text came from another node, which has
  /// printed it. Any thread.
  void fail(const std::string& text, bool is_from_other_node = false) {
    {
      std::lock_guard guard(lock_);
      if (!failed_) failure_ = {text, is_from_other_node};
      failed_ = true;
    }
    eventfd_write(wake_.get(), 1);
  }
  struct failure {
    std::string text;
    bool is_from_other_node = false;
  };
  failure what_failed() const {
    std::lock_guard guard(lock_);
    return failure_;
  }
  /// A descriptor for poll(). It becomes readable when fail() is called.
  int failed_descriptor() const { return wake_.get(); }

  /// A PE does not run. The first text wins. Plane 0 adds its state and ends the job.
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
