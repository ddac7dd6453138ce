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
  for (uint32_t i = 0; i < few; ++i)
    done[i] = load_acquire_later(reinterpret_cast<const uint64_t*>(q.g.heap + q.memory.done(ring, ended + i)));
  acquire_now();
  while (n < few && ended + n < ticket && done[n] == ended + n + 1) ++n;
  if (n) raise_to<scope::device>(&mine.ended, ended + n);
}

/// Numbers of the rings from this sender to `pe`: at the sender (credits), and at `pe` (slots).
GRAVEL_BOTH uint32_t ring_to_pe(const gravel_task_handle& q, uint32_t pe) { return q.g.from == sender::host ? q.g.n_pes + pe : pe; }
GRAVEL_BOTH uint32_t ring_from_here(const gravel_task_handle& q) { return q.g.from == sender::host ? q.g.n_pes + q.g.my_pe : q.g.my_pe; }
GRAVEL_BOTH uint32_t own_ring(const gravel_task_handle& q) { return 2 * q.g.n_pes; }

// What is seldom needed on the fast route is not inlined, so that what is needed stays in the processor's cache of instructions.

/// Thread scope: lane, or a host thread.
__host__ __device__ GRAVEL_NOINLINE inline void send_command(const gravel_t& g, uint32_t pe, uint64_t asleep, uint64_t slot, uint64_t tag,
                                                             const command_words& words) {
  gravel_am<gravel_task_delivery>(g, static_cast<int>(pe), asleep, slot, tag, words);
  if (tag != 0) gravel_flush(g);
}
/// Route `net`: data in pieces of one message, each of which adds its bytes to a counter [T3]. Thread scope: the team.
__host__ __device__ GRAVEL_NOINLINE inline void send_counted(const gravel_t& g, copy_team team, uint64_t to, const char* from,
                                                             uint64_t bytes, uint64_t counter, uint32_t pe) {
  const uint64_t most = uint64_t{most_bulk_units(g, bulk_queue(g, team, bytes)) - 2} * sizeof(unit);
  for (uint64_t done = 0; done < bytes; done += most) {
    const uint64_t now = bytes - done < most ? bytes - done : most;
    put_bulk_by(g, team, g.heap + to + done, from + done, now, reinterpret_cast<uint64_t*>(g.heap + counter), now, GRAVEL_SIGNAL_ADD,
                static_cast<int>(pe));
    team.sync();
  }
}

/// An order, ready to be written: where it goes, and of its words that of this thread. Thread scope of its members: the team.
class open_order {
 public:
  GRAVEL_BOTH open_order(const gravel_task_handle& q, const task_order& o, uint32_t pe)
      : q_(q), o_(o), pe_(pe), start_(o.start), bytes_(o.payload.bytes()), heap_(mapped_heap(q.g, static_cast<int>(pe))) {
    inlined_ = bytes_ != 0 && o.n_words <= task_words::payload && bytes_ <= task_words::most_payload;
    n_ = inlined_ ? task_words::payload + static_cast<uint32_t>((bytes_ + 7) / 8) : o.n_words;
  }
  /// It is kept in the own ring instead.
  GRAVEL_BOTH void keep_here() { pe_ = q_.g.my_pe, heap_ = q_.g.heap, start_ = task_start::forward; }
  GRAVEL_BOTH bool is_mapped() const { return heap_ != nullptr; }
  /// All is in its words.
  GRAVEL_BOTH bool is_small() const { return bytes_ == 0 || inlined_; }
  /// Reads what of the words this thread will write, so that it is here when the ticket is.
  GRAVEL_BOTH void prepare(const copy_team& team) {
    const uint32_t i = n_ - 1 - team.rank();
    if (is_small() && is_mapped() && i < n_) first_ = word(i, o_.payload);
  }

  /// Writes payload and command into the slot of `ticket` in ring `ring`; over the route `net` the payload.
  GRAVEL_BOTH void fill(const copy_team& team, uint32_t ring, uint64_t ticket) {
    slot_ = q_.memory.slot(ring, ticket), tag_ = task_tag::make(ticket, start_, n_, o_.blocks);
    if (!is_small()) stage(team);
    if (!is_mapped()) return;
    auto* const to = reinterpret_cast<tagged_word*>(heap_ + slot_);
    uint32_t i = n_ - 1 - team.rank();
    if (i < n_) store_tagged(to + i, is_small() ? first_ : word(i, o_.payload), tag_);  // [T1]
    for (i -= team.size(); i < n_; i -= team.size()) store_tagged(to + i, word(i, o_.payload), tag_);
  }
  /// Over the route `net` the command; else calls workers that sleep. Thread scope: one lane of the team.
  GRAVEL_BOTH void finish() const {
    if (is_mapped() && !sleeps()) return;
    const small_payload small(o_.payload, inlined_);
    command_words words;
    for (uint32_t i = 1; i < task_words::all; ++i) words.word[i - 1] = !is_mapped() && i < n_ ? word(i, small.of) : 0;
    if (!is_small()) words.word[task_words::places - 1] |= bytes_ << 32;
    send_command(*q_.kept, pe_, q_.memory.asleep(pe_), slot_, is_mapped() ? uint64_t{0} : tag_, words);
  }

