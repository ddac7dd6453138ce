// A UCX worker: one thread sends, receives and waits with it.
//
// All callbacks of the user run in progress(), on the thread that owns the worker. UCX's own callbacks only mark
// records as ready. This has two reasons. A callback of the user may then post any operation, or even end the job. And
// an endpoint's failure is known before any of its completions is delivered: UCX completes the flushes of a dead peer
// with success (1.13: ucp_ep_reqs_purge), and only later calls the error handler.
//
// A pidfd also watches each peer of the same machine, because UCX may not notice its death (process_watch.hpp).
#pragma once
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/process_watch.hpp"
#include "transport/ucx_context.hpp"
#include "transport/ucx_operation.hpp"

namespace gravel::detail {

/// One thread at a time may use a worker and everything made from it; one thread may create it and another use it. Its
/// endpoints must be destroyed before it.
class ucx_worker {
 public:
  /// Receives one active message. `header` and `data` are valid during the call only, and not aligned. May post
  /// operations. progress() rethrows what it throws.
  using am_handler = void (*)(void* context, std::span<const std::byte> header, std::span<const std::byte> data);
  using error_handler = std::function<void(const std::string& text)>;

  explicit ucx_worker(ucx_context& context);
  ~ucx_worker();
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  /// The address that a peer needs to make a ucx_endpoint to this worker.
  std::vector<std::byte> address() const;

  /// One round: sends, receives, calls handlers and `done` callbacks. Returns true if anything happened. The software
  /// puts of TCP and shared memory arrive only while their *target* calls this. Not to be called from a callback.
  bool progress();

  /// Sets the handler for messages with this id (0..65535). Set it before the peers can send. A null handler drops
  /// them.
  void on_am(unsigned id, am_handler handler, void* context);

  /// `handler` is called once for each endpoint that fails, with a text that names its peer. The endpoint's operations
  /// then complete with the error. Without a handler the text is logged as an error.
  void on_error(error_handler handler) { on_error_ = std::move(handler); }

  /// From now on peers may disconnect: failing endpoints are not reported any more. To be called once all traffic of
  /// the job is over and before the barrier after which the first process closes its endpoints.
  void expect_disconnects() { disconnects_expected_ = true; }

  /// Starts to close all endpoints of this worker, each after what was sent through it before. Then call progress()
  /// until closed(). For this the peers must call progress(), too, or have ended. Nothing can be sent any more.
  void start_closing();
  bool closed() const;

  /// Calls start_closing(), and progress() until closed() or until `limit` has passed. Returns closed(). What is left
  /// then is cut off when the endpoints are destroyed.
  bool close_endpoints(std::chrono::milliseconds limit);

  /// The largest header of an active message here (bytes; some thousands on all transports but UD).
  size_t max_header() const { return max_header_; }

  ucp_worker_h handle() const { return handle_; }

 private:
  friend class ucx_endpoint;
  struct am_slot {
    ucx_worker* worker;
    am_handler handler;
    void* context;
  };

  ucx_operation* acquire(ucx_endpoint_state* endpoint, done_callback done, void* argument);
  void release(ucx_operation* operation);
  void start(ucx_operation* operation, ucs_status_ptr_t result);
  void event(ucx_operation* operation, ucs_status_t status);
  void flush_puts(ucx_endpoint_state& endpoint, done_callback done, void* argument);
  void complete_all(ucx_endpoint_state& endpoint, ucs_status_t status);
  void mark_failed(ucx_endpoint_state& endpoint, ucs_status_t status, const char* reason = nullptr);
  void watch_peers();
  bool report_failures();
  bool deliver();
  template <class F>
  void guarded(F&& code);

  static void completed(void* request, ucs_status_t status, void* operation);
  static ucs_status_t received(void* slot, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                               const ucp_am_recv_param_t* param);

  ucp_worker_h handle_ = nullptr;
  size_t max_header_ = 0;
  bool in_progress_ = false;
  bool disconnects_expected_ = false;
  error_handler on_error_;
  std::exception_ptr thrown_;  ///< the first exception of the user's code in this round; UCX cannot be unwound
  std::map<unsigned, am_slot> am_slots_;
  std::deque<ucx_operation> operations_;  ///< all records ever made; freed after UCX's worker
  uint64_t begun_ = 0;                    ///< operations begun so far
  std::vector<ucx_operation*> free_, ready_, delivering_;
  std::vector<ucx_endpoint_state*> endpoints_;
  std::vector<ucx_endpoint_state*> dirty_;  ///< with puts that no flush covers yet
  std::vector<ucx_endpoint_state*> flushing_;
  std::vector<ucx_endpoint_state*> failed_;  ///< failed, not yet reported
  process_watch peers_;                      ///< of this machine
  std::chrono::steady_clock::time_point watched_;
  std::vector<ucp_rkey_h> retired_keys_;  ///< of destroyed endpoints; requests inside UCX may still point to them
};

}  // namespace gravel::detail
