// The signals of ucx-run: read from a descriptor, so that its loop handles them one after the other.
#pragma once
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <optional>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel {

class signal_source {
 public:
  /// Blocks the signals that are for the job in this thread and in those that it will start (hence: before
  /// PMIx starts its own), and ignores SIGPIPE. Throws gravel::error.
  signal_source() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) sigaddset(&taken, number);
    fd_ = owned_descriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) fail_errno("signalfd");
    sigprocmask(SIG_BLOCK, &taken, &mask_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &sigpipe_);
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, nullptr);  // whoever ignores it loses the exit statuses of his children
  }

  int fd() const { return fd_.get(); }
  /// The number of a signal that has come; never waits.
  std::optional<int> next() {
    signalfd_siginfo info;
    if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

  // What this process was started with, to be given on to the PEs.
  const sigset_t& inherited_mask() const { return mask_; }
  const struct sigaction& inherited_sigpipe() const { return sigpipe_; }

 private:
  owned_descriptor fd_;
  sigset_t mask_{};
  struct sigaction sigpipe_ {};
};

}  // namespace gravel
