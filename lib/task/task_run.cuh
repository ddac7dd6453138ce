// Running a task that has arrived: its command is read and checked, its blocks run, and the last of them ends it.
#pragma once
#include "lib/task/task_chain.cuh"

namespace gravel {

GRAVEL_BOTH task_slot* slot_at(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  return reinterpret_cast<task_slot*>(q.g.heap + q.memory.slot(ring, ticket));
}
GRAVEL_BOTH void* target_of(const gravel_task_handle& q, const open_task& task) {
  return task.words[task_words::target] == task_words::none ? nullptr : q.g.heap + task.words[task_words::target];
}

/// Is it a command? Whoever sent it names itself; a wrong one is reported and dropped. Thread scope: lane.
GRAVEL_BOTH bool check_task(const gravel_task_handle& q, const open_task& task) {
  const uint64_t target = task.words[task_words::target], signal = task.words[task_words::signal];
  const bool good = task.bytes() <= q.memory.shape.payload_bytes && task.argument_words() <= task_words::most_arguments &&
                    task.chain_words() <= task_words::most_chain && task.signal_pe() < q.g.n_pes && task.sender_pe() < q.g.n_pes &&
                    task.pe() < q.g.n_pes && (target == task_words::none || target < q.g.heap_bytes) && task.counted() <= task.bytes() &&
                    (signal == task_words::none || (signal % 8 == 0 && lies_in_heap(signal, 8, q.g.heap_bytes)));
  if (!good) report_error(q.g, message_fault::task_words, op::none, task.sender_pe(), task.id(), task_tag::words(task.tag));
  return good;
}

// The end of a task, behind a fence of who calls: one for all that then tells it. Thread scope of all: lane, or a host thread.

/// Adds 1 to a signal.
GRAVEL_BOTH void raise_task_signal(const gravel_t& g, uint64_t offset, uint32_t pe) {
  if (offset == task_words::none) return;
  auto* const here = reinterpret_cast<uint64_t*>(g.heap + offset);
  if (char* const heap = mapped_heap(g, static_cast<int>(pe))) {
    add_behind_fence<scope::system>(reinterpret_cast<uint64_t*>(heap + offset), uint64_t{1});
  } else {
    gravel_inc(g, here, static_cast<int>(pe));
    gravel_flush(g);
  }
}

/// Its slot is free, and its sender may know [T2] release.
GRAVEL_BOTH void free_slot(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  const uint32_t n = q.g.n_pes, me = q.g.my_pe;
  const uint32_t pe = ring < n ? ring : ring < 2 * n ? ring - n : me;
  const uint32_t credits = ring < n ? me : ring < 2 * n ? n + me : ring;
  auto* const here = reinterpret_cast<uint64_t*>(q.g.heap + q.memory.done(credits, ticket));
  if (char* const heap = mapped_heap(q.g, static_cast<int>(pe))) {
    store_behind_fence(reinterpret_cast<uint64_t*>(heap + q.memory.done(credits, ticket)), ticket + 1);
  } else {
    gravel_put(q.g, here, ticket + 1, static_cast<int>(pe));
    if ((ticket & (q.memory.shape.slots / 2 - 1)) == 0) gravel_flush(q.g);
  }
}
/// One of those that are counted to tell the end of all.
GRAVEL_DEVICE void count_ended(const gravel_task_handle& q) {
  add_behind_fence<scope::device>(reinterpret_cast<uint64_t*>(q.g.heap + q.memory.line(task_memory::ended)), uint64_t{1});
}

template <class Task>
GRAVEL_DEVICE void run_block_of(const gravel_task_t& t, const open_task& task, void* target, const void* payload) {
  task_check<Task>::call::template call<Task>(t, target, payload, task.words + task_words::arguments);
}
/// Runs one block of a task that is for the device. False: there is no such task. Thread scope: the team.
template <class... Tasks>
GRAVEL_DEVICE bool run_block(const gravel_task_t& t, const open_task& task, void* target, const void* payload) {
  bool known = false;
  (
      [&] {
        if constexpr (!task_check<Tasks>::on_host) {
          if (task.id() == handler_id<Tasks>::value && task.argument_words() == task_check<Tasks>::call::words)
            run_block_of<Tasks>(t, task, target, payload), known = true;
        }
      }(),
      ...);
  return known;
}

/// What is in the words of one slot; each lane brings one, which it may have read already. Thread scope: a warp, converged.
GRAVEL_DEVICE void read_words(open_task& to, const task_slot* slot, uint64_t ticket, uint64_t tag, uint32_t lane, tagged_word word) {
  if (lane != 0 && lane < task_tag::words(tag)) {
    for (relax wait; task_tag::compare(word.tag, ticket) != 0; wait()) word = load_tagged(&slot->words[lane]);  // [T1]
    to.words[lane] = word.value;
  }
  if (lane == 0) to.tag = tag, to.ticket = ticket;
  __syncwarp();
}

/// Runs blocks `first`, `first` + `step`, ... of the open task; the last of all its blocks to end raises the signal and frees the slot. Thread scope: the team.
template <class... Tasks>
GRAVEL_DEVICE void run_open(const gravel_task_handle& q, const copy_team& team, open_task& task, uint32_t first, uint32_t step) {
  task_slot* const slot = slot_at(q, task.ring, task.ticket);
  if (team.is_leader()) {
    const bool good = check_task(q, task);
    if (good && task.counted())
      for (relax wait; load_acquire(&slot->arrived) != task.counted(); wait()) {  // [T3]
      }
    task.is_good = good;
  }
  team.sync();
  const uint32_t blocks = task_tag::blocks(task.tag);
  const void* const payload = task.inlined() ? static_cast<const void*>(task.words + task_words::payload) : slot->payload();
  uint32_t ran = 0;
  for (uint32_t b = first; b < blocks; b += step, ++ran) {
    const gravel_task_t t{q, team, b, blocks, task.bytes(), static_cast<int>(task.sender_pe())};
    if (task.is_good && !run_block<Tasks...>(t, task, target_of(q, task), payload) && team.is_leader())
      report_error(q.g, message_fault::unknown_task, op::none, task.sender_pe(), task.id(), q.memory.number);
  }
  team.sync();  // what the others of the team have written, the leader's fence covers
  bool is_last = true;
  if (team.is_leader() && blocks != 1) is_last = fetch_add_acq_rel<scope::device>(&slot->ended, uint64_t{ran}) + ran == blocks;
  if (task.chain_words() != 0) {
    if (team.is_leader()) task.is_good &= is_last;
    team.sync();
    if (task.is_good) send_next(q, team, task);
  }
  if (!team.is_leader() || !is_last) return;
  store_relaxed(&slot->ended, uint64_t{0});
  store_relaxed(&slot->arrived, uint64_t{0});
  thread_fence();
  raise_task_signal(q.g, task.words[task_words::signal], task.signal_pe());
  free_slot(q, task.ring, task.ticket);
  count_ended(q);
}

}  // namespace gravel
