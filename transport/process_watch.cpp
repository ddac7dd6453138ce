#include "transport/process_watch.hpp"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <string>

#include "lib/base/error.hpp"

namespace gravel {

process_identity this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  // Where /proc tells neither, 0 says "unknown", which add() does not trust.
  return {boot.empty() ? 0 : std::hash<std::string>()(boot), space.st_ino, static_cast<uint64_t>(getpid())};
}

process_watch::~process_watch() {
  for (auto [tag, file] : files_) close(file);
  if (poll_ >= 0) close(poll_);
}

bool process_watch::add(const process_identity& process, void* tag) {
  const process_identity self = this_process();
  if (!self.boot || !self.pid_namespace || process.boot != self.boot ||
      process.pid_namespace != self.pid_namespace || process.pid == self.pid)
    return false;
  const int file = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0));
  if (file < 0) {
    if (errno == ESRCH) gone_.push_back(tag);
    return errno == ESRCH;  // else an old kernel, or a sandbox that forbids it
  }
  if (poll_ < 0) poll_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = tag;
  if (poll_ < 0 || epoll_ctl(poll_, EPOLL_CTL_ADD, file, &event) < 0) {
    close(file);
    fail_errno("cannot watch another process");
  }
  files_.emplace(tag, file);
  return true;
}

void process_watch::remove(void* tag) {
  std::erase(gone_, tag);
  const auto found = files_.find(tag);
  if (found == files_.end()) return;
  close(found->second);  // this also takes it out of the epoll set
  files_.erase(found);
}

void* process_watch::ended() {
  void* tag = nullptr;
  epoll_event event;
  if (!gone_.empty())
    tag = gone_.back();
  else if (!files_.empty() && epoll_wait(poll_, &event, 1, 0) == 1)
    tag = event.data.ptr;
  if (tag) remove(tag);
  return tag;
}

}  // namespace gravel
