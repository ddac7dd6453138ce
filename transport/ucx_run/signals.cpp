#include "transport/ucx_run/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/error.hpp"

namespace gravel {

signal_source::signal_source() {
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

std::optional<int> signal_source::next() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace gravel
