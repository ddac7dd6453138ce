// Waiting for PMIx. Its asynchronous calls answer on a thread of PMIx's own; here they are waited for with a
// time limit, and every wait ends at once when the launcher reports that a PE is dead: nothing that waits for
// a dead PE hangs.
#pragma once
#include <pmix.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/pmix_info.hpp"

namespace gravel {

/// The outcome of one asynchronous call. Shared with PMIx's thread, since the caller may give up waiting.
class pmix_call {
 public:
  pmix_call();

  /// What the call is made with. It lives until the answer is here, even if the caller has given up: PMIx
  /// reads it on its own thread.
  struct arguments {
    pmix_proc_t proc{};
    std::string key;
    pmix_info_list options;
  };
  arguments& with();

  /// What to hand to PMIx as callback data. To be called once; `refused()` takes it back if PMIx did not
  /// accept the call.
  void* cookie();
  void refused();

  /// The callbacks to hand to PMIx.
  static void operation_done(pmix_status_t status, void* cookie);
  static void value_arrived(pmix_status_t status, pmix_value_t* value, void* cookie);

  enum class outcome { answered, timeout, death };
  /// Waits until the call is answered; status() and value() are valid only then.
  outcome wait(uint64_t seconds);
  pmix_status_t status() const;
  std::vector<std::byte>& value();  ///< the byte object that arrived

 private:
  struct state;
  using shared_state = std::shared_ptr<state>;
  static void complete(void* cookie, pmix_status_t status, std::vector<std::byte> value);
  shared_state state_;
  shared_state* cookie_ = nullptr;
};

/// Reports of deaths, from when it starts until stop(). Any thread.
namespace death_notices {

/// Asks the launcher for them. Returns PMIx's reference of the handler, or why there will be none.
pmix_status_t start();
/// From now on they are no news: this process is leaving.
void stop();
/// The first report, as a sentence for the user; empty if there was none.
std::string first();
/// `callback` is called once with the first report, at once if it has come already.
void on_first(std::function<void(std::string)> callback);

}  // namespace death_notices
}  // namespace gravel
