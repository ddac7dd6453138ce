// Sending tasks: gravel_task_put. Payload first, then the command (lib/task/task_slot.hpp has the protocol).
#pragma once
#include "lib/task/task_delivery.cuh"
#include "lib/task/task_types.cuh"

namespace gravel {

/// A command before it is sent: the same in all threads of the team. Its words but the payload's; all indices are known when it is compiled, so that
/// it lies in registers.
struct task_order {
  uint64_t words[task_words::all];
  uint32_t n_words;
  gravel_payload payload;  ///< not among the words: it is gathered behind them, or staged
  uint32_t blocks;
  task_start start;
};

/// Eight bytes of two pieces of memory, one behind the other, from byte `at` on; 0 behind their end.
GRAVEL_BOTH uint64_t gather_word(const gravel_payload& p, uint64_t at) {
  const char *const first = static_cast<const char*>(p.first.data), *const second = static_cast<const char*>(p.second.data);
  if (at + 8 <= p.first.bytes && reinterpret_cast<uint64_t>(first + at) % 8 == 0) return *reinterpret_cast<const uint64_t*>(first + at);
  uint64_t word = 0;
  for (uint32_t i = 0; i < 8 && at + i < p.bytes(); ++i) {
    const uint64_t byte = at + i;
    const char c = byte < p.first.bytes ? first[byte] : second[byte - p.first.bytes];
    word |= uint64_t{static_cast<unsigned char>(c)} << 8 * i;
  }
  return word;
}

/// A host thread cannot look at a GPU's memory: a small payload is copied first.
class small_payload {
 public:
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  small_payload(const gravel_payload& p, bool wanted) : of(p) {
    if (!wanted) return;
    fetch(of.first, held_);
    fetch(of.second, held_ + p.first.bytes);
  }
  small_payload(const small_payload&) = delete;

 private:
  static void fetch(gravel_task_source& s, char* to) {
    if (s.bytes == 0 || !is_device_memory(s.data)) return;
    copy_from_device(to, s.data, s.bytes);
    s.data = to;
  }
  alignas(8) char held_[task_words::most_payload];

 public:
  gravel_payload of;
#else
  GRAVEL_BOTH small_payload(const gravel_payload& p, bool) : of(p) {}
  const gravel_payload& of;
#endif
};

/// Takes a slot at `pe`. From a kernel: waits until it is free. `waits` false: only if it is at once; ~0: it is not. Thread scope: lane, or a host thread.
GRAVEL_BOTH uint64_t claim_slot(const gravel_task_handle& q, uint32_t line, uint32_t ring, bool waits) {
  const uint64_t slots = q.memory.shape.slots;
  uint64_t* const tickets = &q.tickets[line].count;
  const auto is_free = [&](uint64_t ticket) {
    return ticket < slots || look_at(q.g, reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ticket))) == ticket - slots + 1;  // [T2]
  };
  if (waits) {
    const uint64_t ticket = fetch_add<scope::device>(tickets, uint64_t{1});
    for (relax wait; !is_free(ticket); wait.attentively()) {
    }
    return ticket;
  }
  for (;;) {
    const uint64_t ticket = load_relaxed<scope::device>(tickets);
    if (!is_free(ticket)) {
      if (load_relaxed<scope::device>(tickets) == ticket) return ~uint64_t{0};
    } else if (compare_swap_acquire<scope::device>(tickets, ticket, ticket + 1)) {
      return ticket;
    }
  }
}

/// Numbers of the rings from this sender to `pe`: at the sender (credits), and at `pe` (slots).
GRAVEL_BOTH uint32_t ring_to_pe(const gravel_task_handle& q, uint32_t pe) { return q.g.from == sender::host ? q.g.n_pes + pe : pe; }
GRAVEL_BOTH uint32_t ring_from_here(const gravel_task_handle& q) { return q.g.from == sender::host ? q.g.n_pes + q.g.my_pe : q.g.my_pe; }
GRAVEL_BOTH uint32_t own_ring(const gravel_task_handle& q) { return 2 * q.g.n_pes; }

