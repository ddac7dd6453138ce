// An endpoint: the connection from one worker to one worker of another process; and memory at its far end.
//
// Problem. The data of a packet must be visible in the target's memory before the target handles the packet's notice.
// But UCX promises no order between a put and an active message: they may take different transports, NICs and ports.
// Solution. When ucp_ep_flush_nbx completes, all earlier puts on the endpoint are in remote memory, on every transport:
//   - TCP, and shared memory (seen with UCX 1.13 and 1.16): puts are software. The target's progress() copies and
//     acknowledges each fragment, and the flush waits for that. The target must keep calling progress().
//   - CMA, where UCX uses it: the sender's kernel has copied.
//   - RC, DC, UD verbs, one or several rails: the last acknowledgement of every rail has come. What the NIC
//     acknowledged may still be on its way over PCIe. The notice then follows it on the same bus. (With rails on
//     several NICs this last step relies on the round trip that lies between.)
//
// So `done` of a put is called only after a flush that was posted behind the put, and the notice is sent from there.
// Puts posted between two rounds of progress() share one flush. Several flushes may be under way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transport/ucx_memory.hpp"
#include "transport/ucx_worker.hpp"

namespace gravel::detail {

class ucx_endpoint;

/// What `done` of a put reports: that the bytes have arrived (there), or only that they have been read here (read).
enum class put_end { there, read };

/// Memory registered by the peer of one endpoint, for puts through that endpoint. A plain value, usable as long as the
/// endpoint exists.
class ucx_remote_memory {
 public:
  ucx_remote_memory() = default;  ///< no memory; to be assigned
  /// `packed_key`: ucx_memory::packed_key() of the peer. Throws gravel::error if it is damaged or not usable here.
  ucx_remote_memory(ucx_endpoint& endpoint, std::span<const std::byte> packed_key);

  uint64_t address() const { return address_; }  ///< first byte, in the peer's address space
  uint64_t bytes() const { return bytes_; }

 private:
  friend class ucx_endpoint;
  ucx_endpoint_state* endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  uint64_t address_ = 0;
  uint64_t bytes_ = 0;
};

/// An endpoint. All its functions are non-blocking, belong to the worker's thread, and may be called from callbacks.
/// Callbacks come from ucx_worker::progress() only, each exactly once: with an error if the endpoint fails, and from
/// the destructor with UCS_ERR_CANCELED for operations that are still pending then. An endpoint must not be moved from
/// or destroyed in a callback.
///
/// After a failure UCX may still read memory that was being sent: keep it mapped until the worker is destroyed.
class ucx_endpoint {
 public:
  /// `address`: ucx_worker::address() of the peer. `peer`: named in errors, e.g. "aggregator of node 3". Throws
  /// gravel::error if the address is damaged or no transport in UCX_TLS leads there.
  ucx_endpoint(ucx_worker& worker, std::span<const std::byte> address, std::string peer);
  /// Never waits: operations that are pending are cut off. See ucx_worker::close_endpoints.
  ~ucx_endpoint();
  ucx_endpoint(ucx_endpoint&&) noexcept = default;
  ucx_endpoint& operator=(ucx_endpoint&&) = delete;

  /// Copies `bytes` at `local`, inside `local_memory`, to `remote_address`, inside `remote_memory`. Calls `done` (or
  /// null) once the data is visible there and `local` may be reused. With put_end::read it calls `done` as soon as
  /// `local` may be reused. If that is so at once, put() returns true instead and does not call `done`. Throws
  /// gravel::error if a range is exceeded.
  bool put(const void* local, size_t bytes, const ucx_memory& local_memory, uint64_t remote_address,
           const ucx_remote_memory& remote_memory, done_callback done, void* argument, put_end end = put_end::there);

  /// Sends an active message, always eagerly (meant for up to 64 KiB; more works, but the receiver copies it). The
  /// header, up to ucx_worker::max_header(), may be reused at once. The data may be reused at once, too, if `done` is
  /// null. Otherwise it must stay until `done`, which reports that the data was sent, not that it has arrived. Messages
  /// of one endpoint are handled in the order of sending if they fit one fragment (about 8 KiB). A longer one is
  /// handled when its last fragment has come.
  void send_am(unsigned id, std::span<const std::byte> header, std::span<const std::byte> data, done_callback done,
               void* argument);

  /// True from the moment at which progress() found that the peer has gone. Nothing can be sent any more.
  bool failed() const { return state_->failure != UCS_OK; }

  /// False if the peer is not on this machine and no transport in use reports its death.
  bool notices_death() const { return state_->notices_death; }

  /// True over TCP. There a put is software that acknowledges every 8 KiB, so a packet of up to 64 KiB is faster inside
  /// an active message, even with the receiver's copy (docs/measurements/cpu.md).
  bool prefers_messages() const { return state_->prefers_messages; }

  const std::string& peer() const { return state_->peer; }

  /// The transports that UCX chose, in UCX's words.
  std::string describe() const;

 private:
  friend class ucx_worker;
  friend class ucx_remote_memory;
  static void close(ucx_endpoint_state& state);
  static void flushed_for_close(void* state, ucs_status_t status);
  static void cut_off(ucx_endpoint_state& state);
  void check_open(const char* what) const;

  struct deleter {
    void operator()(ucx_endpoint_state* state) const;
  };
  std::unique_ptr<ucx_endpoint_state, deleter> state_;
};

}  // namespace gravel::detail
