#include "transport/pmix_bootstrap.hpp"

#include <pmix.h>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "transport/pmix_info.hpp"
#include "transport/pmix_wait.hpp"

namespace gravel::detail {
namespace {

std::string fence_key(uint64_t number) { return "gravel." + std::to_string(number); }

}  // namespace

pmix_bootstrap::pmix_bootstrap() : pmix_bootstrap(join_launcher(current_settings().connect_timeout_s)) {}
pmix_bootstrap::pmix_bootstrap(launched_job job) : bootstrap(std::move(job.place)), name_(std::move(job.name)) {
  death_notices::start();
}

pmix_bootstrap::~pmix_bootstrap() {
  try {
    finalize();
  } catch (const std::exception& e) {
    log_warning("{}", e.what());
  }
}

staged_values pmix_bootstrap::values_of(uint32_t pe, uint64_t fence, std::string_view key) {
  const auto call = std::make_shared<pmix_call>();
  call->proc = process_of(name_, pe);
  call->key = fence_key(fence);
  const auto outcome = wait_for_pmix(call, current_settings().connect_timeout_s, [&](void* cookie) {
    return PMIx_Get_nb(&call->proc, call->key.c_str(), nullptr, 0, pmix_call::value_arrived, cookie);
  });
  if (outcome == pmix_outcome::death) wait_for_root_cause();
  const auto why = [&]() -> std::string {
    if (outcome == pmix_outcome::death) return death_notices::first();
    if (outcome == pmix_outcome::timeout) return "the launcher does not answer";
    return PMIx_Error_string(*call->status);
  };
  if (outcome != pmix_outcome::answered || call->status != PMIX_SUCCESS)
    fail("cannot get '{}' of PE {}: {}", key, pe, why());
  return from_wire<staged_values>(call->value, fmt::format("PE {}", pe));
}

void pmix_bootstrap::exchange(uint64_t fence, const staged_values& mine) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_BYTE_OBJECT;
  std::vector<std::byte> packed = to_wire(mine);                 // never empty: PMIx refuses empty values
  value.data.bo.bytes = reinterpret_cast<char*>(packed.data());  // PMIx copies
  value.data.bo.size = packed.size();
  pmix_status_t code = PMIx_Put(PMIX_GLOBAL, fence_key(fence).c_str(), &value);
  if (code == PMIX_SUCCESS) code = PMIx_Commit();
  if (code != PMIX_SUCCESS)
    fail("PE {} cannot hand {} bytes to the launcher: {}", rank(), packed.size(), PMIx_Error_string(code));
  wait_for_all();
}

void pmix_bootstrap::wait_for_all() {
  ++waits_;
  const auto call = std::make_shared<pmix_call>();
  call->proc = process_of(name_, PMIX_RANK_WILDCARD);
  call->options.add(PMIX_COLLECT_DATA, true);
  const uint64_t limit = current_settings().connect_timeout_s;
  const auto outcome = wait_for_pmix(call, limit, [&](void* cookie) {
    return PMIx_Fence_nb(&call->proc, 1, call->options.data(), call->options.size(), pmix_call::operation_done, cookie);
  });
  if (outcome == pmix_outcome::timeout)
    fail(
        "not all {} PEs came to fence {} of the job within {} s. Check that every PE runs the same program with the "
        "same arguments, that none is stopped or waits for input, and that all could start; GRAVEL_CONNECT_TIMEOUT_S "
        "sets the limit",
        size(), waits_, limit);
  if (outcome == pmix_outcome::answered && call->status == PMIX_SUCCESS) return;
  wait_for_root_cause();
  if (outcome == pmix_outcome::death) fail("fence {} of the job cannot complete: {}", waits_, death_notices::first());
  // PMIx reports "partial success" if the fence completed without a PE that has died.
  fail("fence {} of the job failed: a PE has died or left the job ({})", waits_, PMIx_Error_string(*call->status));
}

void pmix_bootstrap::on_abort(std::function<void(std::string)> callback) {
  death_notices::on_first(std::move(callback));
}

void pmix_bootstrap::finalize() {
  if (finalized_) return;
  finalized_ = true;
  death_notices::stop();
  pmix_info_list options;
  options.add(PMIX_EMBED_BARRIER, false);
  const pmix_status_t code = PMIx_Finalize(options.data(), options.size());
  if (code != PMIX_SUCCESS) fail("PE {} could not leave the job cleanly: {}", rank(), PMIx_Error_string(code));
}

}  // namespace gravel::detail