/// Route `net`: data in pieces of one message, each of which adds its bytes to `counter` [T3]. Thread scope: the team.
GRAVEL_BOTH void put_counted(const gravel_t& g, const copy_team& team, uint64_t to, const gravel_task_source& from, uint64_t counter, int pe) {
  const uint64_t most = uint64_t{most_bulk_units(g, bulk_queue(g, team, from.bytes)) - 2} * sizeof(unit);
  for (uint64_t done = 0; done < from.bytes; done += most) {
    const uint64_t now = from.bytes - done < most ? from.bytes - done : most;
    put_bulk_by(g, team, g.heap + to + done, static_cast<const char*>(from.data) + done, now, reinterpret_cast<uint64_t*>(g.heap + counter), now,
                GRAVEL_SIGNAL_ADD, pe);
    team.sync();
  }
}

/// Writes payload and command into the slot of `ticket` in ring `ring` at `pe`. Thread scope: the team.
GRAVEL_BOTH void fill_slot(const gravel_task_handle& q, const copy_team& team, const task_order& o, uint32_t pe, uint32_t ring, uint64_t ticket,
                           task_start start) {
  const uint64_t slot = q.memory.slot(ring, ticket), bytes = o.payload.bytes();
  const bool inlined = bytes != 0 && o.n_words <= task_words::payload && bytes <= task_words::most_payload;
  const uint32_t n = inlined ? task_words::payload + static_cast<uint32_t>((bytes + 7) / 8) : o.n_words;
  const uint64_t tag = task_tag::make(ticket, start, n, o.blocks);
  const small_payload small(o.payload, inlined);
  char* const heap = mapped_heap(q.g, static_cast<int>(pe));
  uint64_t counted = 0;
  if (bytes != 0 && !inlined) {
    const uint64_t to = slot + sizeof(task_slot);
    if (heap) {
      copy_bytes(team, heap + to, static_cast<const char*>(o.payload.first.data), o.payload.first.bytes);
      copy_bytes(team, heap + to + o.payload.first.bytes, static_cast<const char*>(o.payload.second.data), o.payload.second.bytes);
    } else {
      const uint64_t counter = slot + offsetof(task_slot, arrived);
      put_counted(q.g, team, to, o.payload.first, counter, static_cast<int>(pe));
      put_counted(q.g, team, to + o.payload.first.bytes, o.payload.second, counter, static_cast<int>(pe));
      counted = bytes;
    }
  }
  if (heap && (q.fenced || (bytes != 0 && !inlined))) {
    thread_fence();
    team.sync();
  }
  const auto word = [&](uint32_t i) {
    if (inlined && i >= task_words::payload) return gather_word(small.of, uint64_t{i - task_words::payload} * 8);
#if GRAVEL_ON_GPU
    uint64_t w = 0;  // registers have no index
    GRAVEL_UNROLL
    for (uint32_t k = 1; k < task_words::all; ++k)
      if (k == i) w = o.words[k];
#else
    const uint64_t w = o.words[i];
#endif
    return i == task_words::places ? w | counted << 32 : w;
  };
  if (heap) {
    auto* const to = reinterpret_cast<tagged_word*>(heap + slot);
    for (uint32_t i = n - 1 - team.rank(); i < n; i -= team.size()) store_tagged(to + i, word(i), tag);  // [T1]
  } else if (team.is_leader()) {
    alignas(16) tagged_word words[task_words::all];
    for (uint32_t i = 0; i < n; ++i) words[i] = {i ? word(i) : 0, tag};
    char* const to = q.g.heap + slot;
    put_bulk_by(q.g, copy_team::alone(), to + sizeof(tagged_word), words + 1, (n - 1) * sizeof(tagged_word),
                reinterpret_cast<uint64_t*>(to + offsetof(tagged_word, tag)), tag, GRAVEL_SIGNAL_SET, static_cast<int>(pe));  // [T1]
  }
  if (team.is_leader()) call_workers(q, pe, slot, ticket, heap);
}

