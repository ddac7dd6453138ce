#include "host/aggregator/job_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/error.hpp"

namespace gravel {

job_state::job_state() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe");
  for (int i : {0, 1}) wake_[i] = owned_descriptor(ends[i]);
}

void job_state::fail(const std::string& text, bool heard) {
  {
    std::lock_guard guard(lock_);
    if (!failed_) failure_ = {text, heard};
    failed_ = true;
  }
  [[maybe_unused]] const auto written = write(wake_[1].get(), "!", 1);
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
