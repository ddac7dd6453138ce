#include "host/aggregator/job_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/error.hpp"

namespace gravel {

job_state::job_state() {
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe");
}

job_state::~job_state() {
  for (int end : wake_) close(end);
}

void job_state::fail(const std::string& text, bool heard) {
  {
    std::lock_guard guard(lock_);
    if (!failed_) failure_ = {text, heard};
    failed_ = true;
  }
  [[maybe_unused]] const auto written = write(wake_[1], "!", 1);
}

job_state::failure job_state::what_failed() const {
  std::lock_guard guard(lock_);
  return failure_;
}

void job_state::find_stopped(const std::string& text) {
  if (pe_stopped_) return;
  stopped_text_ = text;
  pe_stopped_ = true;
}

}  // namespace gravel
