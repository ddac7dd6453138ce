// The queue between a PE's producers (kernel lanes, host threads) and its node's aggregator.
//
// It is a ring (ring.hpp) in memory that both sides see, across PCIe. The design follows the paper Gravel: Fine-Grain
// GPU-Initiated Network Messages, section 4.2, except that every shared word has one writer. The consumers are threads
// of the aggregator ("planes"). They share the queue without communication: plane i of P takes tickets i, i+P, i+2P,
// ... in order, alone. Its `done` is one count: the slots that it has freed.
//
// Only flushes are a protocol of the queue itself (test/models/flush.pml). A producer requests that everything with a
// ticket below a target is sent at once, and it waits until that is applied.
#pragma once
#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/relax.hpp"
#include "lib/base/ring.hpp"
#include "lib/base/row.hpp"
#include "lib/base/turn.hpp"

namespace gravel::detail {

constexpr uint32_t max_planes = 64;

/// The first line of a slot. Only the producer writes it.
struct alignas(64) slot_header {
  uint64_t published;  ///< ticket + 1 of what lies here; 0: nothing yet
  uint32_t n_rows;
  uint32_t n_units;  ///< units in the payload
  uint64_t spare[6];
};
static_assert(sizeof(slot_header) == 64);

/// A cache line of the consumer's words. It has one writer, plane i.
struct alignas(64) plane_line {
  uint64_t consumed;  ///< slots that this plane has taken and freed
  /// All tickets of this plane below this are taken, and their messages are applied at their destinations.
  uint64_t flush_done;
  uint64_t spare[6];
};
static_assert(sizeof(plane_line) == 64);

/// The shared words of a queue, in front of its slots.
struct alignas(128) queue_control {
  alignas(64) uint64_t flush_target;  ///< written by producers: tickets below this shall leave at once
  /// Like flush_target, but host threads write it, in a queue of their PE's kernels and handlers.
  uint64_t flush_target_of_host;
  alignas(64) plane_line plane[max_planes];
};
static_assert(sizeof(queue_control) == 64 * (2 + max_planes));

/// The sizes of a queue. A slot is [header][rows][payload]. Slots and payloads begin at multiples of 128 bytes, the
/// most that a GPU writes over PCIe at once.
struct queue_shape {
  uint32_t slots;          ///< power of two
  uint32_t max_rows;       ///< multiple of 8
  uint32_t payload_units;  ///< multiple of 4
  uint32_t n_planes;
  static constexpr uint32_t head_units = 4;  ///< in a slot of blocks: room for the head of a bulk message

  GRAVEL_BOTH uint64_t payload_offset() const {
    return whole_lines(sizeof(slot_header) + uint64_t{max_rows} * sizeof(message_row));
  }
  GRAVEL_BOTH uint64_t slot_bytes() const {
    return payload_offset() + whole_lines(uint64_t{payload_units} * sizeof(unit));
  }
  GRAVEL_BOTH static constexpr uint64_t whole_lines(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  /// The size of the queue in bytes, with queue_control.
  uint64_t bytes() const { return sizeof(queue_control) + slots * slot_bytes(); }

  /// The shape of a queue for warps: each slot has four units for each lane.
  static queue_shape of_warps(uint32_t slots, uint32_t n_planes) { return {slots, 32, 32 * max_small_units, n_planes}; }
  /// The shape of a queue for blocks: each slot has `payload_bytes` of data, and the head of a bulk message. It has
  /// room for a row per sink, and for a few sizes each. A slot with more rows than that is published early.
  static queue_shape of_blocks(uint32_t slots, uint64_t payload_bytes, uint32_t n_pes, uint32_t n_planes) {
    const auto units = static_cast<uint32_t>(payload_bytes / sizeof(unit)) / 4 * 4 + head_units;
    const uint32_t rows = n_pes <= 16 ? 64 : 4 * n_pes;
    return {slots, ((rows < units ? rows : units) + 7) / 8 * 8, units, n_planes};
  }
};

/// The words that only producers use, in the producers' memory (GPU memory for kernels).
struct queue_state {
  alignas(64) uint64_t tickets;         ///< slots claimed so far
  alignas(64) uint64_t consumed_below;  ///< cached: every ticket below this was consumed
  /// The time from which on a waiting lane may read the shared words, for all lanes that wait.
  alignas(64) uint64_t next_turn;
  alignas(64) uint64_t flushed_below;  ///< cached: every ticket below this is applied at its destination
  uint64_t requested;                  ///< the highest flush target that was requested
};

/// The lowest ticket of plane `p` of `n` that it has not taken yet, if it has taken `consumed` slots.
GRAVEL_BOTH uint64_t next_ticket(uint64_t consumed, uint32_t p, uint32_t n) { return consumed * n + p; }

/// A producer's view of a queue: plain data, passed to kernels by value inside gravel_t.
struct queue {
  queue_control* control;
  queue_state* state;
  char* slots;
  queue_shape shape;

  /// `memory`: shape.bytes() bytes. `state`: nullptr for a consumer, which needs none.
  static queue in(char* memory, queue_state* state, const queue_shape& shape) {
    return {reinterpret_cast<queue_control*>(memory), state, memory + sizeof(queue_control), shape};
  }

