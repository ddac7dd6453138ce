// The one UCX context of a process: which transports it uses, and what every worker and registration belongs
// to.
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

/// Every UCX_* variable of the environment (UCX_TLS, UCX_NET_DEVICES, ...) is respected. Where the
/// environment says nothing, three of UCX's defaults are changed:
/// - UCX_KEEPALIVE_INTERVAL=2s: a dead peer is noticed within seconds, not after UCX's 20;
/// - UCX_MM_ERROR_HANDLING=y: endpoints that report a peer's death may use shared memory. Without it UCX 1.13
/// sends
///   even between processes of one machine over TCP, or finds no transport with UCX_TLS=posix.
/// - UCX_TLS=^sysv, which leaves segments behind when a process is killed; and ^sysv,tcp where all peers are on
///   this host: UCX listens for TCP on all networks, and takes what comes there for a peer's.
/// May be used by all threads. Must outlive its workers and registrations. Throws gravel::error.
class ucx_context {
 public:
  /// `workers`: how many ucx_worker objects will be made, each used by a thread of its own. `peers`:
  /// endpoints per worker (a hint, by which UCX chooses transports that scale). `name`: shown in UCX's own
  /// log lines. `one_host`: all peers are on this host.
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

/// What UCX can use on this machine, as "tcp/eth0" (transport/device); UCX_TLS is not applied. Throws
/// gravel::error.
std::vector<std::string> ucx_transports();

}  // namespace gravel::detail
