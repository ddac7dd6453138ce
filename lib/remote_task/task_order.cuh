// An order is a task before it is sent. This file writes an order into a slot at the PE that is to run the task:
// payload first, then the command (protocol: lib/remote_task/task_slot.hpp).
#pragma once
#include "lib/remote_task/task_credits.cuh"
#include "lib/remote_task/task_delivery.cuh"

namespace gravel::detail {

/// A command before it is sent, the same in all threads of the team: its words without the payload's words. On a GPU it
/// lies in registers, so all indices must be known to the compiler, and no code may take the address of a part of it.
struct task_order {
  uint64_t words[task_words::all];
  uint32_t n_words;
  gravel_payload payload;  ///< not among the words: it is gathered after them, or staged
  const uint64_t* steps;   ///< of a long chain, in memory of the sender: staged
  uint32_t step_words;
  uint32_t blocks;
  task_start start;

  /// Returns whether the payload is among the words that are sent.
  GRAVEL_BOTH bool inlines() const {
    return payload.bytes() != 0 && n_words <= task_words::payload && payload.bytes() <= task_words::most_payload &&
           payload.into.number == 0 && step_words == 0;
  }
  /// Returns whether the words hold everything.
  GRAVEL_BOTH bool is_small() const { return (payload.bytes() == 0 && step_words == 0) || inlines(); }
  GRAVEL_BOTH uint64_t step_bytes() const { return uint64_t{step_words} * sizeof(uint64_t); }
  GRAVEL_BOTH uint32_t sent_words() const {
    return inlines() ? task_words::payload + static_cast<uint32_t>((payload.bytes() + 7) / 8) : n_words;
  }
};

/// Returns bytes `at` to `at` + 8 of two pieces of memory in order; 0 after their end.
__host__ __device__ GRAVEL_NOINLINE inline uint64_t gather_bytes(const char* first, uint64_t first_bytes,
                                                                 const char* second, uint64_t bytes, uint64_t at) {
  uint64_t word = 0;
  for (uint32_t i = 0; i < 8 && at + i < bytes; ++i) {
    const uint64_t byte = at + i;
    const char c = byte < first_bytes ? first[byte] : second[byte - first_bytes];
    word |= uint64_t{static_cast<unsigned char>(c)} << 8 * i;
  }
  return word;
}
GRAVEL_BOTH uint64_t gather_word(const gravel_payload& p, uint64_t at) {
  const char *const first = static_cast<const char*>(p.first.data), *const second =
                                                                        static_cast<const char*>(p.second.data);
  if (at + 8 <= p.first.bytes && reinterpret_cast<uint64_t>(first + at) % 8 == 0)
    return *reinterpret_cast<const uint64_t*>(first + at);
  return gather_bytes(first, p.first.bytes, second, p.bytes(), at);
}

/// A host thread cannot read a GPU's memory, so it copies a small payload first.
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

// Functions that the fast route seldom needs are not inlined, so that the fast route stays in the instruction cache.
// They get a copy of the order in memory.

/// Returns word `i` of an order in memory.
GRAVEL_BOTH uint64_t word_of(const task_order& o, const gravel_payload& payload, uint32_t i) {
  return o.inlines() && i >= task_words::payload ? gather_word(payload, uint64_t{i - task_words::payload} * 8)
                                                 : o.words[i];
}
/// Stores words `rank`, `rank` + `size`, ... of an order; the first of them last. [T1]
__host__ __device__ GRAVEL_NOINLINE inline void store_words(const task_order& o, tagged_word* to, uint64_t tag,
                                                            uint32_t rank, uint32_t size) {
  const uint32_t n = o.sent_words();
  if (rank >= n) return;
  for (uint32_t i = rank + (n - 1 - rank) / size * size; i > rank; i -= size)
    store_tagged(to + i, word_of(o, o.payload, i), tag);
  store_tagged(to + rank, word_of(o, o.payload, rank), tag);
}
/// Sends the command over the route `net`. Thread scope: lane, or a host thread.
__host__ __device__ GRAVEL_NOINLINE inline void send_command(const gravel_t& g, const task_order& o, uint32_t pe,
                                                             uint64_t queue, uint64_t slot, uint64_t tag) {
  const small_payload small(o.payload, o.inlines());
  const uint32_t n = o.sent_words();
  command_words words;
  for (uint32_t i = 0; i < task_words::all; ++i) words.word[i] = i < n ? word_of(o, small.of, i) : 0;
  if (!o.is_small()) words.word[task_words::places] |= (o.payload.bytes() + o.step_bytes()) << 32;
  gravel_am<gravel_task_delivery>(g, static_cast<int>(pe), queue, slot, tag, words);
  gravel_flush(g);
}
/// Wakes the workers of `pe`. Thread scope: lane.
__host__ __device__ GRAVEL_NOINLINE inline void call_workers(const gravel_t& g, uint32_t pe, uint64_t queue,
                                                             uint64_t slot) {
  gravel_am<gravel_task_delivery>(g, static_cast<int>(pe), queue, slot, uint64_t{0}, command_words{});
}
/// Route `net`: sends data in parts of one message each. Each part adds its bytes to a counter [T3]. All parts have
/// about the same size. In a block each warp sends some of them, so that they are in flight together. Thread scope: the
/// team.
__host__ __device__ GRAVEL_NOINLINE inline void send_counted(const gravel_t& g, copy_team team, uint64_t to,
                                                             const char* from, uint64_t bytes, uint64_t counter,
                                                             uint32_t pe) {
  if (bytes == 0) return;
  team.sync();  // all threads have the leader's last value (copy_team::from_leader) before its next one
  const uint64_t most = uint64_t{most_bulk_units(g, bulk_queue(g, team, bytes)) - 2} * sizeof(unit);
  const uint64_t pieces = (bytes + most - 1) / most, units = (bytes + sizeof(unit) - 1) / sizeof(unit);
  const uint64_t each = (units + pieces - 1) / pieces * sizeof(unit);
  const bool by_warps = pieces > 1 && !team.is_warp() && team.size() >= 64;
  const copy_team mine = by_warps ? copy_team::warp(g, ~0u) : team;
  const uint32_t senders = by_warps ? team.size() / 32 : 1, number = by_warps ? team.rank() / 32 : 0;
  for (uint64_t done = number * each; done < bytes && number < senders; done += senders * each) {
    const uint64_t now = bytes - done < each ? bytes - done : each;
    put_bulk_by(g, mine, g.heap + to + done, from + done, now, static_cast<int>(pe),
                reinterpret_cast<uint64_t*>(g.heap + counter), now, GRAVEL_SIGNAL_ADD);
    mine.sync();
  }
  team.sync();
}

/// Writes an order into a slot. IN_REGISTERS: the order lies in registers on a GPU. Thread scope of its members: the
/// team.
template <bool IN_REGISTERS>
class open_order {
 public:
  GRAVEL_BOTH open_order(const gravel_task_handle& q, const task_order& o, uint32_t pe)
      : q_(q), o_(o), pe_(pe), start_(o.start), heap_(mapped_heap(q.g, static_cast<int>(pe))), target_heap_(heap_) {}
  /// Keeps the order in the own ring instead. A payload for a registered buffer goes there at once, if the buffer is
  /// mapped here; any other payload is kept with the order.
  GRAVEL_BOTH void keep_here() {
    pe_ = q_.g.my_pe;
    heap_ = q_.g.heap;
    start_ = task_start::forward;
  }
  GRAVEL_BOTH bool is_mapped() const { return heap_ != nullptr; }
  /// Does what is possible before the ticket is known: reads the word that this thread will write, and executes the
  /// fence if nothing is staged. The team must have synchronized since the payload was written. `fenced`: a party that
  /// sees the command sees what the team's threads wrote before.
  GRAVEL_BOTH void prepare(const copy_team& team, bool fenced) {
#if GRAVEL_ON_GPU
    if (IN_REGISTERS && o_.is_small() && team.rank() < o_.sent_words()) word_ = word(team.rank());
#endif
    // The leader's fence covers the whole team, since the team has synchronized before it and the leader writes the
    // word that is polled first. A command that is a message needs no fence: its slot is published by a release.
    if (o_.is_small() && fenced && is_mapped() && team.is_leader()) fence();
  }

