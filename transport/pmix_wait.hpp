// Waiting for PMIx. Its asynchronous calls answer on a thread of PMIx's own; here they are waited for with a
// time limit, and every wait ends at once when the launcher reports that a PE is dead: nothing that waits for
// a dead PE hangs.
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

/// One asynchronous call. Shared with PMIx's thread, since the caller may give up waiting.
struct pmix_call {
  // What it is made with: PMIx reads it on its own thread until it answers.
  pmix_proc_t proc{};
  std::string key;
  pmix_info_list options;
  // The answer, to be read once it is here.
  std::optional<pmix_status_t> status;
  std::vector<std::byte> value;  ///< the byte object that arrived

  /// The callbacks to hand to PMIx.
  static void operation_done(pmix_status_t status, void* cookie);
  static void value_arrived(pmix_status_t status, pmix_value_t* value, void* cookie);
};

enum class pmix_outcome { answered, timeout, death };
/// `begin` makes the call, with that as callback data, and returns what PMIx says to it. Waits for the answer.
pmix_outcome wait_for_pmix(const std::shared_ptr<pmix_call>& call, uint64_t seconds,
                           const std::function<pmix_status_t(void*)>& begin);

/// Reports of deaths, from when it starts until stop(). Any thread.
namespace death_notices {

/// Asks the launcher for them; GRAVEL_LOG=info says so if there will be none.
void start();
/// From now on they are no news: this process is leaving.
void stop();
/// The first report, as a sentence for the user; empty if there was none.
std::string first();
/// `callback` is called once with the first report, at once if it has come already.
void on_first(std::function<void(std::string)> callback);

}  // namespace death_notices
}  // namespace gravel::detail
