// Where tasks wait for their workers: rings of slots in the symmetric heap of the PE that runs them, each filled by one source.
//
// A slot begins with 28 tagged words: a value beside the tag of the ticket that it belongs to. On a GPU the two are written and read at once, so a
// word is whole when its tag is seen: a command needs no fence, and its words may arrive in any order. What the tag of the first word says is enough for
// a worker to know whether the task concerns it. A payload that fits is among the words; another lies behind them.
//
//   source                                                    worker
//   ticket = tickets++ (in its own memory)                    look at the first tag of each ring's next slot
//   wait until done[ticket % slots] is ticket - slots + 1     the ticket's: is it mine? no: next. later: it was not mine. next
//     [T2] acquire                                            read the words, the first again, each until its tag is the ticket's  [T1] acquire
//   payload; its threads meet; the leader's fence             [staged: wait until `arrived` is what the command says  [T3] acquire]
//   words with tags; the first is the leader's  [T1] release  run; the last block to end: signal, done[ticket % slots] = ticket + 1  [T2] release
//
// Of the ring that was served last a worker reads all words when it looks at the tags: mostly the next task comes from there, and then the whole command is here.
// What the leader's fence is for: a payload that is not in the words, and what was written before the put if the handle says so. For the latter alone it is made
// before the wait.
// Over the route `net` the pieces of the payload count their bytes in `arrived` [T3], and the command is an active message, whose handler writes the words.
// Invariants: a slot is written only when all workers that have a part in its last task have ended theirs. A worker that finds a later tag than
// that of its ticket had no part in it: its own would have kept the slot. Tickets only grow; tags are their lower halves.
#pragma once
#include <cstdint>

#include "device/simt.hpp"
#include "lib/base/atomic.hpp"
#include "lib/base/message.hpp"

namespace gravel::detail {

struct service_control;

/// A word of a command. The tag: [63:32] ticket + 1, [31:24] start, [23:16] words in use, [15:0] blocks.
struct alignas(16) tagged_word {
  uint64_t value, tag;
};

GRAVEL_BOTH void store_tagged(tagged_word* to, uint64_t value, uint64_t tag) {
#if GRAVEL_ON_GPU
  asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.global.b128 [%0], both; }" ::"l"(to),
               "l"(value), "l"(tag)
               : "memory");
#else
  store_relaxed(&to->value, value);
  store_release(&to->tag, tag);
#endif
}
/// Acquire, by the tag. [T1]
GRAVEL_BOTH tagged_word load_tagged(const tagged_word* from) {
  tagged_word both;
#if GRAVEL_ON_GPU
  asm volatile("{ .reg .b128 both; ld.acquire.sys.global.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
               : "=l"(both.value), "=l"(both.tag)
               : "l"(from)
               : "memory");
#else
  both.tag = load_acquire(&from->tag);
  both.value = load_relaxed(&from->value);
#endif
  return both;
}

/// How a task is started.
enum class task_start : uint8_t {
  shaped,  ///< by its shape: `warp` for one block of one warp, else `workers`
  warp,    ///< by the warp that finds it, at once
  workers,
  launch,   ///< a kernel of its own, which a thread of the host launches
  on_host,  ///< a thread of the host runs it
  forward   ///< what a worker found no room for at another PE waits here in its own
};

struct task_tag {
  GRAVEL_BOTH static uint64_t make(uint64_t ticket, task_start start, uint32_t words, uint32_t blocks) {
    return (ticket + 1) << 32 | uint64_t{static_cast<uint8_t>(start)} << 24 | uint64_t{words} << 16 | blocks;
  }
  /// 0: it belongs to the ticket. Below: something older. Above: something newer.
  GRAVEL_BOTH static int32_t compare(uint64_t tag, uint64_t ticket) {
    return static_cast<int32_t>(static_cast<uint32_t>(tag >> 32) - static_cast<uint32_t>(ticket + 1));
  }
  GRAVEL_BOTH static task_start start(uint64_t tag) { return static_cast<task_start>(tag >> 24 & 0xff); }
  GRAVEL_BOTH static uint32_t words(uint64_t tag) { return tag >> 16 & 0xff; }
  GRAVEL_BOTH static uint32_t blocks(uint64_t tag) { return tag & 0xffff; }
};

/// The words of a command. [0] is not used. Then come arguments, then a payload of a few bytes or the chain behind the
/// task. As many as an active message holds.
struct task_words {
  static constexpr uint32_t all = 28;
  static constexpr uint32_t names = 1;  ///< id of the task << 32 | PE that sent it
  static constexpr uint32_t sizes =
      2;  ///< bytes of the payload << 32 | start << 16 | words of the chain << 8 | words of arguments
  static constexpr uint32_t target = 3;  ///< offset in the heap; `none`
  static constexpr uint32_t signal = 4;  ///< offset in the heap; `none`
  static constexpr uint32_t places =
      5;  ///< bytes that `arrived` counts << 32 | PE of the signal << 16 | PE that runs the task
  static constexpr uint32_t arguments = 6, payload = 16;
  static constexpr uint32_t most_arguments = payload - arguments, most_chain = all - payload,
                            most_payload = most_chain * sizeof(uint64_t);
  static constexpr uint64_t none = ~0ull;
};

