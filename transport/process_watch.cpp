#include "transport/process_watch.hpp"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>

#include "lib/base/error.hpp"

namespace gravel {

uint64_t start_of_process(uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The second field, the name in parentheses, may hold anything; the start is the 22nd.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t start = 0;
  return fields >> start ? start : 0;
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
  if (!file) {
    if (errno == ESRCH) gone_.push_back(tag);
    return errno == ESRCH;  // else an old kernel, or a sandbox that forbids it
  }
  // The number is what another process may have by now. Looked at behind pidfd_open: who has this start now is who the
  // pidfd is for. Where /proc tells no start, the pidfd is believed.
  const uint64_t start = start_of_process(process.pid);
  if (process.start && start && start != process.start) {
    gone_.push_back(tag);
    return true;
  }
  if (!poll_) poll_ = owned_descriptor(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = tag;
  if (!poll_ || epoll_ctl(poll_.get(), EPOLL_CTL_ADD, file.get(), &event) < 0) fail_errno("cannot watch another process");
  files_.emplace(tag, std::move(file));
  return true;
}

void process_watch::remove(void* tag) {
  std::erase(gone_, tag);
  files_.erase(tag);  // this also takes it out of the epoll set
}

void* process_watch::ended() {
  void* tag = nullptr;
  epoll_event event;
  if (!gone_.empty()) tag = gone_.back();
  else if (!files_.empty() && epoll_wait(poll_.get(), &event, 1, 0) == 1) tag = event.data.ptr;
  if (tag) remove(tag);
  return tag;
}

}  // namespace gravel
