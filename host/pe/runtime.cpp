// What the program asks of a PE: memory, collectives, completion, statistics.
#include "host/pe/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "host/node/aggregator_process.hpp"
#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

void runtime::set_context(uint32_t handler, const char* name, sink_kind kind, void* context) {
  const std::vector<handler_info> all = device_->handlers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const handler_info& h) { return h.id == handler; });
  if (found == all.end()) fail("gravel_set_context: gravel_init was not given handler '{}'", name);
  const auto at = found - all.begin();
  if (kind == sink_kind::host) store_release(&host_contexts_[at], context);  // [X1]
  else device_->store_pointer(&device_contexts_[at], context);
}

void runtime::read_queue_states(queue_state (&states)[n_queue_kinds]) {
  device_->copy(states, device_state_->queues, sizeof(states));
  // Host threads' own queues have their state here.
  for (queue_kind kind : {queue_kind::host, queue_kind::host_handler}) {
    const auto k = static_cast<uint32_t>(kind);
    states[k].tickets = load_acquire(&host_state_->queues[k].tickets);
  }
}

void runtime::quiet() {
  const profile_range range("gravel_quiet");
  device_->synchronize();
  settle_host();
  if (peers_->shares_gpu() || !device_->settle(kernel_handle_, nullptr, 0, [this] { check_device_error(); })) settle_kernels();
  check_device_error();  // before the receiver has seen it the program might end well
}

/// Until what host threads have sent is applied.
void runtime::settle_host() {
  const auto kind = static_cast<uint32_t>(queue_kind::host);
  segment_->queue_of(kind).flush(load_acquire(&host_state_->queues[kind].tickets));
  get_window& gets = host_state_->counters.gets;
  if (!gets.all_done()) wait_for_gets(gets, [this] { update_host_gets(); });
}

/// Until what kernels, which have ended, have sent is applied; looked at from the host.
void runtime::settle_kernels() {
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  for (queue_kind kind : {queue_kind::kernel_warp, queue_kind::kernel_block}) {
    const auto k = static_cast<uint32_t>(kind);
    segment_->queue_of(k).flush(states[k].tickets);
  }
  const std::vector<uint64_t> pushed = peers_->tickets();
  for (relax wait; !peers_->applied_below(pushed); wait()) {
  }
  for (relax wait;; wait()) {
    // These words alone: the counters as a whole are more than a backend copies with acquire order.
    uint64_t issued[2], done[2];
    const get_window& gets = device_state_->counters.gets;
    device_->copy(done, gets.done, sizeof(done));  // [G1]
    device_->copy(issued, gets.issued, sizeof(issued));
    if (done[0] >= issued[0] && done[1] >= issued[1]) break;
  }
}

void runtime::update_host_gets() {
  uint64_t done[2];
  device_->copy(done, device_state_->counters.host_gets_done, sizeof(done));  // [G1]
  for (int parity : {0, 1}) raise_to<scope::system>(&host_state_->counters.gets.done[parity], done[parity]);
}

void runtime::barrier_all() {
  const profile_range range("gravel_barrier_all");
  if (peers_->barrier().n == 0) {
    quiet();
    begin_collective(collective_kind::barrier).combine();
    return;
  }
  device_->synchronize();
  settle_host();
  auto call = begin_collective(collective_kind::barrier);
  device_->settle(kernel_handle_, &peers_->barrier(), call.number(), [&] {
    check_device_error();
    call.waits_without_aggregator();
  });
  check_device_error();
}

/// Four counts of this PE, and of its node if it is the node's first. Read in this order: a message that is missing
/// from a later count is still in an earlier one.
struct runtime::sample {
  uint64_t acked = 0, taken = 0, consumed = 0, tickets = 0;
  bool operator==(const sample&) const = default;
};

runtime::sample runtime::take_sample() {
  sample s;
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p) {
      s.acked += load_acquire(&segment_->control()->counts[p].acked);
    }
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment_->queue_of(kind);
    for (uint32_t p = 0; p < q.shape.n_planes; ++p) s.consumed += load_acquire(&q.control->plane[p].consumed);
  }
  const peers::counts pushed = peers_->read();
  s.consumed += pushed.applied;
  // After `consumed`: a slot seen consumed has its messages counted as taken.
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
      s.taken += load_acquire(&segment_->control()->counts[p].taken);
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  s.tickets = pushed.tickets;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    s.tickets += states[kind].tickets;
    // Nothing shall wait for its age now.
    segment_->queue_of(kind).ask_flush(states[kind].tickets);
  }
  return s;
}