 private:
  /// To the place behind the words.
  GRAVEL_BOTH void stage(const copy_team& team) const {
    uint64_t to = slot_ + sizeof(task_slot);
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (int i = 0; i < 2; ++i) {
      const gravel_task_source& from = i ? o_.payload.second : o_.payload.first;
      if (is_mapped()) copy_bytes(team, heap_ + to, static_cast<const char*>(from.data), from.bytes);
      else send_counted(*q_.kept, team, to, static_cast<const char*>(from.data), from.bytes, slot_ + offsetof(task_slot, arrived), pe_);
      to += from.bytes;
    }
    if (!is_mapped()) return;
    thread_fence();
    team.sync();
  }
  GRAVEL_BOTH bool sleeps() const {
#if GRAVEL_ON_GPU
    full_fence();
    return load_relaxed(reinterpret_cast<const uint64_t*>(q_.g.heap + q_.memory.asleep(pe_))) != 0;
#else
    return false;  // workers of the CPU backend do not
#endif
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
  task_start start_;
  uint64_t bytes_;
  char* heap_;  ///< of the destination, as mapped here
  bool inlined_;
  uint64_t first_ = 0, slot_ = 0, tag_ = 0;
};

/// Takes a slot without waiting, at `pe` or else, if `keeps`, in the own ring; ~0: there is none. Thread scope: lane, or a task on the host.
GRAVEL_BOTH uint64_t claim_without_waiting(const gravel_task_handle& q, uint32_t pe, bool keeps, uint32_t id, bool* kept) {
  uint64_t ticket = claim_slot(q, pe, ring_to_pe(q, pe), false);
  if (ticket != ~uint64_t{0} || !keeps) return ticket;
  if (q.g.from != sender::host) ticket = claim_slot(q, q.g.n_pes, own_ring(q), false);  // a task on the host has no ring of its own
  *kept = ticket != ~uint64_t{0};
  if (!*kept) report_error(q.g, message_fault::task_room, op::none, pe, id, q.memory.shape.slots);
  return ticket;
}

/// Sends a command to `pe`, which is in range, from who may wait. Thread scope: the team.
GRAVEL_BOTH void send_order(const gravel_task_handle& q, const copy_team& team, const task_order& o, uint32_t pe) {
  open_order order(q, o, pe);
  if (q.fenced) thread_fence();
  team.sync();  // what the others of the team have written is the payload
  // One warp is enough for a few words.
  const bool by_warp = order.is_small() && order.is_mapped() && !team.is_warp() && team.size() > 32;
  const copy_team writers = by_warp ? copy_team::warp(q.g, ~0u) : team;
  if (!by_warp || team.rank() < 32) {
    order.prepare(writers);
    uint64_t ticket = 0;
    if (writers.is_leader()) ticket = claim_slot(q, pe, ring_to_pe(q, pe), true);
    ticket = writers.from_leader(ticket);
    order.fill(writers, ring_from_here(q), ticket);
    if (writers.is_leader()) {
      order.finish();
      note_ended(q, pe, ring_to_pe(q, pe), ticket);
    }
  }
  team.sync();  // the payload may be used again
}

/// The same from a task, which never waits. True: it is on its way, or, if `keeps`, waits in the own ring for room there.
__host__ __device__ GRAVEL_NOINLINE inline bool send_from_task(const gravel_task_handle& q, const copy_team& team, const task_order& o,
                                                               uint32_t pe, bool keeps) {
  constexpr uint64_t none = ~uint64_t{0}, kept_bit = uint64_t{1} << 63;
  open_order order(q, o, pe);
  thread_fence();
  team.sync();  // what the others of the team have written is the payload
  uint64_t ticket = 0;
  if (team.is_leader()) {
    bool kept = false;
    ticket = claim_without_waiting(q, pe, keeps, static_cast<uint32_t>(o.words[task_words::names] >> 32), &kept);
    if (kept) ticket |= kept_bit;
  }
  ticket = team.from_leader(ticket);
  team.sync();
  if (ticket == none) return false;
  const bool kept = (ticket & kept_bit) != 0;
  if (kept) order.keep_here();
  order.prepare(team);
  order.fill(team, kept ? own_ring(q) : ring_from_here(q), ticket & ~kept_bit);
  if (team.is_leader()) order.finish();
  team.sync();  // the payload may be used again
  return true;
}

/// Is what a sender says right? Reports what is not, once for the team.
GRAVEL_BOTH bool check_order(const gravel_task_handle& q, const copy_team& team, uint32_t id, int pe, uint64_t target, uint64_t bytes,
                             uint64_t signal, int signal_pe) {
  check_handle_everywhere(q.g, op::none);
  message_fault fault = message_fault::fine;
  uint64_t what = bytes, limit = q.memory.shape.payload_bytes;
  if (static_cast<uint32_t>(pe) >= q.g.n_pes || static_cast<uint32_t>(signal_pe) >= q.g.n_pes)
    fault = message_fault::task_pe, what = static_cast<uint32_t>(static_cast<uint32_t>(pe) >= q.g.n_pes ? pe : signal_pe),
    limit = q.g.n_pes;
  else if (bytes > limit) fault = message_fault::task_payload;
  else if ((target != task_words::none && target >= q.g.heap_bytes) ||
           (signal != task_words::none && (signal % 8 != 0 || !lies_in_heap(signal, 8, q.g.heap_bytes))))
    fault = message_fault::task_address, what = target != task_words::none && target >= q.g.heap_bytes ? target : signal,
    limit = q.g.heap_bytes;
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
  check_open(q.g, q.opening, "gravel_task_put", "the task queue", "");
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
  gravel::task_order o;
  if (gravel::make_order<Task>(o, t.queue, t.team, gravel::task_start::shaped, pe, target, payload, done, arguments...))
    gravel::send_from_task(t.queue, t.team, o, static_cast<uint32_t>(pe), true);
}
