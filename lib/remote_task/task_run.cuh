// Runs a task that has arrived: reads and checks its command, runs its blocks, and ends it when the last block has
// ended.
#pragma once
#include "lib/remote_task/task_chain.cuh"

namespace gravel::detail {

GRAVEL_BOTH task_slot* slot_at(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  return reinterpret_cast<task_slot*>(q.g.heap + q.memory.slot(ring, ticket));
}
GRAVEL_BOTH void* target_of(const gravel_task_handle& q, const task_head& head) {
  return head.target == task_words::none ? nullptr : q.g.heap + head.target;
}

/// Returns whether these words are a valid command. Without branches, since a task waits for the answer.
GRAVEL_BOTH bool is_command(const gravel_task_handle& q, const task_head& head) {
  // Steps lie in the slot, and so does the payload if it goes into no buffer; a buffer is checked by find_payload.
  const uint64_t step_bytes = uint64_t{head.step_words()} * sizeof(uint64_t);
  const uint64_t most = head.place ? buffer_place::most_bytes : q.memory.shape.payload_bytes;
  bool good = head.bytes() <= most;
  good &= step_bytes + (head.place ? 0 : head.bytes()) <= q.memory.shape.payload_bytes;
  good &= head.argument_words() <= task_words::most_arguments;
  good &= head.chain_words() <= task_words::most_chain;
  good &= head.chain_words() * head.step_words() == 0;  // there are steps in one place only
  good &= head.signal_pe() < q.g.n_pes;
  good &= head.sender_pe() < q.g.n_pes;
  good &= head.pe() < q.g.n_pes;
  good &= head.counted() <= head.bytes() + step_bytes;
  good &= (head.target == task_words::none) | is_for_tasks(q, head.target, 1);
  good &= (head.signal == task_words::none) | ((head.signal % 8 == 0) & is_for_tasks(q, head.signal, 8));
  return good;
}
/// Checks a command. An invalid one is reported, with the sender that it names, and dropped. `tag`: of its slot. Thread
/// scope: the team.
GRAVEL_BOTH bool check_task(const gravel_task_handle& q, const copy_team& team, const task_head& head, uint64_t tag) {
  const bool good = is_command(q, head);
  if (!good && team.is_leader())
    report_error(q.g, message_fault::task_words, op::none, head.sender_pe(), head.id(), task_tag::words(tag));
  return good;
}

/// Returns the payload of a task in this slot: in the words, in the slot, or in a buffer of this PE's table. Returns
/// nullptr, and reports it, if the command names a place in no buffer. Thread scope: the team.
GRAVEL_BOTH const void* find_payload(const gravel_task_handle& q, const copy_team& team, const task_head& head,
                                     const uint64_t* words, task_slot* slot) {
  if (head.inlined()) return words + task_words::payload;
  if (head.place == 0) return slot->payload();
  const gravel_task_buffer into = find_buffer(q, head.place);
  if (into.bytes != 0 && into.has_room(head.bytes())) return into.data(q.g);
  if (team.is_leader())
    report_error(q.g, message_fault::task_buffer, op::none, head.sender_pe(), head.place, head.bytes());
  return nullptr;
}

// The end of a task. The caller executes one fence before these calls, which covers all of them. Thread scope of all:
// lane, or a host thread.

/// Functions that send messages are not inlined, so that workers that send none need no registers for them.
__host__ __device__ GRAVEL_NOINLINE inline void raise_by_message(const gravel_t& g, uint64_t* counter, uint32_t pe) {
  gravel_inc(g, counter, static_cast<int>(pe));
  gravel_flush(g);
}
__host__ __device__ GRAVEL_NOINLINE inline void store_by_message(const gravel_t& g, uint64_t* word, uint64_t value,
                                                                 uint32_t pe, bool at_once) {
  gravel_put(g, word, value, static_cast<int>(pe));
  if (at_once) gravel_flush(g);
}
/// Adds 1 to a signal.
GRAVEL_BOTH void raise_task_signal(const gravel_task_handle& q, uint64_t offset, uint32_t pe) {
  if (offset == task_words::none) return;
  if (char* const heap = mapped_heap(q.g, static_cast<int>(pe)))
    add_behind_fence<scope::system>(reinterpret_cast<uint64_t*>(heap + offset), uint64_t{1});
  else raise_by_message(*q.kept, reinterpret_cast<uint64_t*>(q.g.heap + offset), pe);
}

/// Frees the slot, and notifies its sender [T2] release.
GRAVEL_BOTH void free_slot(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  const uint32_t n = q.g.n_pes, me = q.g.my_pe;
  uint32_t pe = me, credits = ring;
  if (ring < n) pe = ring;
  else if (ring < 2 * n) pe = ring - n;
  if (ring < n) credits = me;
  else if (ring < 2 * n) credits = n + me;
  auto* const here = reinterpret_cast<uint64_t*>(q.g.heap + q.memory.done(credits, ticket));
  if (char* const heap = mapped_heap(q.g, static_cast<int>(pe)))
    store_behind_fence(reinterpret_cast<uint64_t*>(heap + q.memory.done(credits, ticket)), ticket + 1);
  else store_by_message(*q.kept, here, ticket + 1, pe, (ticket & (q.memory.shape.slots / 2 - 1)) == 0);
}
/// Counts an ended task: the counts show when all tasks have ended.
GRAVEL_DEVICE void count_ended(const gravel_task_handle& q) {
  add_behind_fence<scope::device>(reinterpret_cast<uint64_t*>(q.g.heap + q.memory.line(task_memory::ended)),
                                  uint64_t{1});
}

template <class Task>
GRAVEL_DEVICE void run_block_of(const gravel_task_t& t, void* target, const void* payload, const uint64_t* arguments) {
  task_check<Task>::call::template call<Task>(t, target, payload, arguments);
}
/// Runs one block of a task for the device. Returns false if the queue does not know the task. Thread scope: the team.
template <class... Tasks>
GRAVEL_DEVICE bool run_block(const gravel_task_t& t, const task_head& head, const void* payload,
                             const uint64_t* arguments) {
  bool known = false;
  (
      [&] {
        if constexpr (!task_check<Tasks>::on_host) {
          if (head.id() == handler_id<Tasks>::value && head.argument_words() == task_check<Tasks>::call::words &&
              t.blocks == task_check<Tasks>::shape.blocks) {
            run_block_of<Tasks>(t, target_of(t.queue, head), payload, arguments);
            known = true;
          }
        }
      }(),
      ...);
  return known;
}

/// Reads the words of one slot into `to`. Each lane reads word `which`; `word` is what it may have read already. The
/// caller sets the other fields of `to` and synchronizes the warp. Thread scope: a warp, converged.
GRAVEL_DEVICE void read_words(open_task& to, const task_slot* slot, uint64_t ticket, uint64_t tag, uint32_t which,
                              tagged_word word) {
  if (which >= task_tag::words(tag)) return;
  for (relax wait; task_tag::compare(word.tag, ticket) != 0; wait.closely())
    word = load_tagged(&slot->words[which]);  // [T1]
  to.words[which] = word.value;
}

/// Runs blocks `first`, `first` + `step`, ... of the open task, whose slot has the tag `tag`. The last of all its
/// blocks to end raises the signal and frees the slot. Thread scope: the team.
template <class... Tasks>
GRAVEL_DEVICE void run_open(const gravel_task_handle& q, const copy_team& team, open_task& task, uint64_t tag,
                            uint32_t first, uint32_t step) {
  const task_head head = task.head();
  task_slot* const slot = task.slot;
  const void* const payload = check_task(q, team, head, tag) ? find_payload(q, team, head, task.words, slot) : nullptr;
  const bool good = payload != nullptr;
  if (good && head.counted()) {
    if (team.is_leader())
      for (relax wait; load_acquire(&slot->arrived) != head.counted(); wait()) {  // [T3]
      }
    team.sync();
  }
  const uint32_t blocks = task_tag::blocks(tag);
  uint32_t ran = 0;
  for (uint32_t b = first; b < blocks; b += step, ++ran) {
    const gravel_task_t t{q, team, b, blocks, head.bytes(), static_cast<int>(head.sender_pe())};
    if (good && !run_block<Tasks...>(t, head, payload, task.words + task_words::arguments) && team.is_leader())
      report_error(q.g, message_fault::unknown_task, op::none, head.sender_pe(), head.id(), q.memory.number);
  }
  team.sync();  // so that the leader's fence covers what the team has written
  bool is_last = true;
  if (team.is_leader() && blocks != 1)
    is_last = fetch_add_acq_rel<scope::device>(&slot->ended, uint64_t{ran}) + ran == blocks;
  if (head.chain_words() + head.step_words() != 0) {
    if (team.is_leader()) task.sends_next = good && is_last;
    team.sync();
    if (task.sends_next) send_next(q, team, task, steps_at(q, slot, head.step_words()));
  }
  if (!team.is_leader() || !is_last) return;
  store_relaxed(&slot->ended, uint64_t{0});
  store_relaxed(&slot->arrived, uint64_t{0});
  thread_fence();
  raise_task_signal(q, head.signal, head.signal_pe());
  free_slot(q, task.ring, task.ticket);
  count_ended(q);
}

}  // namespace gravel::detail