/// Sends a command to `pe`, which is in range. Thread scope: the team. True: it is on its way, or waits in the own ring for room there.
GRAVEL_BOTH bool send_order(const gravel_task_handle& q, const copy_team& team, const task_order& o, uint32_t pe, bool forwards = true) {
  team.sync();  // what the others of the team have written is the payload
  uint64_t ticket = 0;
  if (team.is_leader()) ticket = claim_slot(q, pe, ring_to_pe(q, pe), !q.in_worker);
  ticket = team.from_leader(ticket);
  if (ticket != ~uint64_t{0}) {
    fill_slot(q, team, o, pe, ring_from_here(q), ticket, o.start);
    team.sync();  // the payload may be used again
    return true;
  }
  if (!forwards) return false;
#if !GRAVEL_ON_GPU
  if (q.g.from == sender::host) {  // a task on the host has no ring of its own
    report_error(q.g, message_fault::task_room, op::none, pe, o.words[task_words::names] >> 32, q.memory.shape.slots);
    return false;
  }
#endif
  team.sync();
  if (team.is_leader()) ticket = claim_slot(q, q.g.n_pes, own_ring(q), false);
  ticket = team.from_leader(ticket);
  if (ticket == ~uint64_t{0}) {
    if (team.is_leader())
      report_error(q.g, message_fault::task_room, op::none, pe, o.words[task_words::names] >> 32, q.memory.shape.slots);
    return false;
  }
  fill_slot(q, team, o, q.g.my_pe, own_ring(q), ticket, task_start::forward);
  team.sync();
  return true;
}

/// Is what a sender says right? Reports what is not, once for the team.
GRAVEL_BOTH bool check_order(const gravel_task_handle& q, const copy_team& team, uint32_t id, int pe, uint64_t target, uint64_t bytes,
                             uint64_t signal, int signal_pe) {
  check_handle_everywhere(q.g, op::none);
  message_fault fault = message_fault::fine;
  uint64_t what = bytes, limit = q.memory.shape.payload_bytes;
  if (static_cast<uint32_t>(pe) >= q.g.n_pes || static_cast<uint32_t>(signal_pe) >= q.g.n_pes)
    fault = message_fault::task_pe, what = static_cast<uint32_t>(static_cast<uint32_t>(pe) >= q.g.n_pes ? pe : signal_pe), limit = q.g.n_pes;
  else if (bytes > limit) fault = message_fault::task_payload;
  else if ((target != task_words::none && target >= q.g.heap_bytes) ||
           (signal != task_words::none && (signal % 8 != 0 || !lies_in_heap(signal, 8, q.g.heap_bytes))))
    fault = message_fault::task_address, what = target != task_words::none && target >= q.g.heap_bytes ? target : signal, limit = q.g.heap_bytes;
  if (fault == message_fault::fine) return true;
  if (team.is_leader()) report_error(q.g, fault, op::none, q.g.my_pe, what, limit, id);
  return false;
}

GRAVEL_BOTH uint64_t offset_in_heap(const gravel_t& g, const void* address) {
  return address ? static_cast<uint64_t>(static_cast<const char*>(address) - g.heap) : task_words::none;
}

/// The start that is meant.
template <class Task>
GRAVEL_BOTH constexpr task_start start_of(task_start wanted) {
  return task_check<Task>::on_host || wanted == task_start::shaped ? task_check<Task>::start : wanted;
}

