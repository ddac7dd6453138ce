#include "transport/process_watch.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <string>

#include "lib/base/process_stat.hpp"

namespace gravel {

uint64_t start_of_process(uint64_t pid) {
  const auto fields = stat_of_process(pid);
  return fields.size() < 22 ? 0 : std::stoull(fields[21]);
}

process_identity this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  // Where /proc tells neither, 0 says "unknown", which add() does not trust.
  const auto pid = static_cast<uint64_t>(getpid());
  return {boot.empty() ? 0 : std::hash<std::string>()(boot), space.st_ino, pid, start_of_process(pid)};
}

bool process_watch::add(const process_identity& process, void* tag) {
  const process_identity self = this_process();
  if (!self.boot || !self.pid_namespace || process.boot != self.boot || process.pid_namespace != self.pid_namespace ||
      process.pid == self.pid)
    return false;
  owned_descriptor file(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!file && errno != ESRCH) return false;  // an old kernel, or a sandbox that forbids it
  // The number is what another process may have by now. Looked at behind pidfd_open: who has this start now is who the
  // pidfd is for. Where /proc tells no start, the pidfd is believed.
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

}  // namespace gravel
