#include "transport/ucx_worker.hpp"

#include <algorithm>

#include "lib/base/log.hpp"
#include "lib/base/relax.hpp"
#include "transport/ucx_endpoint.hpp"
#include "transport/ucx_quirks.hpp"
#include "transport/ucx_wire.hpp"

namespace gravel::detail {

ucx_worker::ucx_worker(ucx_context& context) {
  const no_end_meanwhile guard;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucx_check(ucp_worker_create(context.handle(), &params, &handle_), "UCX: cannot create a worker");
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  ucx_check(ucp_worker_query(handle_, &attributes), "UCX: cannot query a worker");
  max_header_ = attributes.max_am_header;
}

ucx_worker::~ucx_worker() {
  for (auto& [id, slot] : am_slots_) slot.handler = nullptr;
  for (ucp_rkey_h key : retired_keys_) ucp_rkey_destroy(key);
  ucp_worker_destroy(handle_);  // may call back for records still inside UCX, which are freed after this
}

std::vector<std::byte> ucx_worker::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  ucx_check(ucp_worker_get_address(handle_, &address, &bytes), "UCX: cannot get a worker's address");
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  const ucx_address packed{ucx_release(), this_process(), {first, first + bytes}};
  ucp_worker_release_address(handle_, address);
  return to_wire(packed);
}

bool ucx_worker::progress() {
  if (in_progress_) fail("ucx_worker::progress() called from one of its own callbacks");
  in_progress_ = true;
  // One flush covers all puts that an endpoint posted since the last round.
  flushing_.swap(dirty_);
  for (ucx_endpoint_state* endpoint : flushing_) {
    endpoint->listed_dirty = false;
    if (!endpoint->unflushed.empty()) flush_puts(*endpoint, nullptr, nullptr);
  }
  flushing_.clear();
  bool moved = ucp_worker_progress(handle_) > 0;
  watch_peers();
  moved |= report_failures();
  moved |= deliver();
  in_progress_ = false;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return moved;
}

