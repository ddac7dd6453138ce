// Checks that producers publish the slots that they claim. The aggregator sees a slot only once it is published. A slot
// may never be published, because its kernel has died or something has overwritten it. Only the PE's own tickets show
// that.
#pragma once
#include <fmt/format.h>

#include <array>
#include <string>

#include "host/pe/pe_memory.hpp"
#include "lib/base/error.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

class queue_watch {
 public:
  /// Shorter than that of the aggregator, which sees a flush behind the missing slot as a lack of progress: this PE
  /// knows the reason.
  static constexpr int patience = heartbeat_polls * 3 / 4;

  queue_watch(const pe_segment& segment, const pe_memory& memory) : segment_(segment), memory_(memory) {
    watches_.fill(stall_watch(patience));
  }

  /// Polls the queues once; a stall_watch of `limit_s` seconds counts the polls. Returns what is missing, in words, or
  /// an empty text. One thread at a time, any.
  std::string poll(uint64_t limit_s) {
    std::array<head, n_queue_kinds> heads;
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) heads[kind] = read_head(segment_.queue_of(kind));
    queue_state states[n_queue_kinds];
    memory_.read_queue_states(states);  // read after the heads, so that every consumed ticket is counted here
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      const auto& [ticket, published] = heads[kind];
      // All slots before it are free again, so its producer waits for no other party: it only has to write and publish.
      const bool is_missing = ticket != states[kind].tickets && published != ticket + 1;
      if (watches_[kind].poll(is_missing, ticket)) return describe(kind, heads[kind], states[kind].tickets, limit_s);
    }
    return {};
  }

 private:
  /// The lowest ticket that is not consumed, and the `published` word of its slot.
  struct head {
    uint64_t ticket, published;
  };
  static head read_head(const queue& q) {
    const uint64_t ticket = q.read_consumed();
    return {ticket, load_acquire(&q.slot(ticket)->published)};
  }
  std::string describe(uint32_t kind, const head& found, uint64_t tickets, uint64_t limit_s) const {
    const char* const name = name_of(static_cast<queue_kind>(kind));
    if (found.ticket > tickets)
      return fmt::format(
          "{}: {} slots are consumed, but only {} were claimed: something has written over the counts of the queue",
          name, found.ticket, tickets);
    return fmt::format(
        "{}: the slot of ticket {} was claimed and has not been published for {} s (three quarters of "
        "GRAVEL_WATCHDOG_S); {} tickets are "
        "claimed, and the slot says {} instead of {}: the kernel or thread that claimed it has ended or does not go "
        "on, or something has "
        "written over the slot",
        name, found.ticket, static_cast<double>(limit_s) * patience / heartbeat_polls, tickets, found.published,
        found.ticket + 1);
  }

  const pe_segment& segment_;
  const pe_memory& memory_;
  std::array<stall_watch, n_queue_kinds> watches_;
};

}  // namespace gravel::detail
