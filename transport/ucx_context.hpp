// The one UCX context of a process: it determines the transports, and all workers and registrations belong to it.
#pragma once
#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"

namespace gravel::detail {

/// Throws gravel::error "<what>: <text of status>" unless `status` is UCS_OK.
template <class... Args>
void ucx_check(ucs_status_t status, fmt::format_string<Args...> what, Args&&... args) {
  if (status != UCS_OK) fail("{}: {}", fmt::format(what, std::forward<Args>(args)...), ucs_status_string(status));
}

/// A UCX context. It respects every UCX_* variable of the environment (UCX_TLS, UCX_NET_DEVICES, ...). Where the
/// environment sets none, it changes three of UCX's defaults:
///   - UCX_KEEPALIVE_INTERVAL=2s: a dead peer is noticed within seconds, not after UCX's 20.
///   - UCX_MM_ERROR_HANDLING=y: endpoints that report a peer's death may use shared memory. Without it UCX 1.13 sends
///     over TCP even between processes of one machine, or finds no transport with UCX_TLS=posix.
///   - UCX_TLS=^sysv: a process that is killed leaves System V segments behind. UCX_TLS=^sysv,tcp if all peers are on
///     this host: UCX listens for TCP on all networks, and takes what arrives there for a peer's.
///
/// May be used by all threads. Must outlive its workers and registrations. Throws gravel::error.
class ucx_context {
 public:
  /// `workers`: the number of ucx_worker objects, each used by a thread of its own. `peers`: endpoints per worker (a
  /// hint, by which UCX chooses transports that scale). `name`: shown in UCX's log lines. `one_host`: all peers are on
  /// this host.
  explicit ucx_context(unsigned workers, size_t peers = 1, const std::string& name = "gravel", bool one_host = false);
  ~ucx_context();
  ucx_context(const ucx_context&) = delete;
  ucx_context& operator=(const ucx_context&) = delete;

  ucp_context_h handle() const { return handle_; }

 private:
  ucp_context_h handle_ = nullptr;
};

/// The version of the UCX library that this process runs, as "1.13.1".
std::string ucx_version();

/// The transports that UCX can use on this machine, as "tcp/eth0" (transport/device); UCX_TLS is not applied. Throws
/// gravel::error.
std::vector<std::string> ucx_transports();

}  // namespace gravel::detail
