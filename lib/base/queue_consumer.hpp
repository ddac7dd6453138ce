// The aggregator's side of a queue (queue.hpp): one plane takes the tickets of its class, in order, alone.
#pragma once
#include <algorithm>

#include "lib/base/queue.hpp"

namespace gravel {

class queue_consumer {
 public:
  queue_consumer() = default;
  queue_consumer(const queue& q, uint32_t plane)
      : q_(q), plane_(plane), taken_(load_relaxed(&q.control->plane[plane].consumed)), given_back_(taken_) {}

  /// Slots taken by this plane.
  uint64_t taken() const { return taken_; }
  /// The lowest ticket that this plane has not taken: it and all higher ones of its class are still to come.
  uint64_t next() const { return next_ticket(taken_, plane_, q_.shape.n_planes); }
  /// The slot of that ticket if it was published, else nullptr. What the producer wrote into it may be read then.
  slot_header* arrived() const { return arrived(next()); }
  /// The same of any ticket from there on.
  slot_header* arrived(uint64_t ticket) const {
    slot_header* slot = q_.slot(ticket);
    return ring<>::arrived(&slot->published, ticket) ? slot : nullptr;
  }
  /// Goes on to the next ticket; the slot stays as it is until it is given back.
  void take() {
    ++taken_;
    fetch_ahead();
  }
  /// Slots that were taken and not given back; the ticket of the first of them, or next() if there are none.
  uint64_t held() const { return taken_ - given_back_; }
  uint64_t first_held() const { return next_ticket(given_back_, plane_, q_.shape.n_planes); }
  /// Gives it back to the producers, who may overwrite it from now on.
  void give_back() { ring<>::mark_done(&q_.control->plane[plane_].consumed, ++given_back_); }
  /// Takes the slot and gives it back at once. No others may be held.
  void release() {
    take();
    give_back();
  }
  /// Tickets below this shall leave at once. Only grows if the caller keeps the highest.
  uint64_t flush_target() const {
    return std::max(load_relaxed(&q_.control->flush_target), load_relaxed(&q_.control->flush_target_of_host));
  }

 private:
  /// Slots lie in memory that another device writes, so none of their lines is in this processor's caches: those of slots to come are asked for
  /// while this one is worked on. What lies behind a header only once the slot is there: who writes a line should not find it elsewhere.
  void fetch_ahead() const {
    constexpr uint64_t ahead = 3, lines = 3, line = 64;
    const uint64_t ticket = next_ticket(taken_ + ahead, plane_, q_.shape.n_planes);
    __builtin_prefetch(q_.slot(next_ticket(taken_ + 2 * ahead, plane_, q_.shape.n_planes)));
    slot_header* const slot = arrived(ticket);
    if (!slot) return;
    for (uint64_t l = 0; l < lines; ++l) {
      __builtin_prefetch(reinterpret_cast<const char*>(slot + 1) + l * line);
      __builtin_prefetch(reinterpret_cast<const char*>(q_.payload(slot)) + l * line);
    }
  }

  queue q_{};
  uint32_t plane_ = 0;
  uint64_t taken_ = 0, given_back_ = 0;
};

}  // namespace gravel