/// Runs code of the user where an exception must wait until the end of progress().
template <class F>
void ucx_worker::guarded(F&& code) {
  try {
    code();
  } catch (...) {
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void ucx_worker::on_am(unsigned id, am_handler handler, void* context) {
  if (id > 0xffff) fail("UCX: active message id {} is above 65535", id);
  am_slot& slot = am_slots_[id] = {this, handler, context};  // a map's elements do not move
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = received;
  params.arg = &slot;
  ucx_check(ucp_worker_set_am_recv_handler(handle_, &params), "UCX: cannot set the handler of active message {}", id);
}

ucs_status_t ucx_worker::received(void* slot_address, const void* header, size_t header_bytes, void* data,
                                  size_t data_bytes, const ucp_am_recv_param_t* param) {
  const am_slot& slot = *static_cast<am_slot*>(slot_address);
  if (!slot.handler) return UCS_OK;
  slot.worker->guarded([&] {
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)  // send_am always requests the eager protocol
      fail("UCX: an active message of {} bytes came by rendezvous; its sender is not Gravel", data_bytes);
    slot.handler(slot.context, {static_cast<const std::byte*>(header), header_bytes},
                 {static_cast<const std::byte*>(data), data_bytes});
  });
  return UCS_OK;
}

ucx_operation* ucx_worker::acquire(ucx_endpoint_state* endpoint, done_callback done, void* argument) {
  if (free_.empty()) free_.push_back(&operations_.emplace_back());
  ucx_operation* operation = free_.back();
  free_.pop_back();
  operation->worker = this;
  operation->endpoint = endpoint;
  operation->done = done;
  operation->argument = argument;
  operation->status = UCS_OK;
  operation->waits = 1;
  operation->number = ++begun_;
  return operation;
}

void ucx_worker::release(ucx_operation* operation) {
  operation->endpoint = nullptr;
  free_.push_back(operation);
}

/// Handles the result of a ucp_..._nbx call: UCX will call `completed` only if it is a request.
void ucx_worker::start(ucx_operation* operation, ucs_status_ptr_t result) {
  if (!UCS_PTR_IS_PTR(result)) event(operation, UCS_PTR_STATUS(result));
}

void ucx_worker::completed(void* request, ucs_status_t status, void* operation) {
  ucp_request_free(request);
  auto* record = static_cast<ucx_operation*>(operation);
  record->worker->event(record, status);
}

void ucx_worker::event(ucx_operation* operation, ucs_status_t status) {
  if (status != UCS_OK && operation->status == UCS_OK) operation->status = status;
  for (ucx_operation* put : operation->covered) event(put, status);
  operation->covered.clear();
  if (--operation->waits > 0) return;
  if (operation->endpoint) ready_.push_back(operation);
  else release(operation);
}

void ucx_worker::flush_puts(ucx_endpoint_state& endpoint, done_callback done, void* argument) {
  ucx_operation* flush = acquire(&endpoint, done, argument);
  flush->covered.swap(endpoint.unflushed);
  if (endpoint.failure != UCS_OK) return event(flush, endpoint.failure);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = completed;
  param.user_data = flush;
  start(flush, ucp_ep_flush_nbx(endpoint.handle, &param));
}

/// Ends every operation of an endpoint now, whatever UCX does with it later.
void ucx_worker::complete_all(ucx_endpoint_state& endpoint, ucs_status_t status) {
  // No flush will cover these any more; they wait only for UCX's callback.
  for (ucx_operation* put : std::exchange(endpoint.unflushed, {}))
    if (--put->waits == 0) ready_.push_back(put);
  // The records may be reused as soon as the first callback posts something. So only the calls are kept, the oldest
  // first.
  std::map<uint64_t, std::pair<done_callback, void*>> calls;
  for (ucx_operation& operation : operations_) {
    if (operation.endpoint != &endpoint) continue;
    operation.endpoint = nullptr;
    if (operation.done) calls[operation.number] = {operation.done, operation.argument};
  }
  for (const auto& [number, call] : calls) guarded([&, &then = call] { then.first(then.second, status); });
}

void ucx_worker::mark_failed(ucx_endpoint_state& endpoint, ucs_status_t status, const char* reason) {
  if (endpoint.failure != UCS_OK) return;
  endpoint.failure = status;
  endpoint.reason = reason ? reason : ucs_status_string(status);
  failed_.push_back(&endpoint);
}

void ucx_worker::watch_peers() {
  const auto now = std::chrono::steady_clock::now();
  if (now - watched_ < std::chrono::milliseconds(20)) return;
  watched_ = now;
  while (void* endpoint = peers_.ended())
    mark_failed(*static_cast<ucx_endpoint_state*>(endpoint), UCS_ERR_CONNECTION_RESET, "its process has ended");
}

bool ucx_worker::report_failures() {
  bool any = false;
  while (!failed_.empty()) {
    any = true;
    ucx_endpoint_state& endpoint = *failed_.back();
    failed_.pop_back();
    const std::string text = fmt::format("lost the connection to {}: {}", endpoint.peer, endpoint.reason);
    guarded([&] {
      if (disconnects_expected_ || endpoint.closing) log_debug("{} (expected: the job is ending)", text);
      else if (on_error_) on_error_(text);
      else log_error("{}", text);
    });
    complete_all(endpoint, endpoint.failure);
  }
  return any;
}

bool ucx_worker::deliver() {
  delivering_.clear();
  delivering_.swap(ready_);  // what callbacks post now is delivered in the next round
  for (ucx_operation* operation : delivering_) {
    ucx_endpoint_state* endpoint = operation->endpoint;
    const done_callback done = operation->done;
    void* argument = operation->argument;
    ucs_status_t status = operation->status;
    release(operation);
    if (!endpoint) continue;  // it has been completed already
    if (endpoint->failure != UCS_OK) status = endpoint->failure;
    // A failure is never silent: it fails the endpoint. So what is delivered after it, such as the notice of the puts
    // before, fails, too.
    if (status != UCS_OK) mark_failed(*endpoint, status);
    if (done) guarded([&] { done(argument, status); });
  }
  return !delivering_.empty();
}

void ucx_worker::start_closing() {
  for (ucx_endpoint_state* endpoint : endpoints_) ucx_endpoint::close(*endpoint);
}

bool ucx_worker::closed() const {
  return std::all_of(endpoints_.begin(), endpoints_.end(), [](const auto* endpoint) { return endpoint->closed; });
}

bool ucx_worker::close_endpoints(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  start_closing();
  for (relax wait; !closed() && std::chrono::steady_clock::now() < end;)
    if (progress()) wait.reset();
    else wait();
  return closed();
}

}  // namespace gravel::detail
