#include "transport/ucx_run/pe_processes.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "transport/ucx_run/child.hpp"

namespace gravel {

pe_processes::pe_processes(uint32_t n_pes) : pes_(n_pes) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail_errno("prctl(PR_SET_CHILD_SUBREAPER)");
}

void pe_processes::started(uint32_t pe, pid_t pid) {
  pes_[pe] = {pid, true, 0};
  ++alive_;
}

bool pe_processes::reap(const std::function<void(uint32_t pe)>& ended) {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0) return false;  // ECHILD
    for (uint32_t pe = 0; pe < pes_.size(); ++pe) {
      if (!pes_[pe].alive || pes_[pe].pid != pid) continue;
      pes_[pe].alive = false;
      pes_[pe].wait_status = wait_status;
      --alive_;
      ended(pe);
    }
  }
}

void pe_processes::signal(int number) const {
  for (const auto& pe : pes_)
    if (pe.alive) kill(pe.pid, number);
}

void pe_processes::signal_groups(int number) const {
  for (const auto& pe : pes_)
    if (pe.alive) kill(-pe.pid, number);
  for (const pid_t pid : own_children())
    if (!is_living_pe(pid)) kill(pid, number);
}

bool pe_processes::is_living_pe(pid_t pid) const {
  return std::any_of(pes_.begin(), pes_.end(), [&](const process& pe) { return pe.alive && pe.pid == pid; });
}

std::string pe_processes::name_leftovers() const {
  std::string names;
  for (const pid_t pid : own_children()) names += fmt::format("{}{} (pid {})", names.empty() ? "" : ", ", process_name(pid), pid);
  return names;
}

}  // namespace gravel
