#include "transport/ucx_run/pe_processes.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/process_stat.hpp"

namespace gravel::detail {
namespace {

struct known_process {
  pid_t parent;
  std::string name;
};
/// All processes that have not ended.
std::map<pid_t, known_process> all_processes() {
  std::map<pid_t, known_process> result;
  std::error_code code;
  for (std::filesystem::directory_iterator entry("/proc", code), none; !code && entry != none; entry.increment(code)) {
    const pid_t pid = static_cast<pid_t>(std::atol(entry->path().filename().c_str()));
    if (pid <= 0) continue;
    const auto fields = stat_of_process(static_cast<uint64_t>(pid));
    if (fields.size() > 3 && fields[2] != "Z")
      result[pid] = {static_cast<pid_t>(std::atol(fields[3].c_str())), fields[1]};
  }
  return result;
}

/// The living direct children of this process, which include the orphans of PEs, and their names.
std::map<pid_t, std::string> own_children() {
  std::map<pid_t, std::string> result;
  for (const auto& [pid, process] : all_processes())
    if (process.parent == getpid()) result[pid] = process.name;
  return result;
}

enum class sight { has_it, has_it_not, unknown };
sight has_socket(pid_t pid, uint64_t inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code code, gone;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fd", pid), code), none; !code && entry != none;
       entry.increment(code))
    if (std::filesystem::read_symlink(entry->path(), gone) == wanted) return sight::has_it;
  return code == std::errc::permission_denied ? sight::unknown : sight::has_it_not;
}

}  // namespace

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
  for (const auto& [pid, name] : own_children())
    if (!is_living_pe(pid)) kill(pid, number);
}

pe_processes::holder pe_processes::holder_of(uint64_t socket_inode) const {
  holder result;
  result.all_seen = access("/proc/self/fd", R_OK) == 0;  // true if there is a /proc
  const auto is_in = [&](pid_t pid) {
    const sight seen = has_socket(pid, socket_inode);
    if (seen == sight::unknown) result.all_seen = false;
    return seen == sight::has_it;
  };
  // Nearly always it is a PE itself.
  for (uint32_t pe = 0; pe < pes_.size(); ++pe)
    if (pes_[pe].alive && is_in(pes_[pe].pid)) return {pes_[pe].pid, pe, true};
  const auto processes = all_processes();
  for (const auto& [pid, process] : processes) {
    std::optional<uint32_t> pe;
    pid_t at = pid;
    for (auto found = processes.find(at); found != processes.end() && at != getpid(); found = processes.find(at)) {
      for (uint32_t i = 0; i < pes_.size() && !pe; ++i)
        if (pes_[i].alive && pes_[i].pid == at) pe = i;
      at = found->second.parent;
    }
    if (at == getpid() && pid != getpid() && is_in(pid)) return {pid, pe, true};
  }
  return result;
}

bool pe_processes::is_living_pe(pid_t pid) const {
  return std::any_of(pes_.begin(), pes_.end(), [&](const process& pe) { return pe.alive && pe.pid == pid; });
}

std::string pe_processes::name_leftovers() const {
  std::string names;
  for (const auto& [pid, name] : own_children())
    names += fmt::format("{}{} (pid {})", names.empty() ? "" : ", ", name, pid);
  return names;
}

}  // namespace gravel::detail
