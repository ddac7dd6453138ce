#include "transport/bootstrap.hpp"

#include <pmix.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "transport/pmix_info.hpp"
#include "transport/pmix_wait.hpp"

namespace gravel {
namespace {

using value_map = std::map<std::string, std::vector<std::byte>, std::less<>>;

std::atomic<bool> connected{false};

bool has(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

/// A launcher that started several processes but speaks no PMIx would give us so many jobs of one PE each.
void refuse_other_launchers() {
  const auto more_than_one = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value && std::atol(value) > 1;
  };
  if (has("SLURM_PROCID") && more_than_one("SLURM_STEP_NUM_TASKS"))
    fail(
        "srun started {} processes without PMIx, so they cannot find each other: add --mpi=pmix (`srun "
        "--mpi=list` shows "
        "whether this Slurm has it), or start them with ucx-run",
        std::getenv("SLURM_STEP_NUM_TASKS"));
  if (has("PMI_RANK") && more_than_one("PMI_SIZE"))
    fail(
        "the launcher (MPICH's mpiexec?) started {} processes with PMI, but Gravel needs PMIx: start them "
        "with ucx-run, "
        "Open MPI's mpirun, prterun or srun --mpi=pmix",
        std::getenv("PMI_SIZE"));
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
    case PMIX_UINT16:
      return value->data.uint16;
    case PMIX_UINT32:
      return value->data.uint32;
    case PMIX_UINT64:
      return value->data.uint64;
    case PMIX_INT:
      return value->data.integer;
    case PMIX_PROC_RANK:
      return value->data.rank;
    case PMIX_SIZE:
      return value->data.size;
    default:
      return {};
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
    log_error("the launcher does not answer PMIx_Init within {} s (GRAVEL_CONNECT_TIMEOUT_S); is one of the job's "
              "processes stopped?", seconds);
    _exit(1);
  });
}

/// Only a directory that nobody else can write to may hold sockets of the job.
bool is_private_directory(const std::string& path) {
  struct stat found {};
  constexpr size_t longest = 80;  // of the 108 characters of a socket's address
  return !path.empty() && path.size() <= longest && lstat(path.c_str(), &found) == 0 &&
         S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 022) == 0 &&
         access(path.c_str(), W_OK | X_OK) == 0;
}

std::string fence_key(uint64_t number) { return "gravel." + std::to_string(number); }

}  // namespace

struct bootstrap::state {
  bool launched = false;
  bool finalized = false;
  pmix_proc_t self{};
  std::optional<size_t> event_handler;
  uint32_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::vector<uint32_t> host_of{0};
  std::string session_directory;
  uint64_t fences = 0;       ///< fences completed; fence n carried "gravel.n"
  uint64_t waits = 0;        ///< fences and barriers begun, for messages
  staged_values staged;      ///< put since the last fence
  value_map own;             ///< of a job of one PE: what it has put
  // What one PE has put, all fences together. PMIx keeps the values anyway, so one PE at a time is enough
  // here.
  std::optional<uint32_t> cached_pe;
  uint64_t cached_fences = 0;
  value_map cached;

  pmix_proc_t proc(pmix_rank_t pe) const {
    pmix_proc_t result = self;
    result.rank = pe;
    return result;
  }

  void join() {
    pmix_status_t code = PMIX_SUCCESS;
    {
      const std::jthread limit = limit_on_init(current_settings().connect_timeout_s);
      code = PMIx_Init(&self, nullptr, 0);
    }
    if (code != PMIX_SUCCESS)
      fail(
          "cannot join the job: PMIx_Init: {}. A PMIx launcher started this process (PMIX_NAMESPACE={}, "
          "PMIX_RANK={}) but "
          "does not answer. Check that the launcher still runs and that it uses a PMIx as new as this one "
          "({})",
          PMIx_Error_string(code), std::getenv("PMIX_NAMESPACE"), std::getenv("PMIX_RANK"),
          PMIx_Get_version());
    launched = true;
    rank = self.rank;
    const auto n_pes = launcher_number(proc(PMIX_RANK_WILDCARD), PMIX_JOB_SIZE);
    if (!n_pes || *n_pes == 0 || rank >= *n_pes)
      fail("the launcher does not tell the number of PEs of the job (PMIX_JOB_SIZE; this PE is {})", rank);
    size = static_cast<uint32_t>(*n_pes);
    find_hosts();
    find_session_directory();
    listen_for_deaths();
  }

