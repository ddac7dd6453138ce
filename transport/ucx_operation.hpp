// The record of one put, active message or flush under way. Worker and endpoint share it; it is not for users.
#pragma once
#include <ucp/api/ucp.h>

#include <cstddef>
#include <string>
#include <vector>

namespace gravel::detail {

class ucx_worker;
struct ucx_endpoint_state;

/// Called once, with the result of an operation: UCS_OK, or the error (ucs_status_string returns its text).
using done_callback = void (*)(void* argument, ucs_status_t status);

/// The states of an operation: acquired -> pending (`waits` events missing) -> ready -> delivered -> free again. If its
/// endpoint fails or is destroyed, the operation is completed at once with an error and `endpoint` becomes null. The
/// record then remains only until UCX has called back, because UCX holds its address.
struct ucx_operation {
  ucx_worker* worker = nullptr;
  ucx_endpoint_state* endpoint = nullptr;
  done_callback done = nullptr;
  void* argument = nullptr;
  ucs_status_t status = UCS_OK;
  unsigned waits = 0;   ///< events that are missing: UCX's callback; for a put also the flush that covers it
  uint64_t number = 0;  ///< number among the worker's operations, in their order
  std::vector<ucx_operation*> covered;  ///< of a flush: the puts that it makes remotely complete
  std::vector<std::byte> copy;          ///< header (and data) of an active message; keeps its capacity
};

/// The part of an endpoint that UCX and the worker point to; does not move.
struct ucx_endpoint_state {
  ucx_worker* worker = nullptr;
  ucp_ep_h handle = nullptr;
  std::string peer;
  ucs_status_t failure = UCS_OK;
  const char* reason = "";  ///< of the failure, in words
  bool by_force = false;    ///< created with UCP_ERR_HANDLING_MODE_PEER: UCX lets it be closed by force
  bool notices_death = false;
  bool prefers_messages = false;
  bool closing = false;
  bool closed = false;
  bool listed_dirty = false;
  std::vector<ucx_operation*> unflushed;  ///< puts that no flush covers yet
  std::vector<ucp_rkey_h> keys;
};

}  // namespace gravel::detail
