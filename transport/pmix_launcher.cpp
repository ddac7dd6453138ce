#include "transport/pmix_launcher.hpp"

#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "transport/pmix_info.hpp"

namespace gravel::detail {
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
  pmix_status_t code;
  uint64_t number = 0;
  PMIX_VALUE_GET_NUMBER(code, value.get(), number, uint64_t);
  return code == PMIX_SUCCESS ? std::optional(number) : std::nullopt;
}
std::string launcher_text(const pmix_proc_t& proc, const char* key) {
  const value_handle value = launcher_value(proc, key);
  return value && value->type == PMIX_STRING && value->data.string ? value->data.string : "";
}

/// Launchers whose processes can be recognized, and their variables for the number of a process and of all processes.
/// `size`: some launchers do not set it.
struct other_launcher {
  const char *name, *rank, *size, *advice;
};
constexpr other_launcher launchers_without_pmix[] = {
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "`srun --mpi=list` shows whether this Slurm has pmix; if so, add --mpi=pmix. "},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "If Flux has its PMIx plugin, add -o pmi=pmix. "},
    {"PALS", "PALS_RANKID", "PALS_NRANKS", "If this mpiexec knows it, add --pmi=pmix. "},
    {"aprun", "ALPS_APP_PE", "ALPS_APP_NRANKS", ""},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", ""},
    {"MVAPICH's launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ""},
    {"MVAPICH's launcher", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", ""},
    {"a launcher of Open MPI's kind", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    {"POE", "MP_CHILD", "MP_PROCS", ""},
    {"the launcher (MPICH's mpiexec?)", "PMI_RANK", "PMI_SIZE", "It speaks PMI, but Gravel needs PMIx. "},
    {"the launcher (MPICH's mpiexec?)", "PMI_ID", "PMI_SIZE", "It speaks PMI, but Gravel needs PMIx. "},
    {"horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", ""},
    {"torchrun, or a launcher like it,", "RANK", "WORLD_SIZE", ""},
};

void find_hosts(launched_job& job) {
  std::vector<std::string> host(job.place.size);
  for (uint32_t pe = 0; pe < job.place.size; ++pe) {
    const pmix_proc_t process = process_of(job.name, pe);
    const auto node = launcher_number(process, PMIX_NODEID);
    // The number distinguishes hosts even if they share a name. The name is for launchers that provide no number.
    host[pe] = node ? fmt::format("#{}", *node) : launcher_text(process, PMIX_HOSTNAME);
    if (host[pe].empty())
      fail("the launcher does not say on which host PE {} runs (neither PMIX_NODEID nor PMIX_HOSTNAME)", pe);
  }
  job.place.find_hosts([&](uint32_t a, uint32_t b) { return host[a] == host[b]; });
}

}  // namespace

bool has_pmix_launcher() { return has("PMIX_NAMESPACE") && has("PMIX_RANK"); }

void refuse_other_launchers() {
  for (const auto& launcher : launchers_without_pmix) {
    if (!has(launcher.rank)) continue;
    const bool reports_size = has(launcher.size);
    const std::string n = reports_size ? std::getenv(launcher.size) : "several";
    // If a launcher does not say how many processes there are, it has started several if this one is not the first.
    const bool is_first = std::atol(std::getenv(launcher.rank)) <= 0;
    if (reports_size ? std::atol(n.c_str()) <= 1 : is_first) continue;
    // One process says what to do; thousands of others need not repeat it.
    if (reports_size && !is_first)
      fail("{} started {} processes without PMIx ({}={}); process 0 says what to do", launcher.name, n, launcher.size,
           n);
    fail(
        "{} started {} processes without PMIx ({}={}), so they cannot find each other and would be jobs of one PE "
        "each. {}Start them with ucx-run{}, Open MPI's mpirun, prterun or srun --mpi=pmix. For a job of one PE all the "
        "same take the variable out of its environment: env -u {} ./program",
        launcher.name, n, reports_size ? launcher.size : launcher.rank,
        std::getenv(reports_size ? launcher.size : launcher.rank), launcher.advice, reports_size ? " -n " + n : "",
        launcher.rank);
  }
}

launched_job join_launcher(uint64_t limit_s) {
  pmix_proc_t self{};
  // PMIx_Init has no limit of its own: while a stopped PE blocks the launcher's PMIx server, it never returns.
  std::promise<void> joined;
  std::jthread limit([limit_s, answer = joined.get_future()] {
    if (answer.wait_for(std::chrono::seconds(limit_s)) == std::future_status::ready) return;
    log_error(
        "the launcher does not answer PMIx_Init within {} s (GRAVEL_CONNECT_TIMEOUT_S); is one of the job's processes "
        "stopped?",
        limit_s);
    _exit(1);
  });
  const pmix_status_t code = PMIx_Init(&self, nullptr, 0);
  joined.set_value();
  limit.join();
  if (code != PMIX_SUCCESS)
    fail(
        "cannot join the job: PMIx_Init: {}. A PMIx launcher started this process (PMIX_NAMESPACE={}, PMIX_RANK={}) "
        "but does not answer. Check that the launcher still runs and that it uses a PMIx as new as this one ({})",
        PMIx_Error_string(code), std::getenv("PMIX_NAMESPACE"), std::getenv("PMIX_RANK"), PMIx_Get_version());
  launched_job job;
  job.name = self.nspace;
  job.place.rank = self.rank;
  const auto n_pes = launcher_number(process_of(job.name, PMIX_RANK_WILDCARD), PMIX_JOB_SIZE);
  if (!n_pes || *n_pes == 0 || job.place.rank >= *n_pes)
    fail("the launcher does not say how many PEs the job has (PMIX_JOB_SIZE; this PE is {})", job.place.rank);
  job.place.size = static_cast<uint32_t>(*n_pes);
  find_hosts(job);
  return job;
}

}  // namespace gravel::detail
