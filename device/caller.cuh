// Checks of the caller: which calls may be made from where (docs/programming.md has the table). A call from a place
// where it is not allowed is reported and does nothing.
#pragma once
#include "device/handle.cuh"
#include "device/simt.hpp"

namespace gravel::detail {

/// Checks the handle of a call that has a name of its own, or of an operation.
GRAVEL_BOTH void check_caller(const gravel_t& g, op o, other_call call) {
  if (o == op::none) check_handle_everywhere(g, call);
  else check_handle_everywhere(g, o);
}

/// Returns true, after reporting it, if the caller is a handler. A handler that waits would wait for itself.
GRAVEL_BOTH bool forbidden_in_handler(const gravel_t& g, op o, other_call call = other_call::none,
                                      message_fault fault = message_fault::blocking_handler) {
  check_caller(g, o, call);
  if (g.from != sender::handler) return false;
  report_error(g, fault, o, g.my_pe, static_cast<uint64_t>(call), 0);
  return true;
}

/// As forbidden_in_handler(), for calls by all lanes of a block or warp. In a handler the lanes around it belong to the
/// receiver.
GRAVEL_BOTH bool team_forbidden_in_handler(const gravel_t& g, op o) {
  return forbidden_in_handler(g, o, other_call::none, message_fault::team_call_in_handler);
}

/// Returns true, after reporting it, if the caller is not a kernel.
GRAVEL_DEVICE bool forbidden_outside_kernel(const gravel_t& g, other_call call) {
  check_caller(g, op::none, call);
#if GRAVEL_CUDA
  const bool in_kernel = true;
#else
  const bool in_kernel = simt::in_kernel();
#endif
  if (in_kernel && g.from == sender::kernel) return false;
  report_error(g, g.from == sender::handler ? message_fault::team_call_in_handler : message_fault::outside_kernel,
               op::none, g.my_pe, static_cast<uint64_t>(call), 0);
  return true;
}

/// Returns true, after reporting it, if the blocks of this grid cannot wait for each other.
GRAVEL_DEVICE bool forbidden_in_plain_grid(const gravel_t& g, other_call call) {
  if (uint64_t{gridDim.x} * gridDim.y * gridDim.z == 1 || gravel_is_cooperative()) return false;
  report_error(g, message_fault::not_cooperative, op::none, g.my_pe, static_cast<uint64_t>(call), 0);
  return true;
}

}  // namespace gravel::detail