  void find_hosts() {
    std::map<std::string, uint32_t> number;
    host_of.assign(size, 0);
    for (uint32_t pe = 0; pe < size; ++pe) {
      const auto node = launcher_number(proc(pe), PMIX_NODEID);
      // The number tells hosts apart even where they share a name; the name serves launchers that give no
      // number.
      const std::string host = node ? fmt::format("#{}", *node) : launcher_text(proc(pe), PMIX_HOSTNAME);
      if (host.empty())
        fail("the launcher does not tell on which host PE {} runs (neither PMIX_NODEID nor PMIX_HOSTNAME)",
             pe);
      host_of[pe] = number.emplace(host, static_cast<uint32_t>(number.size())).first->second;
    }
    local_rank = static_cast<uint32_t>(std::count(host_of.begin(), host_of.begin() + rank, host_of[rank]));
    local_size = static_cast<uint32_t>(std::count(host_of.begin(), host_of.end(), host_of[rank]));
  }

  void find_session_directory() {
    for (const char* key : {PMIX_NSDIR, PMIX_TMPDIR}) {
      session_directory = launcher_text(proc(PMIX_RANK_WILDCARD), key);
      if (is_private_directory(session_directory)) return;
    }
    // Open MPI names only the directory of its PMIx server. That server may have several jobs, hence a part
    // of our own, made by whoever comes first; it goes with the rest.
    session_directory.clear();
    if (!has("PMIX_SERVER_TMPDIR") || !is_private_directory(std::getenv("PMIX_SERVER_TMPDIR"))) return;
    std::string name = self.nspace;
    std::replace(name.begin(), name.end(), '/', '-');
    const std::string path = fmt::format("{}/gravel-{}", std::getenv("PMIX_SERVER_TMPDIR"), name);
    if ((mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) && is_private_directory(path))
      session_directory = path;
  }

  void listen_for_deaths() {
    const pmix_status_t code = death_notices::start();
    if (code < 0)
      log_warning("the launcher does not report the death of PEs ({})", PMIx_Error_string(code));
    else
      event_handler = static_cast<size_t>(code);
  }
};

bootstrap::bootstrap(std::unique_ptr<state> made) : state_(std::move(made)) {}

std::unique_ptr<bootstrap> bootstrap::connect() {
  if (connected.exchange(true)) fail("this process has joined its job already");
  try {
    auto made = std::make_unique<state>();
    if (has("PMIX_NAMESPACE") && has("PMIX_RANK"))
      made->join();
    else
      refuse_other_launchers();
    return std::unique_ptr<bootstrap>(new bootstrap(std::move(made)));
  } catch (...) {
    connected = false;
    throw;
  }
}

bootstrap::~bootstrap() {
  try {
    finalize();
  } catch (const std::exception& e) {
    log_warning("{}", e.what());
  }
}

uint32_t bootstrap::rank() const { return state_->rank; }
uint32_t bootstrap::size() const { return state_->size; }
bool bootstrap::launched() const { return state_->launched; }
const std::vector<uint32_t>& bootstrap::host_of() const { return state_->host_of; }
uint32_t bootstrap::local_rank() const { return state_->local_rank; }
uint32_t bootstrap::local_size() const { return state_->local_size; }
const std::string& bootstrap::session_directory() const { return state_->session_directory; }

void bootstrap::put(std::string_view key, std::span<const std::byte> value) {
  state_->staged.values.emplace_back(key, std::vector<std::byte>(value.begin(), value.end()));
}

std::vector<std::byte> bootstrap::get(uint32_t pe, std::string_view key) {
  state& s = *state_;
  if (pe >= s.size)
    fail("get of '{}': there is no PE {}, the job has {} (0 to {})", key, pe, s.size, s.size - 1);
  if (s.launched && (s.cached_pe != pe || s.cached_fences != s.fences)) {
    // Of the PE asked last only what came since; if this fails halfway, all is fetched again.
    const uint64_t first = s.cached_pe == pe ? s.cached_fences : 0;
    s.cached_pe.reset();
    if (first == 0) s.cached.clear();
    for (uint64_t number = first; number < s.fences; ++number) {
      pmix_call call;
      auto& with = call.with();
      with.proc = s.proc(pe);
      with.key = fence_key(number);
      const pmix_status_t code =
          PMIx_Get_nb(&with.proc, with.key.c_str(), nullptr, 0, pmix_call::value_arrived, call.cookie());
      if (code != PMIX_SUCCESS) {
        call.refused();
        fail("cannot get '{}' of PE {}: {}", key, pe, PMIx_Error_string(code));
      }
      switch (call.wait(current_settings().connect_timeout_s)) {
        case pmix_call::outcome::death:
          let_cause_speak();
          fail("cannot get '{}' of PE {}: {}", key, pe, death_notices::first());
        case pmix_call::outcome::timeout:
          fail("cannot get '{}' of PE {}: the launcher does not answer", key, pe);
        case pmix_call::outcome::answered:
          break;
      }
      if (call.status() != PMIX_SUCCESS)
        fail("cannot get '{}' of PE {}: {}", key, pe, PMIx_Error_string(call.status()));
      for (auto& [name, value] : from_wire<staged_values>(call.value(), fmt::format("PE {}", pe)).values)
        s.cached[name] = std::move(value);
    }
    s.cached_pe = pe;
    s.cached_fences = s.fences;
  }
  const value_map& values = s.launched ? s.cached : s.own;
  const auto found = values.find(key);
  if (found == values.end()) fail("PE {} has put no value under '{}' before the last fence", pe, key);
  return found->second;
}