/// In the memory of the PE that runs the task. The payload lies behind it.
struct alignas(64) task_slot {
  tagged_word words[task_words::all];
  uint64_t arrived;  ///< bytes of the payload, over the route `net`; 0 between tasks [T3]
  uint64_t ended;    ///< blocks of the task; 0 between tasks
  uint64_t spare[6];
  GRAVEL_BOTH char* payload() { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(task_slot) == 512);

/// Of one ring, at its sender.
struct alignas(64) task_line {
  uint64_t tickets;
  uint64_t ended;  ///< all tickets below this have ended; mostly behind what the `done` words say
};

/// Tasks that wait for the host; entry i is read by the host as number i, i + n, ... In pinned memory, written by
/// workers.
struct alignas(32) task_descriptor {
  uint32_t ring, id;  ///< of the task
  uint64_t ticket, tag;
  uint64_t number;  ///< + 1; written last [T4]
};

/// How many, and how large. The same at all PEs.
struct task_shape {
  uint32_t n_pes, slots, payload_bytes, workers;

  /// Rings into a PE: of each PE's kernels and tasks, of each PE's host, and its own for what is to be forwarded.
  GRAVEL_BOTH uint32_t rings() const { return 2 * n_pes + 1; }
  GRAVEL_BOTH uint64_t slot_bytes() const { return sizeof(task_slot) + (payload_bytes + 63) / 64 * 64; }
  GRAVEL_BOTH uint64_t slots_at() const { return cursors_at() + lines(uint64_t{workers} * rings()); }
  GRAVEL_BOTH uint64_t cursors_at() const { return done_at() + lines(uint64_t{rings()} * slots); }
  GRAVEL_BOTH uint64_t done_at() const { return asleep_at() + lines(n_pes); }
  GRAVEL_BOTH uint64_t asleep_at() const { return (4 + n_pes + 1) * sizeof(task_line); }
  GRAVEL_BOTH uint64_t bytes() const { return slots_at() + rings() * slots * slot_bytes(); }
  GRAVEL_BOTH uint64_t descriptors() const { return uint64_t{rings()} * slots; }
  static GRAVEL_BOTH uint64_t lines(uint64_t words) { return (words * 8 + 63) / 64 * 64; }
  bool operator==(const task_shape&) const = default;
};

/// Where the memory of a queue begins: what the handler that brings commands of other nodes must know of it. A message
/// names a queue by this place.
struct alignas(64) task_queue_record {
  uint64_t open;    ///< its own offset + 1 while the queue is open at this PE
  uint64_t end;     ///< offset behind the queue's memory
  uint64_t asleep;  ///< offset of this PE's word
  service_control* control;
};

/// Offsets in the symmetric memory of a queue; the same at all PEs.
///   line 0: task_queue_record  1: tasks ended here  2: descriptors  4...: task_line of each PE's ring, then of the own
struct task_memory {
  uint64_t at;  ///< offset in the heap
  task_shape shape;
  uint32_t number;  ///< among the queues that are open
  // Of the shape, worked out by the host, as these are on the way of each task.
  uint32_t slot_bytes;
  uint64_t slots, dones;  ///< offsets in the heap

  static task_memory of(uint64_t at, const task_shape& shape, uint32_t number) {
    return {at, shape, number, static_cast<uint32_t>(shape.slot_bytes()), at + shape.slots_at(), at + shape.done_at()};
  }

  GRAVEL_BOTH uint64_t line(uint32_t i) const { return at + i * sizeof(task_line); }
  static constexpr uint32_t ended = 1, descriptors = 2, tickets = 4;
  /// Not 0: no worker of that PE looks. Written by its workers in the memory of all PEs that they reach.
  GRAVEL_BOTH uint64_t asleep(uint32_t pe) const { return at + shape.asleep_at() + pe * sizeof(uint64_t); }
  GRAVEL_BOTH uint64_t done(uint32_t ring, uint64_t ticket) const {
    return dones + uint64_t{index(ring, ticket)} * sizeof(uint64_t);
  }
  GRAVEL_BOTH uint64_t cursor(uint32_t worker, uint32_t ring) const {
    return at + shape.cursors_at() + (uint64_t{worker} * shape.rings() + ring) * sizeof(uint64_t);
  }
  GRAVEL_BOTH uint64_t slot(uint32_t ring, uint64_t ticket) const {
    return slots + uint64_t{index(ring, ticket)} * slot_bytes;
  }

 private:
  GRAVEL_BOTH uint32_t index(uint32_t ring, uint64_t ticket) const {
    return ring * shape.slots + (static_cast<uint32_t>(ticket) & (shape.slots - 1));
  }
};

}  // namespace gravel::detail
