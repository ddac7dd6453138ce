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

/// Has the task ended that had the slot of `ticket` before? [T2]
GRAVEL_BOTH bool slot_is_free(const gravel_task_handle& q, uint32_t ring, uint64_t ticket) {
  const uint64_t slots = q.memory.shape.slots;
  return ticket < slots || look_at(q.g, reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ticket))) == ticket - slots + 1;
}

/// Takes a slot. `waits`: when it is free; else only if it is at once: ~0: it is not. Thread scope: lane, or a host thread.
GRAVEL_BOTH uint64_t claim_slot(const gravel_task_handle& q, uint32_t line, uint32_t ring, bool waits) {
  task_line& mine = q.tickets[line];
  if (waits) {
    // Both at once. Nothing is stored into the slot before it is known how the comparison ends.
    const uint64_t ended = load_acquire_later<scope::device>(&mine.ended), ticket = fetch_add<scope::device>(&mine.tickets, uint64_t{1});
    if (ticket >= ended + q.memory.shape.slots)
      for (relax wait; !slot_is_free(q, ring, ticket); wait.attentively()) {
      }
    return ticket;
  }
  for (;;) {
    const uint64_t ticket = load_relaxed<scope::device>(&mine.tickets);
    if (!slot_is_free(q, ring, ticket)) {
      if (load_relaxed<scope::device>(&mine.tickets) == ticket) return ~uint64_t{0};
    } else if (compare_swap_acquire<scope::device>(&mine.tickets, ticket, ticket + 1)) {
      return ticket;
    }
  }
}
/// Behind a put: sees which tasks have ended, a few at once, so that who takes a slot later need not look. Thread scope: lane.
GRAVEL_BOTH void note_ended(const gravel_task_handle& q, uint32_t line, uint32_t ring, uint64_t ticket) {
  task_line& mine = q.tickets[line];
  const uint64_t ended = load_relaxed<scope::device>(&mine.ended);
  if (q.g.from == sender::host || ticket - ended < q.memory.shape.slots / 2) return;
  constexpr uint32_t few = 8;
  uint64_t done[few], n = 0;
  for (uint32_t i = 0; i < few; ++i) done[i] = load_acquire_later(reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ended + i)));
  acquire_now();
  while (n < few && ended + n < ticket && done[n] == ended + n + 1) ++n;
  if (n) raise_to<scope::device>(&mine.ended, ended + n);
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

/// An order, ready to be written: where it goes, and of its words that of this thread.
class open_order {
 public:
  /// Thread scope: the team, or its first warp.
  GRAVEL_BOTH open_order(const gravel_task_handle& q, const task_order& o, uint32_t pe)
      : q_(q), o_(o), pe_(pe), bytes_(o.payload.bytes()), heap_(mapped_heap(q.g, static_cast<int>(pe))) {
    inlined_ = bytes_ != 0 && o.n_words <= task_words::payload && bytes_ <= task_words::most_payload;
    n_ = inlined_ ? task_words::payload + static_cast<uint32_t>((bytes_ + 7) / 8) : o.n_words;
  }
  GRAVEL_BOTH uint32_t pe() const { return pe_; }
  /// All is in its words.
  GRAVEL_BOTH bool is_small() const { return bytes_ == 0 || inlined_; }
  GRAVEL_BOTH bool is_mapped() const { return heap_ != nullptr; }
  /// Reads what of the words this thread will write, so that it is here when the ticket is.
  GRAVEL_BOTH void prepare(const copy_team& team) {
    const uint32_t i = n_ - 1 - team.rank();
    if (is_small() && i < n_) mine_ = word(i, o_.payload);
  }

  /// Writes payload and command into the slot of `ticket` in ring `ring`. Thread scope: the team.
  GRAVEL_BOTH void fill(const copy_team& team, uint32_t ring, uint64_t ticket, task_start start) const {
    const uint64_t slot = q_.memory.slot(ring, ticket), tag = task_tag::make(ticket, start, n_, o_.blocks);
    if (!heap_) return fill_by_messages(team, slot, tag);
    if (!is_small()) {
      char* const to = heap_ + slot + sizeof(task_slot);
      copy_bytes(team, to, static_cast<const char*>(o_.payload.first.data), o_.payload.first.bytes);
      if (o_.payload.second.bytes) copy_bytes(team, to + o_.payload.first.bytes, static_cast<const char*>(o_.payload.second.data), o_.payload.second.bytes);
      thread_fence();
      team.sync();
    }
    auto* const to = reinterpret_cast<tagged_word*>(heap_ + slot);
    uint32_t i = n_ - 1 - team.rank();
    if (i < n_) store_tagged(to + i, is_small() ? mine_ : word(i, o_.payload), tag);  // [T1]
    for (i -= team.size(); i < n_; i -= team.size()) store_tagged(to + i, word(i, o_.payload), tag);
  }

