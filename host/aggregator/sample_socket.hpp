// Sends samples of this node to gravel-top.
//
// Problem. A process outside the job shall see how the job stands, and must not be able to disturb it.
// Solution. The aggregator listens at a socket of its own, whose name /proc/net/unix shows. Whoever connects gets one
// sample, if it is a process of the same user, and the connection is closed. The aggregator reads nothing from it, and
// does not wait until somebody has read the sample: a sample fits into the socket's buffer, or is lost.
//
// Invariants
// - A sample is made of words that planes and PEs write anyway, by the aggregator's main thread, which no message waits
//   for. It stores nothing in them.
// - Text of a PE's words is made from copies that are checked: a PE may write anything there.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "host/aggregator/gathering.hpp"
#include "host/node/clock.hpp"
#include "host/node/node_socket.hpp"
#include "host/node/sample.hpp"
#include "lib/base/atomic.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

inline queue_sample sample_of_queue(const queue& q) {
  uint64_t taken = 0, waiting = 0, flushed = ~uint64_t{0};
  for (uint32_t p = 0; p < q.shape.n_planes; ++p) {
    const uint64_t consumed = load_relaxed(&q.control->plane[p].consumed);
    taken += consumed;
    flushed = std::min(flushed, load_relaxed(&q.control->plane[p].flush_done));
    for (uint64_t i = 0; i <= q.shape.slots / q.shape.n_planes; ++i) {
      const uint64_t ticket = next_ticket(consumed + i, p, q.shape.n_planes);
      waiting += load_relaxed(&q.slot(ticket)->published) == ticket + 1;
    }
  }
  const uint64_t wanted =
      std::max(load_relaxed(&q.control->flush_target), load_relaxed(&q.control->flush_target_of_host));
  return {q.shape.slots, taken, waiting, wanted, flushed};
}

inline landing_sample sample_of_landing(const landing& ring) {
  uint64_t waiting = 0;
  for (uint32_t stream = 0; stream < ring.streams; ++stream)
    for (uint32_t packet = 0; packet < ring.packets; ++packet)
      waiting += load_relaxed(&ring.slot(stream, packet)->published) != load_relaxed(ring.done_of(stream, packet));
  return {ring.shape().n_slots(), load_relaxed(ring.arrivals), waiting};
}

/// What a kernel of the PE has reported, if the report is whole and not older than `most_us`; or an empty text.
inline std::string long_wait_of(const pe_report& report, uint64_t now_us, uint64_t most_us) {
  const uint64_t writes = load_acquire(&report.long_wait_writes), at = load_relaxed(&report.long_wait_us);
  const wait_subject subject = copy_once(report.long_wait);
  full_fence();
  if (at == 0 || at + most_us < now_us || writes % 2 || load_relaxed(&report.long_wait_writes) != writes) return {};
  return text_of(subject);
}

/// The sample of one PE. `with_messages`: with the number of messages to each PE.
inline pe_sample sample_of_pe(const pe_segment& segment, uint32_t pe, pid_t process, uint64_t watchdog_s,
                              bool with_messages) {
  const pe_control& shared = *segment.control();
  pe_sample made;
  made.pe = pe;
  made.process = static_cast<uint64_t>(process);
  made.kernels = load_relaxed(&shared.attention) != 0;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) made.queues.push_back(sample_of_queue(segment.queue_of(kind)));
  for (sink_kind kind : {sink_kind::device, sink_kind::host})
    made.landing.push_back(sample_of_landing(segment.landing_of(kind)));
  if (with_messages) made.messages_to.resize(segment.shape().n_pes);
  for (uint32_t plane = 0; with_messages && plane < segment.shape().n_planes; ++plane)
    for (uint32_t to = 0; to < segment.shape().n_pes; ++to)
      made.messages_to[to] += load_relaxed(&segment.messages_taken_by(plane)[to]);

  const collective_words begun = copy_once(shared.collective_in);
  collective_call call = begun.call;
  bool waits = begun.sequence > load_relaxed(&shared.collective_out.sequence);
  if (const uint64_t word = load_relaxed(&shared.waiting); word != 0) {
    call = call_of_waiting_word(word, pe);
    waits = true;
  }
  made.call = call.number;
  if (waits && call.kind < collective_kind::count) made.call_text = text_of(call);

  const pe_report& report = shared.report;
  const uint64_t report_limit_us = 4 * watchdog_s * 1'000'000 / heartbeat_polls;
  made.long_wait = long_wait_of(report, now_us(), report_limit_us);
  made.reported_us = load_acquire(&report.written_us);
  made.in_place = load_relaxed(&report.in_place);
  made.to_peers = load_relaxed(&report.to_peers);
  for (const uint64_t& tickets : report.tickets) made.claimed.push_back(load_relaxed(&tickets));
  for (uint32_t rank = 0; rank < max_peers; ++rank) {
    const uint64_t sent = load_relaxed(&report.ring_sent[rank]);
    const uint32_t to = load_relaxed(&shared.domain[rank]);
    if (sent != 0 && to < segment.shape().n_pes)
      made.rings.push_back({to, sent, load_relaxed(&report.ring_applied[rank])});
  }
  return made;
}

inline node_sample sample_of(const local_pes& here, uint64_t watchdog_s) {
  node_sample made;
  made.node = here.node;
  made.n_nodes = here.nodes.n_nodes();
  made.n_pes = here.nodes.n_pes();
  made.process = static_cast<uint64_t>(getpid());
  made.now_us = now_us();
  const pe_control& first = *here.segments[0].control();
  for (uint32_t p = 0; p < here.segments[0].shape().n_planes; ++p) {
    plane_sample plane{load_relaxed(&first.counts[p].taken), load_relaxed(&first.counts[p].acked), {}};
    for (uint32_t i = 0; i < n_stats; ++i) plane.stats.push_back(load_relaxed(&first.stats[p][i]));
    made.planes.push_back(std::move(plane));
  }
  constexpr uint64_t most_counts = 8192;  // a sample has to fit into the buffer of a socket
  const bool with_messages = uint64_t{made.n_pes} * here.pes.size() <= most_counts;
  for (size_t i = 0; i < here.pes.size(); ++i)
    made.pes.push_back(sample_of_pe(here.segments[i], here.pes[i], here.processes[i], watchdog_s, with_messages));
  return made;
}

class sample_socket {
 public:
  sample_socket(const local_pes& here, uint64_t watchdog_s) : here_(here), watchdog_s_(watchdog_s) {
    const std::string why_not = text_of_error([&] { listener_.emplace("sample"); });
    if (!why_not.empty()) log_info("gravel-top cannot watch this node: {}", why_not);
  }
  /// Becomes readable when somebody connects; -1: nobody can.
  int descriptor() const { return listener_ ? listener_->descriptor() : -1; }
  const std::string& name() const { return listener_->name(); }
  /// Answers one process that has connected. Never waits and never throws.
  void answer() {
    const int accepted = accept4(descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) return;
    node_socket to(accepted);
    const std::string why_not = text_of_error([&] {
      to.check_peer();
      to.send(sample_of(here_, watchdog_s_));
    });
    if (!why_not.empty()) log_info("no sample for gravel-top: {}", why_not);
  }

 private:
  const local_pes& here_;
  uint64_t watchdog_s_;
  std::optional<node_listener> listener_;
};

}  // namespace gravel::detail
