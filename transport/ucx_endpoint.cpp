#include "transport/ucx_endpoint.hpp"

#include <cstdlib>
#include <utility>

#include "lib/base/log.hpp"
#include "transport/ucx_quirks.hpp"
#include "transport/ucx_wire.hpp"

namespace gravel::detail {
ucx_endpoint::ucx_endpoint(ucx_worker& worker, std::span<const std::byte> address, std::string peer) {
  const ucx_address theirs = read_of_ucx<ucx_address>(address, peer);
  auto state = std::make_unique<ucx_endpoint_state>();
  state->worker = &worker;
  state->peer = std::move(peer);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(theirs.packed.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = state.get();
  params.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
    auto* failing = static_cast<ucx_endpoint_state*>(argument);
    failing->worker->mark_failed(*failing, status);
  };
  ucs_status_t status = ucp_ep_create(worker.handle(), &params, &state->handle);
  state->by_force = state->notices_death = status == UCS_OK;
  if (status == UCS_ERR_UNREACHABLE) {
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    status = ucp_ep_create(worker.handle(), &params, &state->handle);
  }
  const char* transports = std::getenv("UCX_TLS");
  ucx_check(status, "UCX: cannot connect to {} (UCX_TLS={})", state->peer, transports ? transports : "not set");
  worker.endpoints_.push_back(state.get());
  state_.reset(state.release());
  if (worker.peers_.add(theirs.process, state_.get())) state_->notices_death = true;
  const std::string description = describe();
  state_->prefers_messages = seen_in(description, sends_messages_over_tcp, false);
  log_debug("endpoint to {}:\n{}", state_->peer, description);
  if (!state_->notices_death)
    log_warning("no transport that UCX may use to reach {} reports its death; widen UCX_TLS", state_->peer);
}

ucx_endpoint::~ucx_endpoint() = default;

void ucx_endpoint::deleter::operator()(ucx_endpoint_state* state) const {
  ucx_worker& worker = *state->worker;
  cut_off(*state);
  for (auto* list : {&worker.endpoints_, &worker.dirty_, &worker.failed_}) std::erase(*list, state);
  worker.peers_.remove(state);
  worker.complete_all(*state, UCS_ERR_CANCELED);
  worker.retired_keys_.insert(worker.retired_keys_.end(), state->keys.begin(), state->keys.end());
  delete state;
}

void ucx_endpoint::check_open(const char* what) const {
  if (state_->closing) fail("UCX: {} to {} after its endpoint was closed", what, state_->peer);
}

bool ucx_endpoint::put(const void* local, size_t bytes, const ucx_memory& local_memory, uint64_t remote_address,
                       const ucx_remote_memory& remote_memory, done_callback done, void* argument, put_end end) {
  check_open("put");
  if (!local_memory.contains(local, bytes))
    fail("UCX: put to {} of {} bytes at {}: outside the registered {} bytes at {}", state_->peer, bytes, local,
         local_memory.bytes(), local_memory.address());
  const uint64_t offset = remote_address - remote_memory.address_;  // wraps to a huge one below the memory
  if (remote_memory.endpoint_ != state_.get() || offset > remote_memory.bytes_ || bytes > remote_memory.bytes_ - offset)
    fail("UCX: put of {} bytes to {:#x} of {}: outside its {} bytes at {:#x}", bytes, remote_address, state_->peer,
         remote_memory.bytes_, remote_memory.address_);
  ucx_worker& worker = *state_->worker;
  ucx_operation* operation = worker.acquire(state_.get(), done, argument);
  if (failed()) {
    worker.event(operation, state_->failure);
    return false;
  }
  operation->waits = 2;  // UCX's callback and the flush that progress() posts
  state_->unflushed.push_back(operation);
  if (!state_->listed_dirty) {
    state_->listed_dirty = true;
    worker.dirty_.push_back(state_.get());
  }
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
  param.cb.send = ucx_worker::completed;
  param.user_data = operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.memh = local_memory.handle();
  const ucs_status_ptr_t result = ucp_put_nbx(state_->handle, local, bytes, remote_address, remote_memory.key_, &param);
  const bool is_read = end == put_end::read && UCS_PTR_STATUS(result) == UCS_OK;
  if (is_read) operation->done = nullptr;  // the record stays: the next flush covers it
  worker.start(operation, result);
  return is_read;
}

void ucx_endpoint::send_am(unsigned id, std::span<const std::byte> header, std::span<const std::byte> data,
                           done_callback done, void* argument) {
  check_open("message");
  ucx_worker& worker = *state_->worker;
  if (header.size() > worker.max_header())
    fail("UCX: message {} to {}: header of {} bytes is longer than {}", id, state_->peer, header.size(),
         worker.max_header());
  ucx_operation* operation = worker.acquire(state_.get(), done, argument);
  if (failed()) return worker.event(operation, state_->failure);
  // UCX before 1.14 reads the header until the message is complete, so it is copied in any case.
  operation->copy.assign(header.begin(), header.end());
  if (!done) {
    operation->copy.insert(operation->copy.end(), data.begin(), data.end());
    data = std::span(operation->copy).subspan(header.size());
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = ucx_worker::completed;
  param.user_data = operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t result =
      ucp_am_send_nbx(state_->handle, id, operation->copy.data(), header.size(), data.data(), data.size(), &param);
  if (!done && !result) worker.release(operation);
  else worker.start(operation, result);
}

void ucx_endpoint::close(ucx_endpoint_state& state) {
  if (state.closing) return;
  state.closing = true;
  // An orderly ucp_ep_close_nbx is no option: UCX aborts the process if its worker is destroyed before the close has
  // ended.
  state.worker->flush_puts(state, flushed_for_close, &state);
}

void ucx_endpoint::flushed_for_close(void* argument, ucs_status_t) {
  auto& state = *static_cast<ucx_endpoint_state*>(argument);
  cut_off(state);
  state.closed = true;
}

/// Returns the endpoint to UCX without a wait.
void ucx_endpoint::cut_off(ucx_endpoint_state& state) {
  if (!state.handle) return;
  ucp_request_param_t param{};
  // Only an endpoint that reports failures may be closed by force. With any other, UCX ends what is left when its
  // worker is destroyed.
  if (state.by_force) {
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  }
  const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(state.handle, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

std::string ucx_endpoint::describe() const {
  if (!state_->handle) return "closed";
  return printed(state_->handle);
}

ucx_remote_memory::ucx_remote_memory(ucx_endpoint& endpoint, std::span<const std::byte> packed_key)
    : endpoint_(endpoint.state_.get()) {
  const ucx_memory_key theirs = read_of_ucx<ucx_memory_key>(packed_key, endpoint.peer());
  endpoint.check_open("memory key");
  const dead_memory_guard guard;
  ucx_check(ucp_ep_rkey_unpack(endpoint_->handle, theirs.packed.data(), &key_), "UCX: cannot use the memory key of {}",
            endpoint.peer());
  endpoint_->keys.push_back(key_);
  address_ = theirs.address;
  bytes_ = theirs.bytes;
}

}  // namespace gravel::detail