void bootstrap::fence() {
  state& s = *state_;
  if (!s.launched) {
    for (auto& [name, value] : s.staged.values) s.own[name] = std::move(value);
  } else {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    std::vector<std::byte> packed = to_wire(s.staged);  // never empty, which PMIx would not take
    value.data.bo.bytes = reinterpret_cast<char*>(packed.data());  // PMIx copies
    value.data.bo.size = packed.size();
    pmix_status_t code = PMIx_Put(PMIX_GLOBAL, fence_key(s.fences).c_str(), &value);
    if (code == PMIX_SUCCESS) code = PMIx_Commit();
    if (code != PMIX_SUCCESS)
      fail("PE {} cannot hand {} bytes to the launcher: {}", s.rank, packed.size(),
           PMIx_Error_string(code));
    wait_for_all(true);
  }
  s.staged.values.clear();
  ++s.fences;
}

void bootstrap::barrier() {
  if (state_->launched) wait_for_all(false);
}

void bootstrap::wait_for_all(bool exchange) {
  state& s = *state_;
  ++s.waits;
  pmix_call call;
  auto& with = call.with();
  with.proc = s.proc(PMIX_RANK_WILDCARD);
  with.options.add(PMIX_COLLECT_DATA, exchange);
  const pmix_status_t code = PMIx_Fence_nb(&with.proc, 1, with.options.data(), with.options.size(),
                                           pmix_call::operation_done, call.cookie());
  if (code != PMIX_SUCCESS) {
    call.refused();
    if (code == PMIX_OPERATION_SUCCEEDED) return;
    fail("fence {} of the job failed: {}", s.waits, PMIx_Error_string(code));
  }
  const uint64_t limit = current_settings().connect_timeout_s;
  switch (call.wait(limit)) {
    case pmix_call::outcome::death:
      let_cause_speak();
      fail("fence {} of the job cannot complete: {}", s.waits, death_notices::first());
    case pmix_call::outcome::timeout:
      fail(
          "not all {} PEs came to fence {} of the job within {} s. Check that every PE runs the same program "
          "with the same "
          "arguments, that none is stopped or waits for input, and that all could start; "
          "GRAVEL_CONNECT_TIMEOUT_S sets "
          "the limit",
          s.size, s.waits, limit);
    case pmix_call::outcome::answered:
      break;
  }
  // "Partial success" is how PMIx says that the fence went on without a PE that is gone.
  if (call.status() != PMIX_SUCCESS) {
    let_cause_speak();
    fail("fence {} of the job failed: a PE has died or left the job ({})", s.waits,
         PMIx_Error_string(call.status()));
  }
}

void bootstrap::abort(int status, const std::string& text) {
  if (status < 1 || status > 255) status = 1;
  if (!text.empty()) log_error("{}", text);
  if (state_->launched && !state_->finalized) {
    // A launcher that is stopped or gone must not keep this process.
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      _exit(status);
    }).detach();
    PMIx_Abort(status, text.c_str(), nullptr, 0);
  }
  _exit(status);
}

void bootstrap::on_abort(std::function<void(std::string)> callback) {
  death_notices::on_first(std::move(callback));
}

void bootstrap::finalize() {
  state& s = *state_;
  if (s.finalized) return;
  s.finalized = true;
  if (s.launched) {
    death_notices::stop();
    if (s.event_handler) PMIx_Deregister_event_handler(*s.event_handler, nullptr, nullptr);
    pmix_info_list options;
    options.add(PMIX_EMBED_BARRIER, false);
    const pmix_status_t code = PMIx_Finalize(options.data(), options.size());
    if (code != PMIX_SUCCESS)
      fail("PE {} could not leave the job cleanly: {}", s.rank, PMIx_Error_string(code));
  }
}

}  // namespace gravel
