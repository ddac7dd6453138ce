#include "transport/ucx_run/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/error.hpp"

namespace gravel::detail {

static bool in_foreground() { return tcgetpgrp(0) == getpgrp(); }

job_input::job_input() {
  if (!isatty(0)) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("pipe");
  read_end_ = owned_descriptor(ends[0]);
  write_end_ = owned_descriptor(ends[1]);
  fcntl(write_end_.get(), F_SETFL, O_NONBLOCK);
}

bool job_input::add_to_poll(std::vector<pollfd>& polled) const {
  if (!write_end_) return true;
  if (!pending_.empty()) {
    polled.push_back({write_end_.get(), POLLOUT, 0});
    return true;
  }
  if (!in_foreground()) return false;
  polled.push_back({0, POLLIN, 0});
  return true;
}

void job_input::service() {
  if (!write_end_) return;
  if (pending_.empty() && !at_end_ && in_foreground()) {
    pollfd ready{0, POLLIN, 0};
    if (poll(&ready, 1, 0) > 0) {
      char buffer[4096];
      const ssize_t got = read(0, buffer, sizeof buffer);
      if (got > 0) pending_.assign(buffer, static_cast<size_t>(got));
      else if (got == 0 || (errno != EINTR && errno != EAGAIN)) at_end_ = true;
    }
  }
  if (!pending_.empty()) {
    const ssize_t written = write(write_end_.get(), pending_.data(), pending_.size());
    if (written > 0) pending_.erase(0, static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN) return write_end_.reset();  // PE 0 has closed its input
  }
  if (at_end_ && pending_.empty()) write_end_.reset();
}

}  // namespace gravel::detail
