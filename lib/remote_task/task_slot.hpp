// Task slots: rings of slots in which tasks wait for their workers, in the symmetric heap of the PE that runs them. One
// source fills each ring.
//
// Problem. A worker must see a new task with one load, and a sender should need neither a lock nor an order of its
// stores.
// Solution. A slot begins with 28 tagged words: a value beside the tag of the ticket to which it belongs. On a GPU the
// two are written and read at once, so a word is whole when its tag is seen. A command needs no fence, and its words
// may arrive in any order. The tag of the first word is enough for a worker to know whether the task concerns it. A
// small payload is among the words; a larger one lies after them, or in a buffer that the program has registered with
// the queue. The steps of a long chain lie at the end of the slot.
//
// Protocol.
//   source                                             worker
//   ticket = tickets++ (in its own memory)             reads the first tag of the next slot of each ring
//   waits until done[ticket % slots] is                tag of this ticket, or a later one: if the task does not
//     ticket - slots + 1  [T2] acquire                   concern this worker, on to the next ticket
//   payload, steps; the team synchronizes; the         reads the words, the first again, each until its tag is
//     leader's fence                                     the ticket's  [T1] acquire
//   words with tags; the leader writes the first       [staged: waits until `arrived` is what the command says
//     [T1] release                                       [T3] acquire]
//                                                      runs; the last block to end: signal,
//                                                        done[ticket % slots] = ticket + 1  [T2] release
//
// When a worker polls, it reads all words of the ring that it served last: mostly the next task comes from there, and
// then the worker has the whole command.
//
// The leader's fence covers a payload that is not in the words, and what was written before the put if the handle says
// so. For the latter alone the fence is executed before the wait.
//
// Over the route `net` the parts of the payload and of the steps count their bytes in `arrived` [T3], wherever they go,
// and the command is an active message, whose handler writes the words.
//
// Invariants.
// - A slot is written only when all workers that have a part in its last task have ended their parts.
// - A worker that finds a later tag than that of its ticket had no part in it: otherwise it would have kept the slot.
// - Tickets only grow. Tags are their lower halves.
// - A command names a registered buffer by its number. The PE that runs the task finds the buffer in a table of its
//   own, so no offset of another PE's is used as it came.
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
/// Loads a word and its tag; acquires by the tag. [T1]
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
  shaped,  ///< by its shape: `warp` for one block of one warp, otherwise `workers`
  warp,    ///< the warp that finds the task runs it at once
  workers,
  launch,   ///< a thread of the host launches a kernel for it
  on_host,  ///< a thread of the host runs it
  forward   ///< a task of a worker that found no room at another PE: it waits in the own ring
};

struct task_tag {
  GRAVEL_BOTH static uint64_t make(uint64_t ticket, task_start start, uint32_t words, uint32_t blocks) {
    return (ticket + 1) << 32 | uint64_t{static_cast<uint8_t>(start)} << 24 | uint64_t{words} << 16 | blocks;
  }
  /// Returns 0 if the tag belongs to the ticket, less than 0 if it is older, more than 0 if it is newer.
  GRAVEL_BOTH static int32_t compare(uint64_t tag, uint64_t ticket) {
    return static_cast<int32_t>(static_cast<uint32_t>(tag >> 32) - static_cast<uint32_t>(ticket + 1));
  }
  GRAVEL_BOTH static task_start start(uint64_t tag) { return static_cast<task_start>(tag >> 24 & 0xff); }
  GRAVEL_BOTH static uint32_t words(uint64_t tag) { return tag >> 16 & 0xff; }
  GRAVEL_BOTH static uint32_t blocks(uint64_t tag) { return tag & 0xffff; }
};