void runtime::wait_quiescent() {
  const profile_range range("gravel_wait_quiescent");
  // Handlers that go on sending need the receiver all the time. Not where other processes wait for the device.
  struct hold_scope {
    backend* of;
    explicit hold_scope(backend* device) : of(device) {
      if (of) of->hold_receiver();
    }
    ~hold_scope() {
      if (of) of->release_receiver();
    }
  } const hold(peers_->shares_gpu() ? nullptr : device_.get());
  // Two equal samples, the second begun after the first was complete everywhere (Mattern 1987, four counters): if all
  // that was ticketed was consumed and all that was taken is acknowledged, nothing was in flight between them.
  quiet();
  auto call = begin_collective(collective_kind::quiescence);
  sample before{};
  bool have_before = false;
  for (relax wait;; wait()) {
    const sample mine = take_sample();
    collective_words words{};
    words.sum[0] = mine.acked;
    words.sum[1] = mine.taken;
    words.sum[2] = mine.consumed;
    words.sum[3] = mine.tickets;
    const collective_words all = call.combine(words);
    const sample now{all.sum[0], all.sum[1], all.sum[2], all.sum[3]};
    if (now.acked == now.taken && now.consumed == now.tickets && have_before && now == before) return;
    before = now;
    have_before = true;
  }
}

void runtime::report_stats(collective_member::call& call) {
  stats_row mine;
  if (is_leader_)
    for (uint32_t p = 0; p < segment_->shape().n_planes; ++p)
      for (uint32_t i = 0; i < n_stats; ++i) mine.value[i] += load_relaxed(&segment_->control()->stats[p][i]);
  device_counters counters;
  device_->copy(&counters, &device_state_->counters, sizeof(counters));
  mine[stat::messages_in_place] = counters.in_place() + host_state_->counters.in_place();
  mine[stat::messages_to_peers] = counters.to_peers();
  stats_row all;
  for (uint32_t i = 0; i < n_stats; i += 4) {
    collective_words words{};
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) words.sum[j] = mine.value[i + j];
    const collective_words sums = call.combine(words);
    for (uint32_t j = 0; j < 4 && i + j < n_stats; ++j) all.value[i + j] = sums.sum[j];
  }
  if (pe_ != 0) return;
  if (values_.stats) std::fputs(stats_text(all, nodes_.n_pes(), nodes_.n_nodes()).c_str(), stderr);
  if (!values_.stats_json.empty()) {
    std::ofstream out(values_.stats_json);
    if (!(out << stats_json(all, nodes_.n_pes(), nodes_.n_nodes())) || !out.flush())
      log_warning("GRAVEL_STATS_JSON: '{}' could not be written", values_.stats_json);
  }
}

/// From here on nothing that arrives is applied.
void runtime::stop_receiving() {
  stop_ = true;
  if (receiver_.joinable()) receiver_.join();
  device_->stop_receiver();
}

void runtime::finalize() {
  quiet();
  auto call = begin_collective(collective_kind::finalize);
  collective_words mine{};
  mine.most = values_.stats || !values_.stats_json.empty();  // if one PE wants them, all take part
  if (call.combine(mine).most) report_stats(call);
  // Owners free their memory after the last collective: by then nobody has it mapped.
  stop_receiving();
  check_device_error();
  peers_->forget();
  mine.last = 1;
  call.combine(mine);
  leaving_ = true;  // until our goodbye the aggregator stays
  channel_->send(goodbye_word{});
  if (aggregator_pid_ > 0 && !wait_for_aggregator(aggregator_pid_, 5000))
    log_warning("the aggregator of node {} did not end by itself", node_);
  boot_->finalize();
}

/// The socket would keep the aggregator from seeing this PE's end while the child lives.
void runtime::forget_in_child() {
  if (channel_) close(channel_->descriptor());
}

}  // namespace gravel
