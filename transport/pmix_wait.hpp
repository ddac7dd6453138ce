// Waits for PMIx. PMIx completes its asynchronous calls on a thread of its own. The functions here wait for the
// completion with a time limit. Every wait ends at once when the launcher reports that a PE is dead, so no wait for a
// dead PE hangs.
#pragma once
#include <pmix.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/pmix_info.hpp"

namespace gravel::detail {

/// One asynchronous call. Shared with PMIx's thread, since the caller may stop waiting before the call completes.
struct pmix_call {
  // The arguments of the call. PMIx reads them on its own thread until the call completes.
  pmix_proc_t proc{};
  std::string key;
  pmix_info_list options;
  // The result, to be read after the call has completed.
  std::optional<pmix_status_t> status;
  std::vector<std::byte> value;  ///< the byte object that arrived

  /// The callbacks to pass to PMIx.
  static void operation_done(pmix_status_t status, void* cookie);
  static void value_arrived(pmix_status_t status, pmix_value_t* value, void* cookie);
};

enum class pmix_outcome { answered, timeout, death };
/// Makes a call and waits until it completes. `begin` makes the call, with its argument as PMIx's callback data, and
/// returns PMIx's immediate result.
pmix_outcome wait_for_pmix(const std::shared_ptr<pmix_call>& call, uint64_t seconds,
                           const std::function<pmix_status_t(void*)>& begin);

/// Reports of deaths, from start() until stop(). May be called by any thread.
namespace death_notices {

/// Subscribes to the launcher's reports. If there will be none, GRAVEL_LOG=info shows a line that says so.
void start();
/// Ignores reports from now on, because this process is leaving the job.
void stop();
/// The first report, as a sentence for the user; empty if there was none.
std::string first();
/// Calls `callback` once with the first report; at once if it has come already.
void on_first(std::function<void(std::string)> callback);

}  // namespace death_notices
}  // namespace gravel::detail
