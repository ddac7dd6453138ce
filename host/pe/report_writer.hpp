// Writes what gravel-top shows of a PE and only the PE can read (pe_report). The aggregator reads it without a lock:
//
//   monitor of the PE                                  aggregator (host/aggregator/sample_socket.hpp)
//   long_wait_writes += 1: odd                         writes = long_wait_writes
//   writes long_wait                                   copies long_wait
//   long_wait_writes += 1: even                        the copy is whole if `writes` is even and the same again
#pragma once
#include <optional>
#include <vector>

#include "host/node/clock.hpp"
#include "host/node/segment.hpp"
#include "host/pe/pe_memory.hpp"
#include "host/pe/peers.hpp"
#include "lib/base/atomic.hpp"

namespace gravel::detail {

class report_writer {
 public:
  explicit report_writer(pe_report& shared) : shared_(shared) {}

  /// Writes the counts. One thread at a time, as write_wait().
  void write_counts(const pe_memory& memory, const std::vector<peers::counts>& rings) {
    const device_counters counters = memory.read_device_counters();
    queue_state states[n_queue_kinds];
    memory.read_queue_states(states);
    store_relaxed(&shared_.in_place, counters.in_place() + memory.host_counters().in_place());
    store_relaxed(&shared_.to_peers, counters.to_peers());
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) store_relaxed(&shared_.tickets[kind], states[kind].tickets);
    for (size_t rank = 0; rank < rings.size(); ++rank) {
      store_relaxed(&shared_.ring_applied[rank], rings[rank].applied);
      store_relaxed(&shared_.ring_sent[rank], rings[rank].tickets);
    }
    store_release(&shared_.written_us, now_us());
  }
  void write_wait(const wait_subject& subject) {
    const uint64_t writes = shared_.long_wait_writes;
    store_relaxed(&shared_.long_wait_writes, writes + 1);
    full_fence();
    shared_.long_wait = subject;
    store_relaxed(&shared_.long_wait_us, now_us());
    store_release(&shared_.long_wait_writes, writes + 2);
  }

 private:
  pe_report& shared_;
};

}  // namespace gravel::detail