  /// Writes payload and command into the slot of `ticket` in ring `ring`.
  GRAVEL_BOTH void send(const copy_team& team, uint32_t ring, uint64_t ticket) const {
    const uint64_t slot = q_.memory.slot(ring, ticket),
                   tag = task_tag::make(ticket, start_, o_.sent_words(), o_.blocks);
    if (!o_.is_small()) {
      stage(team, slot);
      team.sync();
      if (is_mapped() && team.is_leader()) fence();
    }
    if (is_mapped()) return write(team, reinterpret_cast<tagged_word*>(heap_ + slot), slot, tag);
    if (!team.is_leader()) return;
    const task_order in_memory = o_;  // the order may lie in registers
    send_command(*q_.kept, in_memory, pe_, q_.memory.at, slot, tag);
  }

 private:
  /// A fence for this GPU is enough if all that is stored stays at this PE. The task executes fences of its own before
  /// it notifies others. An order that is kept here may have its payload in a buffer of another PE already.
  GRAVEL_BOTH void fence() const {
    const bool is_payload_here = o_.payload.into.number == 0 || target_heap_ == q_.g.heap;
    if (is_self(q_.g, static_cast<int>(pe_)) && is_payload_here) thread_fence<scope::device>();
    else thread_fence();
  }
  GRAVEL_BOTH void write(const copy_team& team, tagged_word* to, [[maybe_unused]] uint64_t slot, uint64_t tag) const {
#if GRAVEL_ON_GPU
    if (!IN_REGISTERS) {
      store_words(o_, to, tag, team.rank(), team.size());
    } else if (team.size() < o_.sent_words()) {
      const task_order in_memory = o_;
      store_words(in_memory, to, tag, team.rank(), team.size());
    } else if (team.rank() < o_.sent_words()) {
      store_tagged(to + team.rank(), o_.is_small() ? word_ : word(team.rank()), tag);  // [T1]
    }
    if (!team.is_leader()) return;
    full_fence();
    if (load_relaxed(reinterpret_cast<const uint64_t*>(q_.g.heap + q_.memory.asleep(pe_))) != 0)
      call_workers(*q_.kept, pe_, q_.memory.at, slot);
#else
    store_words(o_, to, tag, team.rank(), team.size());  // workers of the CPU backend do not sleep
#endif
  }
  /// Copies the payload to the place after the words, or into its buffer, and the steps to the end of the slot.
  GRAVEL_BOTH void stage(const copy_team& team, uint64_t slot) const {
    const gravel_task_buffer& into = o_.payload.into;
    const bool is_kept = start_ == task_start::forward, in_buffer = into.number != 0 && (target_heap_ || !is_kept);
    uint64_t to = in_buffer ? into.offset + into.first : slot + sizeof(task_slot);
    char* heap = in_buffer ? target_heap_ : heap_;
    gravel_task_source from = o_.payload.first;
#if GRAVEL_ON_GPU
#pragma unroll 1
#endif
    for (int piece = 0; piece < 3; ++piece) {
      if (heap) copy_bytes(team, heap + to, static_cast<const char*>(from.data), from.bytes);
      else
        send_counted(*q_.kept, team, to, static_cast<const char*>(from.data), from.bytes,
                     slot + offsetof(task_slot, arrived), pe_);
      if (piece == 0) {
        to += from.bytes;
        from.data = o_.payload.second.data;
        from.bytes = o_.payload.second.bytes;
      } else {
        to = slot + q_.memory.slot_bytes - o_.step_bytes();
        heap = heap_;
        from.data = o_.steps;
        from.bytes = o_.step_bytes();
      }
    }
  }
#if GRAVEL_ON_GPU
  __device__ __forceinline__ uint64_t word(uint32_t i) const {
    if (o_.inlines() && i >= task_words::payload) return gather_word(o_.payload, uint64_t{i - task_words::payload} * 8);
    uint64_t w = 0;  // registers have no index
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < task_words::all; ++k)
      if (k == i) w = o_.words[k];
    return w;
  }
#endif

  const gravel_task_handle& q_;
  const task_order& o_;
  uint32_t pe_;
  task_start start_;
  char* heap_;         ///< where the command goes, as mapped here
  char* target_heap_;  ///< of the PE that runs the task, as mapped here
  [[maybe_unused]] uint64_t word_ = 0;
};

}  // namespace gravel::detail