 private:
  GRAVEL_BOTH void fill_by_messages(const copy_team& team, uint64_t slot, uint64_t tag) const {
    uint64_t counted = 0;
    if (!is_small()) {
      const uint64_t to = slot + sizeof(task_slot), counter = slot + offsetof(task_slot, arrived);
      put_counted(q_.g, team, to, o_.payload.first, counter, static_cast<int>(pe_));
      put_counted(q_.g, team, to + o_.payload.first.bytes, o_.payload.second, counter, static_cast<int>(pe_));
      counted = bytes_;
    }
    if (!team.is_leader()) return;
    const small_payload small(o_.payload, inlined_);
    command_words words;
    for (uint32_t i = 1; i < task_words::all; ++i) words.word[i - 1] = i < n_ ? word(i, small.of) : 0;
    words.word[task_words::places - 1] |= counted << 32;
    gravel_am<gravel_task_delivery>(q_.g, static_cast<int>(pe_), q_.memory.asleep(pe_), slot, tag, words);
    gravel_flush(q_.g);
  }
  GRAVEL_BOTH uint64_t word(uint32_t i, const gravel_payload& payload) const {
    if (inlined_ && i >= task_words::payload) return gather_word(payload, uint64_t{i - task_words::payload} * 8);
#if GRAVEL_ON_GPU
    uint64_t w = 0;  // registers have no index
    GRAVEL_UNROLL
    for (uint32_t k = 1; k < task_words::all; ++k)
      if (k == i) w = o_.words[k];
    return w;
#else
    return o_.words[i];
#endif
  }

  const gravel_task_handle& q_;
  const task_order& o_;
  uint32_t pe_, n_;
  uint64_t bytes_;
  char* heap_;  ///< of the destination, as mapped here
  bool inlined_;
  uint64_t mine_ = 0;
};

/// From who may wait. Thread scope: the team.
GRAVEL_BOTH void send_waiting(const gravel_task_handle& q, const copy_team& team, open_order& order, const task_order& o) {
  const uint32_t ring = ring_to_pe(q, order.pe());
  // One warp is enough for a few words.
  const bool by_warp = order.is_small() && order.is_mapped() && !team.is_warp() && team.size() > 32;
  const copy_team writers = by_warp ? copy_team::warp(q.g, ~0u) : team;
  uint64_t ticket = 0;
  if (!by_warp || team.rank() < 32) {
    order.prepare(writers);
    if (writers.is_leader()) ticket = claim_slot(q, order.pe(), ring, true);
    ticket = writers.from_leader(ticket);
    order.fill(writers, ring_from_here(q), ticket, o.start);
  }
  team.sync();  // the payload may be used again
  if (!team.is_leader()) return;
  if (order.is_mapped()) call_sleeping_workers(q, order.pe());
  note_ended(q, order.pe(), ring, ticket);
}

/// Sends a command to `pe`, which is in range. Thread scope: the team. True: it is on its way, or waits in the own ring for room there.
GRAVEL_BOTH bool send_order(const gravel_task_handle& q, const copy_team& team, const task_order& o, uint32_t pe, bool forwards = true) {
  open_order order(q, o, pe);
  if (q.fenced) thread_fence();
  team.sync();  // what the others of the team have written is the payload
  if (!q.in_worker) return send_waiting(q, team, order, o), true;
  uint64_t ticket = 0;
  if (team.is_leader()) ticket = claim_slot(q, pe, ring_to_pe(q, pe), false);
  ticket = team.from_leader(ticket);
  team.sync();
  if (ticket != ~uint64_t{0}) {
    order.prepare(team);
    order.fill(team, ring_from_here(q), ticket, o.start);
  } else if (!forwards) {
    return false;
  } else {
#if !GRAVEL_ON_GPU
    if (q.g.from == sender::host) {  // a task on the host has no ring of its own
      report_error(q.g, message_fault::task_room, op::none, pe, o.words[task_words::names] >> 32, q.memory.shape.slots);
      return false;
    }
#endif
    if (team.is_leader()) ticket = claim_slot(q, q.g.n_pes, own_ring(q), false);
    ticket = team.from_leader(ticket);
    team.sync();
    if (ticket == ~uint64_t{0}) {
      if (team.is_leader()) report_error(q.g, message_fault::task_room, op::none, pe, o.words[task_words::names] >> 32, q.memory.shape.slots);
      return false;
    }
    pe = q.g.my_pe;
    open_order here(q, o, pe);
    here.prepare(team);
    here.fill(team, own_ring(q), ticket, task_start::forward);
  }
  team.sync();
  if (team.is_leader() && mapped_heap(q.g, static_cast<int>(pe))) call_sleeping_workers(q, pe);
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