/// The words of a command, as many as an active message holds. Arguments follow, then a payload of a few bytes or the
/// steps of a short chain.
struct task_words {
  static constexpr uint32_t all = 28;
  static constexpr uint32_t place = 0;  ///< of the payload in a registered buffer (buffer_place); 0: in none
  static constexpr uint32_t names = 1;  ///< id of the task << 32 | words of steps in the slot << 16 | PE that sent it
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

/// A place in a registered buffer, as a word: number of the buffer, from 1 on << 48 | bytes before the place.
struct buffer_place {
  static constexpr uint32_t most_buffers = 64;               ///< of a queue
  static constexpr uint64_t most_bytes = uint64_t{1} << 31;  ///< that a task may bring into a buffer
  GRAVEL_BOTH static uint64_t make(uint32_t number, uint64_t first) { return uint64_t{number} << 48 | first; }
  GRAVEL_BOTH static uint32_t number(uint64_t place) { return static_cast<uint32_t>(place >> 48); }
  GRAVEL_BOTH static uint64_t first(uint64_t place) { return place & ((uint64_t{1} << 48) - 1); }
};
/// A registered buffer in the table of a queue. The host writes it before any PE knows the buffer's number.
struct task_buffer_entry {
  uint64_t offset;  ///< in the heap
  uint64_t bytes;   ///< 0: no buffer has this number
};

/// A slot, in the memory of the PE that runs the task. A payload that is not in the words lies after it.
struct alignas(64) task_slot {
  tagged_word words[task_words::all];
  uint64_t arrived;  ///< bytes of the payload that have arrived over the route `net`; 0 between tasks [T3]
  uint64_t ended;    ///< blocks of the task that have ended; 0 between tasks
  uint64_t spare[6];
  GRAVEL_BOTH char* payload() { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(task_slot) == 512);

/// State of one ring at its sender.
struct alignas(64) task_line {
  uint64_t tickets;
  uint64_t ended;  ///< all tickets below this have ended; the `done` words may say more
};

/// A task for the host. The host reads entry i as number i, i + n, ... The descriptors lie in pinned memory; workers
/// write them.
struct alignas(32) task_descriptor {
  uint32_t ring, id;  ///< of the task
  uint64_t ticket, tag;
  uint64_t number;  ///< number of the descriptor + 1; written last [T4]
};

/// Numbers and sizes of a queue, the same at all PEs.
struct task_shape {
  uint32_t n_pes, slots, payload_bytes, workers;

  /// Rings into a PE: one for the kernels and tasks of each PE, one for the host of each PE, and the own ring of tasks
  /// that are to be forwarded.
  GRAVEL_BOTH uint32_t rings() const { return 2 * n_pes + 1; }
  GRAVEL_BOTH uint64_t slot_bytes() const { return sizeof(task_slot) + (payload_bytes + 63) / 64 * 64; }
  GRAVEL_BOTH uint64_t slots_at() const { return cursors_at() + lines(uint64_t{workers} * rings()); }
  GRAVEL_BOTH uint64_t cursors_at() const { return done_at() + lines(uint64_t{rings()} * slots); }
  GRAVEL_BOTH uint64_t done_at() const { return buffers_at() + buffer_place::most_buffers * sizeof(task_buffer_entry); }
  GRAVEL_BOTH uint64_t buffers_at() const { return asleep_at() + lines(n_pes); }
  GRAVEL_BOTH uint64_t asleep_at() const { return (4 + n_pes + 1) * sizeof(task_line); }
  GRAVEL_BOTH uint64_t bytes() const { return slots_at() + rings() * slots * slot_bytes(); }
  GRAVEL_BOTH uint64_t descriptors() const { return uint64_t{rings()} * slots; }
  static GRAVEL_BOTH uint64_t lines(uint64_t words) { return (words * 8 + 63) / 64 * 64; }
  bool operator==(const task_shape&) const = default;
};

/// The record at the beginning of a queue's memory: what the handler of commands from other nodes must know. A message
/// names a queue by the place of its record.
struct alignas(64) task_queue_record {
  uint64_t open;    ///< offset of the record + 1 while the queue is open at this PE
  uint64_t end;     ///< offset of the end of the queue's memory
  uint64_t asleep;  ///< offset of this PE's `asleep` word
  service_control* control;
};

/// Offsets in the symmetric memory of a queue, the same at all PEs.
///   line 0: task_queue_record  1: number of tasks that have ended here  2: descriptors
///   line 4 and following: task_line of the ring to each PE, then of the own ring
struct task_memory {
  uint64_t at;  ///< offset in the heap
  task_shape shape;
  uint32_t number;  ///< of the queue among open queues
  // Computed from the shape by the host, since every task needs them.
  uint32_t slot_bytes;
  uint64_t slots, dones, end;  ///< offsets in the heap; the end of the queue's memory

  static task_memory of(uint64_t at, const task_shape& shape, uint32_t number) {
    return {at,
            shape,
            number,
            static_cast<uint32_t>(shape.slot_bytes()),
            at + shape.slots_at(),
            at + shape.done_at(),
            at + shape.bytes()};
  }

  GRAVEL_BOTH uint64_t line(uint32_t i) const { return at + i * sizeof(task_line); }
  static constexpr uint32_t ended = 1, descriptors = 2, tickets = 4;
  /// Offset of a word: not 0 while no worker of that PE polls. Its workers write it in the memory of all PEs that they
  /// reach.
  GRAVEL_BOTH uint64_t asleep(uint32_t pe) const { return at + shape.asleep_at() + pe * sizeof(uint64_t); }
  /// Returns the offset of the task_buffer_entry of a buffer, by its number from 1 on.
  GRAVEL_BOTH uint64_t buffer(uint32_t which) const {
    return at + shape.buffers_at() + (which - 1) * sizeof(task_buffer_entry);
  }
  /// Returns whether an offset lies in the queue's own memory, which tasks must leave alone.
  GRAVEL_BOTH bool contains(uint64_t offset) const { return offset >= at && offset < end; }
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
