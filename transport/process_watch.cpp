#include "transport/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gravel::detail {

bool process_watch::add(const process_identity& process, void* tag) {
  const process_identity self = this_process();
  if (!on_one_host(process, self) || process.pid == self.pid) return false;
  owned_descriptor file(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!file && errno != ESRCH) return false;  // an old kernel, or a sandbox that forbids it
  // Another process may have the number by now. The start is read after pidfd_open: if it is that of `process`, then so
  // is the pidfd. If /proc shows no start, the pidfd is trusted.
  const uint64_t start = start_of_process(process.pid);
  if (process.start && start && start != process.start) file.reset();
  watched_.insert_or_assign(tag, std::move(file));
  return true;
}

void process_watch::remove(void* tag) { watched_.erase(tag); }

void* process_watch::ended() {
  for (const auto& [tag, file] : watched_) {
    pollfd polled{file.get(), POLLIN, 0};
    if (file && poll(&polled, 1, 0) != 1) continue;
    void* const found = tag;
    remove(found);
    return found;
  }
  return nullptr;
}

}  // namespace gravel::detail
