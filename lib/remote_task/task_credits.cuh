// Tickets and credits of a sender. A sender that has a ticket has a slot at the PE that is to run the task, as soon as
// the slot's previous task has ended [T2].
#pragma once
#include "device/watched_wait.cuh"
#include "lib/remote_task/task_types.cuh"

namespace gravel::detail {

/// The number of the ring from this sender to `pe`: at the sender (credits), and at `pe` (slots).
GRAVEL_BOTH uint32_t ring_to_pe(const gravel_task_handle& q, uint32_t pe) {
  return q.g.from == sender::host ? q.g.n_pes + pe : pe;
}
GRAVEL_BOTH uint32_t ring_from_here(const gravel_task_handle& q) {
  return q.g.from == sender::host ? q.g.n_pes + q.g.my_pe : q.g.my_pe;
}
GRAVEL_BOTH uint32_t own_ring(const gravel_task_handle& q) { return 2 * q.g.n_pes; }

/// Returns whether the previous task in the slot of `ticket` has ended. [T2]
GRAVEL_BOTH bool slot_is_free(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  const uint64_t slots = q.memory.shape.slots;
  return ticket < slots || poll_word(q.g, reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ticket))) ==
                               ticket - slots + 1;
}

/// A ticket, and the number of tasks that were known to have ended when it was taken.
struct slot_claim {
  uint64_t ended, ticket;
};
/// Takes a ticket, which the caller must use. On a GPU both loads are still in flight on return, so the caller has time
/// for other work before wait_for_slot. Thread scope: lane, or a host thread.
GRAVEL_BOTH slot_claim take_ticket(const gravel_task_handle& q, uint32_t line) {
  task_line& mine = q.tickets[line];
  slot_claim claim;
  claim.ended = load_acquire_later<scope::device>(&mine.ended);
  claim.ticket = fetch_add_alone<scope::device>(&mine.tickets, uint64_t{1});
  return claim;
}
/// Waits until the slot of the ticket is free. The caller stores nothing into the slot before that. Thread scope: as
/// take_ticket.
GRAVEL_BOTH void wait_for_slot(const gravel_task_handle& q, uint32_t ring, const slot_claim& claim) {
  if (claim.ticket < claim.ended + q.memory.shape.slots) return;
  for (watched_wait wait; !slot_is_free(q, ring, claim.ticket);)
    wait.attentively(q.g, [&] { return wait_subject{.what = awaited::task_slot, .pe = ring % q.g.n_pes}; });
}

constexpr uint64_t no_ticket = ~uint64_t{0};
/// Takes a ticket if its slot is free at once. Thread scope: lane, or a host thread.
GRAVEL_BOTH uint64_t claim_free_slot(const gravel_task_handle& q, uint32_t line, uint32_t ring) {
  task_line& mine = q.tickets[line];
  for (;;) {
    const uint64_t ticket = load_relaxed<scope::device>(&mine.tickets);
    if (!slot_is_free(q, ring, ticket)) {
      if (load_relaxed<scope::device>(&mine.tickets) == ticket) return no_ticket;
    } else if (compare_swap_acquire<scope::device>(&mine.tickets, ticket, ticket + 1)) {
      return ticket;
    }
  }
}
/// Takes a slot without waiting: at `pe`, or otherwise, if `keeps`, in the own ring. Returns no_ticket if there is
/// none. Thread scope: lane, or a task on the host.
GRAVEL_BOTH uint64_t claim_without_waiting(const gravel_task_handle& q, uint32_t pe, bool keeps, uint32_t id,
                                           bool* kept) {
  uint64_t ticket = claim_free_slot(q, pe, ring_to_pe(q, pe));
  if (ticket != no_ticket || !keeps) return ticket;
  if (q.g.from != sender::host)
    ticket = claim_free_slot(q, q.g.n_pes, own_ring(q));  // tasks on the host have no own ring
  *kept = ticket != no_ticket;
  if (!*kept) report_error(q.g, message_fault::task_room, op::none, pe, id, q.memory.shape.slots);
  return ticket;
}

/// After a put: notes which tasks have ended, a few at once, so that a later ticket need not poll. Thread scope: lane.
GRAVEL_BOTH void note_ended(const gravel_task_handle& q, uint32_t line, uint32_t ring, uint64_t ticket) {
  task_line& mine = q.tickets[line];
  const uint64_t ended = load_relaxed<scope::device>(&mine.ended);
  if (q.g.from == sender::host || ticket - ended < q.memory.shape.slots / 2) return;
  constexpr uint32_t few = 8;
  uint64_t done[few], n = 0;
  for (uint32_t i = 0; i < few; ++i)
    done[i] = load_acquire_later(reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ended + i)));
  acquire_now();
  while (n < few && ended + n < ticket && done[n] == ended + n + 1) ++n;
  if (n) raise_to<scope::device>(&mine.ended, ended + n);
}

}  // namespace gravel::detail
