// The aggregator's side of a queue (queue.hpp): one plane takes the tickets of its class, in order, alone.
#pragma once
#include <algorithm>

#include "lib/base/queue.hpp"

namespace gravel {

class queue_consumer {
 public:
  queue_consumer() = default;
  queue_consumer(const queue& q, uint32_t plane) : q_(q), plane_(plane), taken_(load_relaxed(&q.control->plane[plane].consumed)) {}

  /// Slots taken by this plane.
  uint64_t taken() const { return taken_; }
  /// The lowest ticket that this plane has not taken: it and all higher ones of its class are still to come.
  uint64_t next() const { return next_ticket(taken_, plane_, q_.shape.n_planes); }
  /// The slot of that ticket if it was published, else nullptr. What the producer wrote into it may be read then.
  slot_header* arrived() const {
    const uint64_t ticket = next();
    slot_header* slot = q_.slot(ticket);
    return ring<>::arrived(&slot->published, ticket) ? slot : nullptr;
  }
  /// Gives that slot back to the producers, who may overwrite it from now on.
  void release() { ring<>::mark_done(&q_.control->plane[plane_].consumed, ++taken_); }
  /// Tickets below this shall leave at once. Only grows if the caller keeps the highest.
  uint64_t flush_target() const {
    return std::max(load_relaxed(&q_.control->flush_target), load_relaxed(&q_.control->flush_target_of_host));
  }

 private:
  queue q_{};
  uint32_t plane_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace gravel