/// Fills an order; false: it is wrong, which is reported. Thread scope: the team.
template <class Task, class... A>
GRAVEL_BOTH bool make_order(task_order& o, const gravel_task_handle& q, const copy_team& team, task_start start, int pe,
                            typename task_check<Task>::call::target* target, const gravel_payload& payload, const gravel_signal& done,
                            const A&... arguments) {
  using call = typename task_check<Task>::call;
  static_assert(task_check<Task>::good);
  static_assert(call::template takes<A...>, "gravel_task_put: the task takes another number of arguments");
  constexpr uint32_t id = handler_id<Task>::value;
  const uint64_t to = offset_in_heap(q.g, target), signal = done.offset;
  const int signal_pe = done.pe < 0 || signal == task_words::none ? pe : done.pe;
  if (!check_order(q, team, id, pe, to, payload.bytes(), signal, signal_pe)) return false;
  start = start_of<Task>(start);
  for (uint32_t i = 0; i < task_words::all; ++i) o.words[i] = 0;
  o.words[task_words::names] = uint64_t{id} << 32 | q.g.my_pe;
  o.words[task_words::sizes] = payload.bytes() << 32 | uint64_t{static_cast<uint8_t>(start)} << 16 | call::words;
  o.words[task_words::target] = to;
  o.words[task_words::signal] = signal;
  o.words[task_words::places] = static_cast<uint64_t>(signal_pe) << 16 | static_cast<uint32_t>(pe);
  call::pack(o.words + task_words::arguments, arguments...);
  o.n_words = task_words::arguments + call::words;
  o.payload = payload;
  o.blocks = task_check<Task>::shape.blocks;
  o.start = start;
  return true;
}
template <class Task, class... A>
GRAVEL_BOTH void put_task(const gravel_task_handle& q, const copy_team& team, task_start start, int pe,
                          typename task_check<Task>::call::target* target, const gravel_payload& payload, const gravel_signal& done,
                          const A&... arguments) {
  task_order o;
  if (make_order<Task>(o, q, team, start, pe, target, payload, done, arguments...)) send_order(q, team, o, static_cast<uint32_t>(pe));
}

}  // namespace gravel

/// Runs `Task` at `pe`, with a copy of the payload (up to two pieces of memory that the sender can read, gathered into one) and of the arguments, on the
/// symmetric address `target`; adds 1 to the signal when it has ended. Returns when the payload may be used again; waits while the task's place at `pe` is
/// taken. Thread scope: block, all threads with the same arguments, of a kernel of gravel_launch; or one host thread, with host_handle().
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put(const gravel_task_handle& queue, int pe, typename gravel::task_check<Task>::call::target* target,
                                 const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::put_task<Task>(queue, gravel::copy_team::block(queue.g), gravel::task_start::shaped, pe, target, payload, done, arguments...);
}
/// The same, started in a way other than the task's shape says.
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put_as(gravel::task_start start, const gravel_task_handle& queue, int pe,
                                    typename gravel::task_check<Task>::call::target* target, const gravel_payload& payload,
                                    const gravel_signal& done, const A&... arguments) {
  gravel::put_task<Task>(queue, gravel::copy_team::block(queue.g), start, pe, target, payload, done, arguments...);
}
/// The same by a warp, converged.
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put_warp(const gravel_task_handle& queue, int pe, typename gravel::task_check<Task>::call::target* target,
                                      const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::put_task<Task>(queue, gravel::copy_team::warp(queue.g, ~0u), gravel::task_start::shaped, pe, target, payload, done, arguments...);
}
/// The same from a task, by all threads of one of its blocks. Never waits: what finds no room at `pe` is kept, and sent on later; if there is no room for
/// that either, the job ends with a message.
template <class Task, class... A>
GRAVEL_BOTH void gravel_task_put(const gravel_task_t& t, int pe, typename gravel::task_check<Task>::call::target* target,
                                 const gravel_payload& payload, const gravel_signal& done, const A&... arguments) {
  gravel::put_task<Task>(t.queue, t.team, gravel::task_start::shaped, pe, target, payload, done, arguments...);
}
