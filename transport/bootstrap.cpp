#include "transport/bootstrap.hpp"

#include <pmix.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "transport/pmix_info.hpp"
#include "transport/pmix_launcher.hpp"
#include "transport/pmix_wait.hpp"

namespace gravel {
namespace {

std::atomic<bool> connected{false};

std::string fence_key(uint64_t number) { return "gravel." + std::to_string(number); }

}  // namespace

struct bootstrap::state {
  bool launched = false;
  bool finalized = false;
  pmix_proc_t self{};
  std::optional<size_t> event_handler;
  launched_job job;
  uint32_t rank() const { return launched ? self.rank : 0; }
  uint64_t fences = 0;             ///< fences completed; fence n carried "gravel.n"
  uint64_t waits = 0;              ///< fences begun, for messages
  staged_values staged;            ///< put since the last fence
  std::vector<staged_values> own;  ///< of a job of one PE: what it has put, by fence

  void join() {
    self = join_launcher(current_settings().connect_timeout_s);
    launched = true;
    job = ask_launcher(self);
    listen_for_deaths();
  }

  void listen_for_deaths() {
    const pmix_status_t code = death_notices::start();
    if (code < 0) log_warning("the launcher does not report the death of PEs ({})", PMIx_Error_string(code));
    else event_handler = static_cast<size_t>(code);
  }
};

bootstrap::bootstrap(std::unique_ptr<state> made) : state_(std::move(made)) {}

std::unique_ptr<bootstrap> bootstrap::connect() {
  if (connected.exchange(true)) fail("this process has joined its job already");
  try {
    auto made = std::make_unique<state>();
    if (has_pmix_launcher()) made->join();
    else refuse_other_launchers();
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

uint32_t bootstrap::rank() const { return state_->rank(); }
uint32_t bootstrap::size() const { return state_->job.size; }
const std::vector<uint32_t>& bootstrap::host_of() const { return state_->job.host_of; }
uint32_t bootstrap::local_rank() const { return state_->job.local_rank; }
uint32_t bootstrap::local_size() const { return state_->job.local_size; }
const std::string& bootstrap::session_directory() const { return state_->job.session_directory; }

void bootstrap::put(std::string_view key, std::span<const std::byte> value) {
  state_->staged.values.emplace_back(key, std::vector<std::byte>(value.begin(), value.end()));
}

/// What a PE put before that fence. `key`: for errors.
staged_values bootstrap::fetch(uint32_t pe, uint64_t fence, std::string_view key) const {
  pmix_call call;
  auto& with = call.with();
  with.proc = process_of(state_->self, pe);
  with.key = fence_key(fence);
  const pmix_status_t code = PMIx_Get_nb(&with.proc, with.key.c_str(), nullptr, 0, pmix_call::value_arrived, call.cookie());
  if (code != PMIX_SUCCESS) {
    call.refused();
    fail("cannot get '{}' of PE {}: {}", key, pe, PMIx_Error_string(code));
  }
  switch (call.wait(current_settings().connect_timeout_s)) {
    case pmix_call::outcome::death: let_cause_speak(); fail("cannot get '{}' of PE {}: {}", key, pe, death_notices::first());
    case pmix_call::outcome::timeout: fail("cannot get '{}' of PE {}: the launcher does not answer", key, pe);
    case pmix_call::outcome::answered: break;
  }
  if (call.status() != PMIX_SUCCESS) fail("cannot get '{}' of PE {}: {}", key, pe, PMIx_Error_string(call.status()));
  return from_wire<staged_values>(call.value(), fmt::format("PE {}", pe));
}

std::vector<std::byte> bootstrap::get(uint32_t pe, std::string_view key) {
  const state& s = *state_;
  if (pe >= s.job.size) fail("get of '{}': there is no PE {}, the job has {} (0 to {})", key, pe, s.job.size, s.job.size - 1);
  for (uint64_t fence = s.fences; fence-- > 0;) {  // the last value counts
    const staged_values then = s.launched ? fetch(pe, fence, key) : s.own[fence];
    const auto found = std::find_if(then.values.rbegin(), then.values.rend(), [&](const auto& value) { return value.first == key; });
    if (found != then.values.rend()) return found->second;
  }
  fail("PE {} has put no value under '{}' before the last fence", pe, key);
}

void bootstrap::fence() {
  state& s = *state_;
  if (!s.launched) {
    s.own.push_back(s.staged);
  } else {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    std::vector<std::byte> packed = to_wire(s.staged);             // never empty, which PMIx would not take
    value.data.bo.bytes = reinterpret_cast<char*>(packed.data());  // PMIx copies
    value.data.bo.size = packed.size();
    pmix_status_t code = PMIx_Put(PMIX_GLOBAL, fence_key(s.fences).c_str(), &value);
    if (code == PMIX_SUCCESS) code = PMIx_Commit();
    if (code != PMIX_SUCCESS) fail("PE {} cannot hand {} bytes to the launcher: {}", s.rank(), packed.size(), PMIx_Error_string(code));
    wait_for_all();
  }
  s.staged.values.clear();
  ++s.fences;
}

void bootstrap::wait_for_all() {
  state& s = *state_;
  ++s.waits;
  pmix_call call;
  auto& with = call.with();
  with.proc = process_of(s.self, PMIX_RANK_WILDCARD);
  with.options.add(PMIX_COLLECT_DATA, true);
  const pmix_status_t code =
      PMIx_Fence_nb(&with.proc, 1, with.options.data(), with.options.size(), pmix_call::operation_done, call.cookie());
  if (code != PMIX_SUCCESS) {
    call.refused();
    if (code == PMIX_OPERATION_SUCCEEDED) return;
    fail("fence {} of the job failed: {}", s.waits, PMIx_Error_string(code));
  }
  const uint64_t limit = current_settings().connect_timeout_s;
  switch (call.wait(limit)) {
    case pmix_call::outcome::death: let_cause_speak(); fail("fence {} of the job cannot complete: {}", s.waits, death_notices::first());
    case pmix_call::outcome::timeout:
      fail(
          "not all {} PEs came to fence {} of the job within {} s. Check that every PE runs the same program with the same arguments, that "
          "none is stopped or waits for input, and that all could start; GRAVEL_CONNECT_TIMEOUT_S sets the limit",
          s.job.size, s.waits, limit);
    case pmix_call::outcome::answered: break;
  }
  // "Partial success" is how PMIx says that the fence went on without a PE that is gone.
  if (call.status() != PMIX_SUCCESS) {
    let_cause_speak();
    fail("fence {} of the job failed: a PE has died or left the job ({})", s.waits, PMIx_Error_string(call.status()));
  }
}

void bootstrap::on_abort(std::function<void(std::string)> callback) { death_notices::on_first(std::move(callback)); }

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
    if (code != PMIX_SUCCESS) fail("PE {} could not leave the job cleanly: {}", s.rank(), PMIx_Error_string(code));
  }
}

}  // namespace gravel
