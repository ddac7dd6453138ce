// Sending tasks: gravel_task_put.
//
// All calls of this file:
// @param queue from gravel_task_queue::handle() or host_handle()
// @param t the gravel_task_t that the running task received
// @param pe 0 to gravel_n_pes(g) - 1
// @param target symmetric address that the task gets
// @param payload memory of the sender and its size, which may be used again on return, and, if it goes into a
//   registered buffer, the place there
// @param done signal at `pe` that rises by 1 when the task has ended; {}: none
// @param arguments of the task, trivially copyable
// @param start how the task is started, instead of how its shape says
// @completion on return the put has left; the task has ended when `done` has risen, or at gravel_task_queue::wait()
// @errors a closed queue, a PE out of range, a payload that is too large, for its queue or for the registered buffer, a
// task that the queue does not know: the job ends with a message
// @source XTQ (SC 2016)
#pragma once
#include "lib/remote_task/task_order.cuh"

namespace gravel::detail {

/// Sends a command to `pe`, which is in range, for a caller that may wait. Thread scope: the team.
GRAVEL_BOTH void send_order(const gravel_task_handle& q, const copy_team& team, const task_order& o, uint32_t pe) {
  const uint32_t ring = ring_to_pe(q, pe);
  slot_claim claim{};
  if (team.is_leader()) claim = take_ticket(q, pe);  // in flight while the team synchronizes
  open_order<true> order(q, o, pe);
  team.sync();  // the threads of the team have written the payload
  const auto send = [&](const copy_team& writers) {
    order.prepare(writers, q.fenced);
    if (writers.is_leader()) wait_for_slot(q, ring, claim);
    const uint64_t ticket = writers.from_leader(claim.ticket);
    order.send(writers, ring_from_here(q), ticket);
    if (writers.is_leader()) note_ended(q, pe, ring, ticket);
  };
  if (!o.is_small() || team.is_warp() || team.size() <= 32) send(team);
  else if (team.rank() < 32) send(team.first_warp());  // enough for a few words
  team.sync();                                         // the payload may be used again
}

/// Sends a command from a task, which never waits. Returns true if the command was sent, or, if `keeps`, waits in the
/// own ring for room at `pe`.
__host__ __device__ GRAVEL_NOINLINE inline bool send_from_task(const gravel_task_handle& q, const copy_team& team,
                                                               const task_order& o, uint32_t pe, bool keeps) {
  constexpr uint64_t kept_bit = uint64_t{1} << 63;
  open_order<false> order(q, o, pe);
  uint64_t ticket = 0;
  if (team.is_leader()) {
    bool kept = false;
    ticket = claim_without_waiting(q, pe, keeps, static_cast<uint32_t>(o.words[task_words::names] >> 32), &kept);
    if (kept) ticket |= kept_bit;
  }
  ticket = team.from_leader(ticket);
  team.sync();  // the threads of the team have written the payload
  if (ticket == no_ticket) return false;
  const bool kept = (ticket & kept_bit) != 0;
  if (kept) order.keep_here();
  order.prepare(team, true);
  order.send(team, kept ? own_ring(q) : ring_from_here(q), ticket & ~kept_bit);
  team.sync();  // the payload may be used again
  return true;
}

/// Returns whether tasks may use memory at this offset of a heap.
GRAVEL_BOTH bool is_for_tasks(const gravel_task_handle& q, uint64_t offset, uint64_t bytes) {
  return lies_in_heap(offset, bytes, q.g.heap_bytes) && !q.memory.contains(offset) &&
         (bytes == 0 || !q.memory.contains(offset + bytes - 1));
}
/// Returns whether the buffer, as its handle says, has room for so many bytes.
GRAVEL_BOTH bool fits_buffer(const gravel_task_handle& q, const gravel_task_buffer& into, uint64_t bytes) {
  return into.number <= buffer_place::most_buffers && bytes <= buffer_place::most_bytes && into.has_room(bytes) &&
         is_for_tasks(q, into.offset + into.first, bytes);
}
/// The sizes and places of an order, for its checks.
struct order_places {
  uint64_t target, signal;
  int pe, signal_pe;
  uint64_t bytes;  ///< of the payload
  gravel_task_buffer into;
  uint64_t step_bytes;
  bool is_step;  ///< of a chain: another PE will send it
};
/// Returns whether the payload needs room in a slot. What a task sends may have to wait in the own ring.
GRAVEL_BOTH bool needs_slot(const gravel_task_handle& q, const order_places& o) {
  return o.into.number == 0 || (q.in_worker && !o.is_step && !mapped_heap(q.g, o.pe));
}
/// Checks an order. Reports a fault once for the team, and returns false.
GRAVEL_BOTH bool check_order(const gravel_task_handle& q, const copy_team& team, uint32_t id, const order_places& o) {
  check_handle_everywhere(q.g, op::none);
  const uint32_t n = q.g.n_pes, pe = static_cast<uint32_t>(o.pe), signal_pe = static_cast<uint32_t>(o.signal_pe);
  const bool bad_target = o.target != task_words::none && !is_for_tasks(q, o.target, 1),
             bad_signal = o.signal != task_words::none && (o.signal % 8 != 0 || !is_for_tasks(q, o.signal, 8));
  message_fault fault = message_fault::fine;
  uint64_t what = 0, limit = 0;
  uint32_t where = q.g.my_pe;
  if (pe >= n || signal_pe >= n) {
    fault = message_fault::task_pe;
    what = pe >= n ? pe : signal_pe;
    limit = n;
  } else if (const uint64_t staged = o.step_bytes + (needs_slot(q, o) ? o.bytes : 0);
             staged > q.memory.shape.payload_bytes) {
    fault = message_fault::task_payload;
    what = staged;
    limit = q.memory.shape.payload_bytes;
  } else if (bad_target || bad_signal) {
    fault = message_fault::task_address;
    what = bad_target ? o.target : o.signal;
    limit = q.g.heap_bytes;
  } else if (o.into.number != 0 && !fits_buffer(q, o.into, o.bytes)) {
    fault = message_fault::task_into;
    what = o.into.first;
    limit = o.bytes;
    where = o.into.number;
  }
  if (fault == message_fault::fine) return true;
  if (team.is_leader()) report_error(q.g, fault, op::none, where, what, limit, id);
  return false;
}

GRAVEL_BOTH uint64_t offset_in_heap(const gravel_t& g, const void* address) {
  return address ? static_cast<uint64_t>(static_cast<const char*>(address) - g.heap) : task_words::none;
}

/// The start of a task that the caller has not fixed.
template <class Task>
GRAVEL_BOTH constexpr task_start start_of(task_start wanted) {
  return task_check<Task>::on_host || wanted == task_start::shaped ? task_check<Task>::start : wanted;
}

/// Fills an order. Returns false, and reports why, if it is invalid. Thread scope: the team.
template <class Task, class... A>
GRAVEL_BOTH bool make_order(task_order& o, const gravel_task_handle& q, const copy_team& team, task_start start, int pe,
                            typename task_check<Task>::call::target* target, const gravel_payload& payload,
                            const gravel_signal& done, const A&... arguments) {
  using call = typename task_check<Task>::call;
  static_assert(task_check<Task>::good);
  static_assert(call::template takes<A...>, "gravel_task_put: the task takes another number of arguments");
  check_open(q.g, q.opening, "gravel_task_put", "the task queue", "");
  constexpr uint32_t id = handler_id<Task>::value;
  const uint64_t to = offset_in_heap(q.g, target), signal = done.offset;
  const int signal_pe = done.pe < 0 || signal == task_words::none ? pe : done.pe;
  if (!check_order(q, team, id, {to, signal, pe, signal_pe, payload.bytes(), payload.into, 0, false})) return false;
  start = start_of<Task>(start);
  for (uint32_t i = 0; i < task_words::all; ++i) o.words[i] = 0;
  o.words[task_words::place] = payload.into.number ? buffer_place::make(payload.into.number, payload.into.first) : 0;
  o.words[task_words::names] = uint64_t{id} << 32 | q.g.my_pe;
  o.words[task_words::sizes] = payload.bytes() << 32 | uint64_t{static_cast<uint8_t>(start)} << 16 | call::words;
  o.words[task_words::target] = to;
  o.words[task_words::signal] = signal;
  o.words[task_words::places] = static_cast<uint64_t>(signal_pe) << 16 | static_cast<uint32_t>(pe);
  call::pack(o.words + task_words::arguments, arguments...);
  o.n_words = task_words::arguments + call::words;
  o.payload = payload;
  o.steps = nullptr;
  o.step_words = 0;
  o.blocks = task_check<Task>::shape.blocks;
  o.start = start;
  return true;
}
template <class Task, class... A>
GRAVEL_BOTH void put_task(const gravel_task_handle& q, const copy_team& team, task_start start, int pe,
                          typename task_check<Task>::call::target* target, const gravel_payload& payload,
                          const gravel_signal& done, const A&... arguments) {
  if (!enter_team(q.g, team.is_warp() ? team_call::task_put_warp : team_call::task_put, team, pe, target,
                  payload.bytes(), done.offset))
    return;
  task_order o;
  if (make_order<Task>(o, q, team, start, pe, target, payload, done, arguments...))
    send_order(q, team, o, static_cast<uint32_t>(pe));
}

}  // namespace gravel::detail

