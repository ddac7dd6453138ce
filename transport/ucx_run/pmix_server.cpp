#include "transport/ucx_run/pmix_server.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/random_name.hpp"
#include "transport/pmix_info.hpp"

namespace gravel::detail {
namespace {

constexpr const char* host_name = "localhost";

/// The state that is shared with PMIx's thread. PMIx's callbacks carry no pointer of the caller, hence one per process.
struct server_state {
  std::mutex mutex;
  std::vector<pe_membership> memberships;
  std::vector<abort_request> aborts;
  int change_fd = -1;
  std::atomic<bool> crashed{false};

  void changed() const {
    const uint64_t one = 1;
    // The counter of an eventfd overflows after 2^64 writes; a failed write means it is readable already.
    if (write(change_fd, &one, sizeof one) < 0) return;
  }
};
server_state& the_state() {
  static server_state instance;
  return instance;
}

/// PMIx 4.2.2 (Debian 12) uses memory after freeing it when several PEs die at once in a fence, and may then crash.
/// This handler stops PMIx's thread, so that this process can still end the PEs and remove its directory, which takes
/// two seconds. What the thread has locked stays locked, perhaps even the heap. If the other threads wait for that,
/// only the crash is left, and the PEs die with this process. It calls only functions that are safe in signal handlers.
void contain_crash(int number) {
  if (gettid() != getpid()) {
    the_state().crashed = true;
    the_state().changed();
    sleep(6);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void contain_crashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(number, contain_crash);
}

/// Handles a report of PMIx about a PE: `change` records it.
template <class F>
pmix_status_t note(const pmix_proc_t* proc, F change) {
  auto& state = the_state();
  std::lock_guard lock(state.mutex);
  if (proc->rank < state.memberships.size()) change(state, state.memberships[proc->rank]);
  state.changed();
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t client_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t, pmix_op_cbfunc_t, void*) {
  return note(proc, [](auto&, pe_membership& pe) { pe = {.connected = true, .joins = pe.joins + 1}; });
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  return note(proc, [](auto&, pe_membership& pe) { pe.finalized = true; });
}

pmix_status_t client_aborted(const pmix_proc_t* proc, void*, int status, const char*, pmix_proc_t*, size_t,
                             pmix_op_cbfunc_t, void*) {
  return note(proc, [&](auto& state, auto&) { state.aborts.push_back({proc->rank, status}); });
}

/// PMIx calls this when all PEs have come, so the data of all is complete: it is returned as it came.
pmix_status_t fence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t, char* data, size_t n_data,
                    pmix_modex_cbfunc_t done, void* cookie) {
  if (done) done(PMIX_SUCCESS, data, n_data, cookie, std::free, data);
  return PMIX_SUCCESS;
}

/// PMIx calls this only for PEs on other hosts, and there are none.
pmix_status_t direct_modex(const pmix_proc_t*, const pmix_info_t*, size_t, pmix_modex_cbfunc_t, void*) {
  return PMIX_ERR_NOT_FOUND;
}

pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t*, size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }
pmix_status_t notify_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t*, size_t, pmix_op_cbfunc_t,
                           void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_server_module_t& callbacks() {
  static pmix_server_module_t module = [] {
    pmix_server_module_t made{};
    made.client_connected2 = client_connected;
    made.client_finalized = client_finalized;
    made.abort = client_aborted;
    made.fence_nb = fence;
    made.direct_modex = direct_modex;
    made.register_events = register_events;
    made.deregister_events = deregister_events;
    made.notify_event = notify_event;
    return made;
  }();
  return module;
}

/// Checks the result of a registration, for which PMIx waits itself if it gets no callback.
void check(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    fail("PMIx {}: {}: {}", PMIx_Get_version(), what, PMIx_Error_string(status));
}

/// The variables that an outer job has set for its PEs, and those that choose parts of PMIx, interfaces and ports for
/// another launcher.
std::vector<std::string> variables_of_other_launchers() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::strcspn(*entry, "="));
    if (name.starts_with("PMIX_") && !name.ends_with("_verbose") && name != "PMIX_INSTALL_PREFIX")
      names.push_back(name);
  }
  return names;
}

struct c_string {
  char* text = nullptr;
  ~c_string() { std::free(text); }
};

}  // namespace

pmix_server::pmix_server(uint32_t n_pes, const std::string& directory) : namespace_("ucx-run-" + random_name()) {
  auto& state = the_state();
  if (state.change_fd >= 0) fail("a process can hold one PMIx server only");
  state.change_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state.change_fd < 0) fail_errno("eventfd");
  state.memberships.assign(n_pes, {});

  contain_crashes();
  for (const auto& name : variables_of_other_launchers()) unsetenv(name.c_str());
  // PMIx's stores in shared memory contain locks, which a PE that is killed may hold. The plain store has none.
  setenv("PMIX_MCA_gds", "hash", 1);
  pmix_info_list info;
  // One host needs no name; PMIx 4.2 crashes with long names, and with a comma in a name.
  info.add(PMIX_HOSTNAME, host_name);
  info.add(PMIX_SERVER_TMPDIR, directory);
  info.add(PMIX_SYSTEM_TMPDIR, directory);
  info.add(PMIX_SERVER_NSPACE, namespace_ + "-server");
  info.add_rank(PMIX_SERVER_RANK, 0);
  const pmix_status_t code = PMIx_server_init(&callbacks(), info.data(), info.size());
  if (code != PMIX_SUCCESS)
    fail("cannot start the PMIx server: {}{}{} (PMIx {}, files under {})", connection_gate::failure(),
         connection_gate::failure().empty() ? "" : "; ", PMIx_Error_string(code), PMIx_Get_version(), directory);
  if (gate_.descriptor() < 0) fail("PMIx {} does not listen as Gravel knows it", PMIx_Get_version());
  // Again: PMIx calls hwloc, hwloc loads its plugins, and what these load (LLVM, for example) may install handlers of
  // its own.
  contain_crashes();
  register_job(n_pes, directory);
}

