// The signals of ucx-run: read from a descriptor, so that its loop handles them one after the other.
#pragma once
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "lib/base/descriptor.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class signal_source {
 public:
  /// Blocks the signals that are for the job in this thread and in those that it will start (so before PMIx starts its
  /// own), and ignores SIGPIPE and SIGXFSZ, because write() reports these errors. Throws gravel::error.
  signal_source() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
      sigaddset(&taken, number);
    fd_ = owned_descriptor(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) fail_errno("signalfd");
    sigprocmask(SIG_BLOCK, &taken, &mask_);
    sigpipe_ = std::signal(SIGPIPE, SIG_IGN);
    sigxfsz_ = std::signal(SIGXFSZ, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);  // a process that ignores it loses exit statuses
  }

  int fd() const { return fd_.get(); }
  /// The number of a signal that has come; never waits.
  std::optional<int> next() {
    signalfd_siginfo info;
    if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

  // The settings with which this process was started, for the PEs.
  const sigset_t& inherited_mask() const { return mask_; }
  sighandler_t inherited_sigpipe() const { return sigpipe_; }
  sighandler_t inherited_sigxfsz() const { return sigxfsz_; }

 private:
  owned_descriptor fd_;
  sigset_t mask_{};
  sighandler_t sigpipe_ = SIG_DFL, sigxfsz_ = SIG_DFL;
};

}  // namespace gravel::detail