/// Puts a payload to `pe`, and starts a task with it there.
/// @scope block: every thread, with the same arguments; a host thread
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put(const gravel_task_handle& queue, int pe,
                                 typename gravel::detail::task_check<Task>::call::target* target,
                                 const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::detail::put_task<Task>(queue, gravel::detail::copy_team::block(queue.g), gravel::detail::task_start::shaped,
                                 pe, target, payload, done, arguments...);
}
/// Puts a payload to `pe`, and starts a task with it there, as `start` says.
/// @scope block: every thread, with the same arguments; a host thread
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put_as(gravel::detail::task_start start, const gravel_task_handle& queue, int pe,
                                    typename gravel::detail::task_check<Task>::call::target* target,
                                    const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::detail::put_task<Task>(queue, gravel::detail::copy_team::block(queue.g), start, pe, target, payload, done,
                                 arguments...);
}
/// Puts a payload to `pe`, and starts a task with it there.
/// @scope warp, converged, with the same arguments; a host thread
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put_warp(const gravel_task_handle& queue, int pe,
                                      typename gravel::detail::task_check<Task>::call::target* target,
                                      const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::detail::put_task<Task>(queue, gravel::detail::copy_team::warp(queue.g, ~0u),
                                 gravel::detail::task_start::shaped, pe, target, payload, done, arguments...);
}
/// Puts a payload to `pe` from a running task, and starts a task with it there.
/// @scope all threads of the task's block
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put(const gravel_task_t& t, int pe,
                                 typename gravel::detail::task_check<Task>::call::target* target,
                                 const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  if (!gravel::detail::enter_team(t.queue.g, gravel::detail::team_call::task_put_in_task, t.team, pe, target,
                                  payload.bytes(), done.offset))
    return;
  gravel::detail::task_order o;
  if (gravel::detail::make_order<Task>(o, t.queue, t.team, gravel::detail::task_start::shaped, pe, target, payload,
                                       done, arguments...))
    gravel::detail::send_from_task(t.queue, t.team, o, static_cast<uint32_t>(pe), true);
}
