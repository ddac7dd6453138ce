// Quiet, barriers and quiescence of a PE (docs/message.md, "Credits and counts").
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "host/pe/backend.hpp"
#include "host/pe/collective_member.hpp"
#include "host/pe/pe_memory.hpp"
#include "host/pe/peers.hpp"
#include "host/pe/services.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

class completion {
 public:
  struct parts {
    backend& device;
    const pe_segment& segment;
    pe_memory& memory;
    peers& routes;
    collective_member& collectives;
    bool is_leader;                              ///< true at the first PE of a node, which counts for its aggregator
    std::function<void()> check;                 ///< ends the job if a kernel or a handler has failed
    const std::vector<open_service*>& services;  ///< open services
  };
  explicit completion(const parts& p) : p_(p) {}

  /// Returns when all messages of host threads, and of kernels that have ended, are applied.
  void quiet() {
    const profile_range range("gravel_quiet");
    p_.device.synchronize();
    settle_host();
    if (p_.routes.shares_gpu() || !p_.device.settle(settling::quiet, view(), 1, p_.check)) settle_kernels();
    p_.check();  // otherwise the program might end well before the receiver has seen the error
  }
  /// Collective: a quiet at all PEs.
  void barrier_all() {
    const profile_range range("gravel_barrier_all");
    if (p_.routes.rendezvous().n) return sync_on_devices(settling::barrier, collective_kind::barrier);
    quiet();
    p_.collectives.begin(collective_kind::barrier).combine();
  }
  /// Collective. Returns when no message is under way in the job, no handler runs, and services have applied all that
  /// was sent to them.
  void wait_quiescent() {
    const profile_range range("gravel_wait_quiescent");
    // Handlers that send again and again need the receiver all the time. Not done if other processes wait for the
    // device.
    backend* const kept = p_.routes.shares_gpu() ? nullptr : &p_.device;
    if (kept) kept->keep_receiver_resident();
    const std::unique_ptr<backend, void (*)(backend*)> lease(kept, [](backend* of) { of->release_receiver(); });
    // Handlers on the host send through a queue of the host, which devices do not see. All PEs have the same handlers.
    const handler_table handlers = p_.device.handlers();
    const bool hosts_send =
        std::any_of(handlers.begin(), handlers.end(), [](const handler_info& h) { return h.on_host; });
    if (p_.routes.rendezvous().n && !hosts_send)
      return sync_on_devices(settling::quiescence, collective_kind::quiescence);
    // Takes two equal samples, of which the second began after the first was complete everywhere (Mattern 1987, four
    // counters). If all tickets were consumed and all messages taken are acknowledged, nothing was in flight between
    // the samples.
    quiet();
    auto call = p_.collectives.begin(collective_kind::quiescence);
    std::optional<collective_words> before;
    for (relax wait;; wait()) {
      const collective_words now = call.combine(take_sample());
      const auto& [acked, taken, consumed, tickets] = now.sum;
      if (acked == taken && consumed == tickets && before && std::equal(now.sum, now.sum + 4, before->sum)) return;
      before = now;
    }
  }

 private:
  /// Four counts of this PE; the first PE of a node adds those of its aggregator. They are read in this order: a
  /// message that is missing in a later count is still in an earlier one.
  collective_words take_sample() {
    collective_words sample{};
    auto& [acked, taken, consumed, tickets] = sample.sum;
    const pe_control& control = *p_.segment.control();
    const uint32_t n_planes = p_.is_leader ? p_.segment.shape().n_planes : 0;
    for (uint32_t p = 0; p < n_planes; ++p) acked += load_acquire(&control.counts[p].acked);
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      const queue q = p_.segment.queue_of(kind);
      for (uint32_t p = 0; p < q.shape.n_planes; ++p) consumed += load_acquire(&q.control->plane[p].consumed);
    }
    const peers::counts pushed = p_.routes.read();
    consumed += pushed.applied;
    tickets = pushed.tickets;
    for (open_service* open : p_.services) {
      const open_service::counts served = open->read();
      consumed += served.applied;
      tickets += served.tickets;
    }
    // After `consumed`: the messages of a slot seen consumed are counted as taken.
    for (uint32_t p = 0; p < n_planes; ++p) taken += load_acquire(&control.counts[p].taken);
    queue_state states[n_queue_kinds];
    p_.memory.read_queue_states(states);
    for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
      tickets += states[kind].tickets;
      // Flushes, so that no packet waits for its age.
      p_.segment.queue_of(kind).request_flush(states[kind].tickets);
    }
    return sample;
  }
  settle_view view() const {
    settle_view v{};
    v.g = p_.memory.of_kernels();
    v.all = p_.routes.rendezvous();
    v.lines = p_.routes.lines();
    v.n_lines = p_.routes.n_sources();
    v.of_handlers = p_.memory.of_device_handlers().direct;
    for (const open_service* s : p_.services) v.service[v.n_services++] = {&s->view().block(0), s->view().shape.blocks};
    return v;
  }
  /// All PEs reach each other's memory, so the devices decide when all have come.
  void sync_on_devices(settling what, collective_kind kind) {
    p_.device.synchronize();
    settle_host();
    auto call = p_.collectives.begin(kind);
    p_.device.settle(what, view(), call.number(), [&] {
      p_.check();
      call.waits_without_aggregator();
    });
    packets_applied.load(std::memory_order_acquire);
    p_.check();
  }
  /// Waits until the messages of host threads are applied.
  void settle_host() {
    p_.segment.queue_of(static_cast<uint32_t>(queue_kind::host)).flush(p_.memory.host_tickets());
    get_window& gets = p_.memory.host_gets();
    if (!gets.all_done()) wait_for_gets(gets, [this] { p_.memory.update_host_gets(); });
  }
  /// Waits, on the host, until the messages of kernels that have ended are applied.
  void settle_kernels() {
    queue_state states[n_queue_kinds];
    p_.memory.read_queue_states(states);
    for (queue_kind kind : {queue_kind::kernel_warp, queue_kind::kernel_block}) {
      const auto k = static_cast<uint32_t>(kind);
      p_.segment.queue_of(k).flush(states[k].tickets);
    }
    const std::vector<uint64_t> pushed = p_.routes.tickets();
    for (relax wait; !p_.routes.applied_below(pushed); wait()) {
    }
    for (relax wait; !p_.memory.kernel_gets_done(); wait()) {
    }
  }
  parts p_;
};

}  // namespace gravel::detail
