#include "transport/pmix_launcher.hpp"

#include <pmix.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "transport/pmix_info.hpp"

namespace gravel {
namespace {

bool has(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

/// The value of a key that the launcher itself provides, from this process's store; no round trip.
struct value_deleter {
  void operator()(pmix_value_t* value) const { PMIX_VALUE_RELEASE(value); }
};
using value_handle = std::unique_ptr<pmix_value_t, value_deleter>;
value_handle launcher_value(const pmix_proc_t& proc, const char* key) {
  pmix_info_list options;
  options.add(PMIX_OPTIONAL, true);
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&proc, key, options.data(), options.size(), &value) != PMIX_SUCCESS) return nullptr;
  return value_handle(value);
}
std::optional<uint64_t> launcher_number(const pmix_proc_t& proc, const char* key) {
  const value_handle value = launcher_value(proc, key);
  if (!value) return {};
  switch (value->type) {
    case PMIX_UINT16: return value->data.uint16;
    case PMIX_UINT32: return value->data.uint32;
    case PMIX_UINT64: return value->data.uint64;
    case PMIX_INT: return value->data.integer;
    case PMIX_PROC_RANK: return value->data.rank;
    case PMIX_SIZE: return value->data.size;
    default: return {};
  }
}
std::string launcher_text(const pmix_proc_t& proc, const char* key) {
  const value_handle value = launcher_value(proc, key);
  return value && value->type == PMIX_STRING && value->data.string ? value->data.string : "";
}

/// Ends the process unless the result is destroyed in time. PMIx_Init has no limit of its own: while a PE that is
/// stopped holds up the launcher's server, it never returns.
std::jthread limit_on_init(uint64_t seconds) {
  return std::jthread([seconds](std::stop_token over) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, over, std::chrono::seconds(seconds), [] { return false; });
    if (over.stop_requested()) return;
    log_error("the launcher does not answer PMIx_Init within {} s (GRAVEL_CONNECT_TIMEOUT_S); is one of the job's processes stopped?",
              seconds);
    _exit(1);
  });
}

/// Only a directory that nobody else can write to may hold sockets of the job.
bool is_private_directory(const std::string& path) {
  struct stat found {};
  constexpr size_t longest = 80;  // of the 108 characters of a socket's address
  return !path.empty() && path.size() <= longest && lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == geteuid() && (found.st_mode & 022) == 0 && access(path.c_str(), W_OK | X_OK) == 0;
}

void find_hosts(launched_job& job, const pmix_proc_t& self) {
  std::map<std::string, uint32_t> number;
  job.host_of.assign(job.size, 0);
  for (uint32_t pe = 0; pe < job.size; ++pe) {
    const auto node = launcher_number(process_of(self, pe), PMIX_NODEID);
    // The number tells hosts apart even where they share a name; the name serves launchers that give no
    // number.
    const std::string host = node ? fmt::format("#{}", *node) : launcher_text(process_of(self, pe), PMIX_HOSTNAME);
    if (host.empty()) fail("the launcher does not tell on which host PE {} runs (neither PMIX_NODEID nor PMIX_HOSTNAME)", pe);
    job.host_of[pe] = number.emplace(host, static_cast<uint32_t>(number.size())).first->second;
  }
  const auto mine = job.host_of.begin() + self.rank;
  job.local_rank = static_cast<uint32_t>(std::count(job.host_of.begin(), mine, *mine));
  job.local_size = static_cast<uint32_t>(std::count(job.host_of.begin(), job.host_of.end(), *mine));
}

std::string find_session_directory(const pmix_proc_t& self) {
  for (const char* key : {PMIX_NSDIR, PMIX_TMPDIR}) {
    std::string path = launcher_text(process_of(self, PMIX_RANK_WILDCARD), key);
    if (is_private_directory(path)) return path;
  }
  // Open MPI names only the directory of its PMIx server. That server may have several jobs, hence a part
  // of our own, made by whoever comes first; it goes with the rest.
  if (!has("PMIX_SERVER_TMPDIR") || !is_private_directory(std::getenv("PMIX_SERVER_TMPDIR"))) return {};
  std::string name = self.nspace;
  std::replace(name.begin(), name.end(), '/', '-');
  const std::string path = fmt::format("{}/gravel-{}", std::getenv("PMIX_SERVER_TMPDIR"), name);
  const bool made = mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
  return made && is_private_directory(path) ? path : std::string();
}

}  // namespace

bool has_pmix_launcher() { return has("PMIX_NAMESPACE") && has("PMIX_RANK"); }

void refuse_other_launchers() {
  const auto more_than_one = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value && std::atol(value) > 1;
  };
  if (has("SLURM_PROCID") && more_than_one("SLURM_STEP_NUM_TASKS"))
    fail(
        "srun started {} processes without PMIx, so they cannot find each other: add --mpi=pmix (`srun --mpi=list` shows whether this "
        "Slurm has it), or start them with ucx-run",
        std::getenv("SLURM_STEP_NUM_TASKS"));
  if (has("PMI_RANK") && more_than_one("PMI_SIZE"))
    fail(
        "the launcher (MPICH's mpiexec?) started {} processes with PMI, but Gravel needs PMIx: start them with ucx-run, Open MPI's mpirun, "
        "prterun or srun --mpi=pmix",
        std::getenv("PMI_SIZE"));
}

pmix_proc_t join_launcher(uint64_t limit_s) {
  pmix_proc_t self{};
  pmix_status_t code = PMIX_SUCCESS;
  {
    const std::jthread limit = limit_on_init(limit_s);
    code = PMIx_Init(&self, nullptr, 0);
  }
  if (code != PMIX_SUCCESS)
    fail(
        "cannot join the job: PMIx_Init: {}. A PMIx launcher started this process (PMIX_NAMESPACE={}, PMIX_RANK={}) but does not answer. "
        "Check that the launcher still runs and that it uses a PMIx as new as this one ({})",
        PMIx_Error_string(code), std::getenv("PMIX_NAMESPACE"), std::getenv("PMIX_RANK"), PMIx_Get_version());
  return self;
}

launched_job ask_launcher(const pmix_proc_t& self) {
  launched_job job;
  const auto n_pes = launcher_number(process_of(self, PMIX_RANK_WILDCARD), PMIX_JOB_SIZE);
  if (!n_pes || *n_pes == 0 || self.rank >= *n_pes)
    fail("the launcher does not tell the number of PEs of the job (PMIX_JOB_SIZE; this PE is {})", self.rank);
  job.size = static_cast<uint32_t>(*n_pes);
  find_hosts(job, self);
  job.session_directory = find_session_directory(self);
  return job;
}

}  // namespace gravel
