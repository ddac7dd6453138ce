#include "transport/pmix_wait.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>

#include "lib/base/log.hpp"

namespace gravel::detail {
namespace {

/// What PMIx's thread reports to the others. Never destroyed, since PMIx may call until the process ends.
struct notices {
  std::mutex mutex;  ///< also protects the results of calls
  std::condition_variable changed;
  std::optional<size_t> handler;  ///< PMIx's reference of event_arrived()
  bool leaving = false;
  std::string death;
  std::function<void(std::string)> callback;
};
notices& the_notices() {
  static auto* instance = new notices;
  return *instance;
}

std::string describe_death(pmix_status_t code, const pmix_proc_t* source, pmix_info_t* info, size_t n_info) {
  if (code == PMIX_ERR_LOST_CONNECTION) return "the connection to the launcher is lost: it was killed or it crashed";
  const pmix_proc_t* who = source;
  for (size_t i = 0; i < n_info; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC)
      who = info[i].value.data.proc;
    if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_TEXT_MESSAGE) && info[i].value.type == PMIX_STRING)
      return info[i].value.data.string;
  }
  if (who && PMIX_RANK_IS_VALID(who->rank))
    return fmt::format("PE {} died or left the job ({})", who->rank, PMIx_Error_string(code));
  return fmt::format("a PE died or left the job ({})", PMIx_Error_string(code));
}

void note_death(std::string text) {
  auto& shared = the_notices();
  std::function<void(std::string)> callback;
  {
    std::lock_guard lock(shared.mutex);
    if (shared.leaving || !shared.death.empty()) return;
    shared.death = text;
    callback = shared.callback;
    shared.changed.notify_all();
  }
  if (callback) callback(std::move(text));
}

/// `cookie`: the one that wait_for_pmix() passed to the call.
void complete(void* cookie, pmix_status_t status, std::vector<std::byte> value) {
  const std::unique_ptr<std::shared_ptr<pmix_call>> call(static_cast<std::shared_ptr<pmix_call>*>(cookie));
  std::lock_guard lock(the_notices().mutex);
  (*call)->value = std::move(value);
  (*call)->status = status;
  the_notices().changed.notify_all();
}

void event_arrived(size_t, pmix_status_t code, const pmix_proc_t* source, pmix_info_t info[], size_t n_info,
                   pmix_info_t*, size_t, pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  const std::string text = describe_death(code, source, info, n_info);
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
  note_death(text);
}

}  // namespace

void pmix_call::operation_done(pmix_status_t status, void* cookie) { complete(cookie, status, {}); }

void pmix_call::value_arrived(pmix_status_t status, pmix_value_t* value, void* cookie) {
  std::vector<std::byte> copy;
  if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT) {
    const auto* first = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    copy.assign(first, first + value->data.bo.size);
  } else if (status == PMIX_SUCCESS) {
    status = PMIX_ERR_TYPE_MISMATCH;
  }
  complete(cookie, status, std::move(copy));
}

pmix_outcome wait_for_pmix(const std::shared_ptr<pmix_call>& call, uint64_t seconds,
                           const std::function<pmix_status_t(void*)>& begin) {
  auto* const cookie = new std::shared_ptr(call);
  if (const pmix_status_t code = begin(cookie); code != PMIX_SUCCESS) {
    delete cookie;  // there will be no callback
    call->status = code == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : code;
    return pmix_outcome::answered;
  }
  auto& shared = the_notices();
  std::unique_lock lock(shared.mutex);
  const bool woken = shared.changed.wait_for(lock, std::chrono::seconds(seconds),
                                             [&] { return call->status || !shared.death.empty(); });
  if (call->status == PMIX_SUCCESS) return pmix_outcome::answered;
  if (!shared.death.empty()) return pmix_outcome::death;  // says more than the failed call's status
  return woken ? pmix_outcome::answered : pmix_outcome::timeout;
}

void death_notices::start() {
  pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED,       PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_TERM_WO_SYNC,
                           PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_PROC_ABORTED_BY_SIG,  PMIX_ERR_EXIT_NONZERO_TERM,
                           PMIX_ERR_LOST_CONNECTION,    PMIX_EVENT_NODE_DOWN};
  const pmix_status_t code =
      PMIx_Register_event_handler(codes, std::size(codes), nullptr, 0, event_arrived, nullptr, nullptr);
  // Slurm's launcher does not report deaths. Aggregators see the ends of their PEs anyway, and srun ends the others.
  if (code < 0) log_info("the launcher does not report the death of PEs ({})", PMIx_Error_string(code));
  else the_notices().handler = static_cast<size_t>(code);
}

void death_notices::stop() {
  std::optional<size_t> handler;
  {
    std::lock_guard lock(the_notices().mutex);
    the_notices().leaving = true;
    the_notices().callback = nullptr;
    handler = the_notices().handler;
  }
  if (handler) PMIx_Deregister_event_handler(*handler, nullptr, nullptr);
}

std::string death_notices::first() {
  std::lock_guard lock(the_notices().mutex);
  return the_notices().death;
}

void death_notices::on_first(std::function<void(std::string)> callback) {
  std::string death;
  {
    std::lock_guard lock(the_notices().mutex);
    the_notices().callback = callback;
    death = the_notices().death;
  }
  if (!death.empty() && callback) callback(death);
}

}  // namespace gravel::detail