void pmix_server::register_job(uint32_t n_pes, const std::string& directory) {
  std::string ranks;
  for (uint32_t pe = 0; pe < n_pes; ++pe) ranks += fmt::format("{}{}", pe ? "," : "", pe);
  c_string nodes_regex, procs_regex;
  if (PMIx_generate_regex(host_name, &nodes_regex.text) != PMIX_SUCCESS ||
      PMIx_generate_ppn(ranks.c_str(), &procs_regex.text) != PMIX_SUCCESS)
    fail("PMIx {} cannot describe the placement of {} PEs on {}", PMIx_Get_version(), n_pes, host_name);

  pmix_info_list job;
  job.add(PMIX_JOBID, namespace_);
  for (const char* key :
       {PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_JOB_SIZE, PMIX_APP_SIZE, PMIX_NODE_SIZE, PMIX_LOCAL_SIZE})
    job.add(key, n_pes);
  for (const char* key : {PMIX_JOB_NUM_APPS, PMIX_NUM_NODES}) job.add(key, uint32_t{1});
  job.add(PMIX_LOCAL_PEERS, ranks);
  job.add_rank(PMIX_LOCALLDR, 0);
  job.add_regex(PMIX_NODE_MAP, nodes_regex.text);
  job.add_regex(PMIX_PROC_MAP, procs_regex.text);
  for (const char* key : {PMIX_TMPDIR, PMIX_NSDIR}) job.add(key, directory);
  job.add(PMIX_TDIR_RMCLEAN, true);
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    pmix_info_list proc;
    for (const char* key : {PMIX_RANK, PMIX_APP_RANK, PMIX_GLOBAL_RANK}) proc.add_rank(key, pe);
    for (const char* key : {PMIX_LOCAL_RANK, PMIX_NODE_RANK}) proc.add(key, static_cast<uint16_t>(pe));
    for (const char* key : {PMIX_NODEID, PMIX_APPNUM}) proc.add(key, uint32_t{0});
    proc.add(PMIX_HOSTNAME, host_name);
    proc.add_rank(PMIX_APPLDR, 0);
    proc.add(PMIX_SPAWNED, false);
    job.add_array(PMIX_PROC_INFO_ARRAY, proc);
  }
  check(PMIx_server_register_nspace(namespace_.c_str(), static_cast<int>(n_pes), job.data(), job.size(), nullptr,
                                    nullptr),
        "cannot register the job");
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, namespace_.c_str(), pe);
    check(PMIx_server_register_client(&proc, geteuid(), getegid(), nullptr, nullptr, nullptr), "cannot register a PE");
  }
}

std::vector<std::string> pmix_server::environment_of(uint32_t pe) const {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, namespace_.c_str(), pe);
  auto** list = static_cast<char**>(std::calloc(1, sizeof(char*)));  // PMIx reallocates it
  const pmix_status_t code = PMIx_server_setup_fork(&proc, &list);
  std::vector<std::string> result;
  for (char** entry = list; *entry; ++entry) {
    result.emplace_back(*entry);
    std::free(*entry);
  }
  std::free(list);
  if (code != PMIX_SUCCESS) fail("PMIx cannot prepare the environment of PE {}: {}", pe, PMIx_Error_string(code));
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("PMIX_") || text.starts_with("PMIX_MCA_")) result.emplace_back(text);
  }
  return result;
}

int pmix_server::change_fd() const { return the_state().change_fd; }

void pmix_server::acknowledge() {
  uint64_t count = 0;
  if (read(change_fd(), &count, sizeof count) < 0) return;  // nothing to read: acknowledged already
}

std::vector<pe_membership> pmix_server::memberships() const {
  std::lock_guard lock(the_state().mutex);
  return the_state().memberships;
}

std::vector<abort_request> pmix_server::aborts() const {
  std::lock_guard lock(the_state().mutex);
  return the_state().aborts;
}

bool pmix_server::crashed() const { return the_state().crashed; }

void pmix_server::announce_death(uint32_t pe, const std::string& text) {
  if (crashed()) return;
  pmix_proc_t dead;
  PMIX_LOAD_PROCID(&dead, namespace_.c_str(), pe);
  // PMIx may read the attributes after this function has returned.
  auto* info = new pmix_info_list;
  info->add(PMIX_EVENT_AFFECTED_PROC, dead);
  info->add(PMIX_EVENT_TEXT_MESSAGE, text);
  const auto release = [](pmix_status_t, void* cookie) { delete static_cast<pmix_info_list*>(cookie); };
  const pmix_status_t code =
      PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &dead, PMIX_RANGE_NAMESPACE, info->data(), info->size(), release, info);
  if (code != PMIX_SUCCESS) delete info;
}

}  // namespace gravel::detail
