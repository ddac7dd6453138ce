// The aggregator's side of a queue (queue.hpp): one plane takes the tickets of its class, in order, alone.
//
// Problem. The producers are other processes, which may write into a slot at any time, also while it is taken.
// Solution. The plane copies header and table of rows once, checks the copy, and uses only the copy (read()). The
// messages stay where they are. Code that moves rows uses no value of a message to address memory, and code that
// applies a message checks it there.
#pragma once
#include <algorithm>
#include <vector>

#include "lib/base/queue.hpp"

namespace gravel::detail {

/// A copy of the header and the table of rows of a slot.
struct slot_table {
  explicit slot_table(uint32_t max_rows) : rows(max_rows) {}
  std::vector<message_row> rows;  ///< room for as many as a slot may have
  uint32_t n_rows = 0, n_units = 0;
};

/// The limits for what a producer publishes, besides those of the queue's shape.
struct slot_limits {
  uint32_t n_sinks;
  uint32_t message_units;  ///< units of the largest message
};

class queue_consumer {
 public:
  queue_consumer() = default;
  queue_consumer(const queue& q, uint32_t plane)
      : q_(q), plane_(plane), taken_(load_relaxed(&q.control->plane[plane].consumed)), released_(taken_) {}

  /// The number of slots that this plane has taken.
  uint64_t taken() const { return taken_; }
  /// The lowest ticket that this plane has not taken. It and all higher ones of its class are still to come.
  uint64_t next() const { return next_ticket(taken_, plane_, q_.shape.n_planes); }
  /// True if the slot of this ticket, next() or a later one, is published. Then the caller may read what the producer
  /// wrote.
  bool arrived(uint64_t ticket) const { return ring<>::arrived(&q_.slot(ticket)->published, ticket); }
  bool arrived() const { return arrived(next()); }
  /// Copies header and table of a slot that has arrived, and checks them. False: no correct producer publishes such a
  /// slot.
  bool read(uint64_t ticket, const slot_limits& limits, slot_table& to) const {
    slot_header* const slot = q_.slot(ticket);
    to.n_rows = load_relaxed(&slot->n_rows);
    to.n_units = load_relaxed(&slot->n_units);
    if (to.n_rows > q_.shape.max_rows || to.n_units > q_.shape.payload_units) return false;
    copy_once(to.rows.data(), q_.rows(slot), to.n_rows * sizeof(message_row));
    uint64_t units = 0;
    for (uint32_t r = 0; r < to.n_rows; ++r) {
      const message_row& row = to.rows[r];
      const uint64_t at = units;
      units += row.units();
      if (row.sink >= limits.n_sinks || !is_sound(row.kind) || units_for(row.kind, 1) > limits.message_units ||
          units > to.n_units)
        return false;
      if (row.messages > 1 &&
          (row.kind.units() > max_am_units || is_bulk_message(row.kind, words_at(payload(ticket) + at))))
        return false;
    }
    return units == to.n_units;
  }
  /// The messages of a slot that has arrived, where the producer wrote them.
  const unit* payload(uint64_t ticket) const { return q_.payload(q_.slot(ticket)); }
  /// Takes the next ticket. The slot keeps its contents until release().
  void take() {
    ++taken_;
    fetch_ahead();
  }
  /// The number of slots that were taken and not released, and the ticket of the first of them, or next() if there are
  /// none.
  uint64_t unreleased() const { return taken_ - released_; }
  uint64_t first_unreleased() const { return next_ticket(released_, plane_, q_.shape.n_planes); }
  /// Releases the first slot that was taken: the producers may overwrite it from now on.
  void release() { ring<>::mark_done(&q_.control->plane[plane_].consumed, ++released_); }
  /// Takes the slot and releases it at once. The plane must have released all others.
  void take_and_release() {
    take();
    release();
  }
  /// Tickets below this shall leave at once. The value may fall: the caller keeps the highest.
  uint64_t flush_target() const {
    return std::max(load_relaxed(&q_.control->flush_target), load_relaxed(&q_.control->flush_target_of_host));
  }

 private:
  /// Prefetches lines of slots to come while the plane works on this one: another device writes slots, so none of their
  /// lines is in this processor's caches. Lines after the header are prefetched only once the slot is published,
  /// because a producer writes a line faster if no other cache has it.
  void fetch_ahead() const {
    constexpr uint64_t ahead = 3, lines = 3, line = 64;
    const uint64_t ticket = next_ticket(taken_ + ahead, plane_, q_.shape.n_planes);
    __builtin_prefetch(q_.slot(next_ticket(taken_ + 2 * ahead, plane_, q_.shape.n_planes)));
    if (!arrived(ticket)) return;
    slot_header* const slot = q_.slot(ticket);
    for (uint64_t l = 0; l < lines; ++l) {
      __builtin_prefetch(reinterpret_cast<const char*>(slot + 1) + l * line);
      __builtin_prefetch(reinterpret_cast<const char*>(q_.payload(slot)) + l * line);
    }
  }

  queue q_{};
  uint32_t plane_ = 0;
  uint64_t taken_ = 0, released_ = 0;
};

}  // namespace gravel::detail