  GRAVEL_BOTH slot_header* slot(uint64_t ticket) const {
    return reinterpret_cast<slot_header*>(slots + (ticket & (shape.slots - 1)) * shape.slot_bytes());
  }
  GRAVEL_BOTH message_row* rows(slot_header* s) const { return reinterpret_cast<message_row*>(s + 1); }
  GRAVEL_BOTH unit* payload(slot_header* s) const {
    return reinterpret_cast<unit*>(reinterpret_cast<char*>(s) + shape.payload_offset());
  }

  /// The lowest ticket that is not yet consumed, read from the planes' words.
  GRAVEL_BOTH uint64_t read_consumed() const {
    return lowest_of_planes(
        [this](uint32_t p) { return next_ticket(ring<>::read_done(&control->plane[p].consumed), p, shape.n_planes); });
  }

  /// Claims a slot and waits until it is free. Thread scope: lane. The caller must call publish() afterwards.
  GRAVEL_BOTH uint64_t claim() const {
    const uint64_t ticket = fetch_add(&state->tickets, uint64_t{1});
    for (relax wait;; wait()) {
      if (slot_is_free(ticket, load_acquire<scope::device>(&state->consumed_below), shape.slots)) return ticket;
      if (in_turn([&] { return slot_is_free(ticket, raise_to(&state->consumed_below, read_consumed()), shape.slots); }))
        return ticket;
    }
  }

  /// Publishes what the group of the claiming lane wrote. The group must have synchronized before.
  GRAVEL_BOTH void publish(uint64_t ticket, slot_header* s, uint32_t n_rows, uint32_t n_units) const {
    s->n_rows = n_rows;
    s->n_units = n_units;
    ring<>::publish(&s->published, ticket);
  }

  /// Requests that the aggregator sends everything with a ticket below `target` at once. Does not wait. One call is
  /// enough.
  ///
  /// Many lanes store into one word, and there is no atomic maximum over PCIe: a lower target may overwrite a higher
  /// one. So lanes agree on the highest target in the producers' memory first, and each lane reads it again after its
  /// store.
  ///
  /// Let M be the highest target ever requested, and A the lane that raised `requested` to it. Then `flush_target` ends
  /// as M.
  /// Proof: suppose that the last store were a lower value v, by a lane B. When B read `requested` again after that
  /// store, it still found v, so A had not raised `requested` yet. But A stores M only after it has raised `requested`,
  /// so A's store came after B's: B's store was not the last.
  GRAVEL_BOTH void request_flush(uint64_t target) const {
    if (!state) {
      if (load_relaxed(&control->flush_target_of_host) < target)
        raise_to<scope::system>(&control->flush_target_of_host, target);
      return;
    }
    for (flush_request mine(*this, target); mine.request();) {
      full_fence();
      mine.poll_again();
    }
  }
  /// A flush request of a kernel, in single steps. A lane that requests flushes of several queues then waits for the
  /// stores of all of them at once.
  class flush_request {
   public:
    GRAVEL_BOTH flush_request(const queue& q, uint64_t target) : q_(q) {
      if (load_relaxed<scope::device>(&q.state->requested) < target) highest_ = raise_to(&q.state->requested, target);
    }
    /// Stores the target for the aggregator. If it returns true, a full fence and poll_again() must follow.
    GRAVEL_BOTH bool request() const {
      // A relaxed store is enough: the consumers only compare it with what they have taken.
      if (highest_) store_relaxed(&q_.control->flush_target, highest_);
      return highest_ != 0;
    }
    GRAVEL_BOTH void poll_again() {
      if (highest_ == 0) return;
      const uint64_t now = load_relaxed<scope::device>(&q_.state->requested);
      highest_ = now == highest_ ? 0 : now;
    }

   private:
    const queue& q_;
    uint64_t highest_ = 0;  ///< the target to store; 0: none
  };
  /// True if all planes have taken every ticket below `target`, and those messages are applied. Requests a flush if
  /// not.
  GRAVEL_BOTH bool flushed(uint64_t target) const {
    if (!state) {
      if (read_flushed() >= target) return true;
      request_flush(target);
      return false;
    }
    if (load_acquire<scope::device>(&state->flushed_below) >= target) return true;
    return in_turn([&] {
      request_flush(target);
      return raise_to(&state->flushed_below, read_flushed()) >= target;
    });
  }
  /// Waits until everything with a ticket below `target` is applied at its destination. Thread scope: lane.
  GRAVEL_BOTH void flush(uint64_t target) const {
    for (relax wait; !flushed(target); wait()) {
    }
  }
  GRAVEL_BOTH void flush_all() const { flush(load_acquire<scope::device>(&state->tickets)); }

 private:
  template <class F>
  GRAVEL_BOTH bool in_turn(F poll) const {
    return gravel::detail::in_turn(&state->next_turn, 500, poll);
  }
  GRAVEL_BOTH uint64_t read_flushed() const {
    const uint64_t below =
        lowest_of_planes([this](uint32_t p) { return load_acquire_later(&control->plane[p].flush_done); });
    acquire_now();
    return below;
  }
  template <class F>
  GRAVEL_BOTH uint64_t lowest_of_planes(F word_of) const {
    uint64_t lowest = ~0ull;
#if GRAVEL_ON_GPU
    // Each read crosses PCIe, so several are under way at once.
#pragma unroll 4
#endif
    for (uint32_t p = 0; p < shape.n_planes; ++p) {
      const uint64_t word = word_of(p);
      if (word < lowest) lowest = word;
    }
    return lowest;
  }
};

}  // namespace gravel::detail
