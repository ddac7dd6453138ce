// What the threads of an aggregator tell each other about the job: that it is over, that it cannot go on, that they shall stop.
#pragma once
#include <fcntl.h>

#include <atomic>
#include <mutex>
#include <string>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel {

class job_state {
 public:
  job_state() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe");
    for (int i : {0, 1}) wake_[i] = owned_descriptor(ends[i]);
  }

  /// The job cannot go on. The first text wins. `heard`: from another node, which has printed it. Thread: any.
  void fail(const std::string& text, bool heard = false) {
    {
      std::lock_guard guard(lock_);
      if (!failed_) failure_ = {text, heard};
      failed_ = true;
    }
    [[maybe_unused]] const auto written = write(wake_[1].get(), "!", 1);
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
  int failed_descriptor() const { return wake_[0].get(); }

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
  owned_descriptor wake_[2];  ///< pipe
  mutable std::mutex lock_;
  bool failed_ = false;
  failure failure_;
  std::string stopped_text_;  ///< written before pe_stopped_
  std::atomic<bool> pe_stopped_{false};
};

}  // namespace gravel
