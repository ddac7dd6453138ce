// Signals: words of 8 bytes that show what has arrived. gravel_put_signal sends one behind its data (bulk.cuh).
//
// A signal may count arrivals: PEs add 1 to it with GRAVEL_SIGNAL_ADD, the owner waits until it is at least as many as
// it expects, and resets it before the PEs may send again.
//
// What all calls of this file have in common.
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @source OpenSHMEM 1.5: section 9.8, signaling operations
#pragma once
#include "device/bulk.cuh"
#include "device/put.cuh"
#include "device/wait.cuh"

/// Sets a signal at `pe`, or adds to it, without data: a gravel_put or a gravel_add.
/// @param signal symmetric address of a word at `pe`, aligned to 8
/// @param value what the signal is set to, or what is added to it
/// @param how GRAVEL_SIGNAL_SET or GRAVEL_SIGNAL_ADD
/// @param pe 0 to gravel_n_pes(g) - 1
/// @scope lane, from divergent code; handlers; host threads
/// @completion gravel_quiet. It is not ordered behind earlier operations without gravel_fence
/// @errors as of gravel_put
/// @source NVSHMEM: nvshmemx_signal_op
GRAVEL_BOTH void gravel_send_signal(const gravel_t& g, uint64_t* signal, uint64_t value, gravel_signal_op how, int pe) {
  if (how == GRAVEL_SIGNAL_ADD) gravel_add(g, signal, value, pe);
  else gravel_put(g, signal, value, pe);
}
/// Reads a signal of this PE. Data that a gravel_put_signal sent before the value that is read is visible.
/// @param signal in this PE's own memory, aligned to 8
/// @return its value
/// @scope lane, from divergent code; handlers; host threads
/// @completion on return
/// @errors none are checked
GRAVEL_BOTH uint64_t gravel_signal_fetch(const gravel_t& g, const uint64_t* signal) {
  gravel::detail::check_handle_everywhere(g, "gravel_signal_fetch");
  return gravel::detail::poll_word(g, signal);
}
/// Waits until `*signal compare value` holds, as gravel_wait_until.
/// @param signal in this PE's own memory, aligned to 8
/// @param compare GRAVEL_EQ, GRAVEL_NE, GRAVEL_GT, GRAVEL_GE, GRAVEL_LT or GRAVEL_LE
/// @param value what the signal is compared with
/// @return the value that ended the wait
/// @scope lane, from divergent code, kernels of gravel_launch; host threads. Not handlers
/// @completion on return: the condition held
/// @errors a call from a handler: the job ends with a message that names the call
GRAVEL_BOTH uint64_t gravel_signal_wait_until(const gravel_t& g, const uint64_t* signal, gravel_compare compare,
                                              uint64_t value) {
  return gravel::detail::await_word(g, signal, compare, value);
}
/// Sets a signal of this PE to 0, for the next round. PEs may send to it again when they know of that, by a barrier or
/// by a signal of this PE behind a fence.
/// @param signal symmetric address in this PE's own heap, aligned to 8
/// @scope lane, from divergent code; handlers; host threads
/// @completion gravel_quiet
/// @errors as of gravel_put
/// @source NVSHMEM: nvshmemx_signal_counted_reset
GRAVEL_BOTH void gravel_signal_reset(const gravel_t& g, uint64_t* signal) {
  gravel_put(g, signal, uint64_t{0}, static_cast<int>(g.my_pe));
}
