// The threads of a PE beside the program's: one applies what arrives, one listens to the aggregator. And how a job ends in failure.
#include "host/pe/runtime.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "host/pe/describe_error.hpp"
#include "host/node/hello.hpp"
#include "host/node/stall_watch.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

void runtime::receive_loop() {
  name_this_thread("gravel receiver");
  runs_handlers = true;
  relax wait;
  try {
    while (!stop_.load(std::memory_order_relaxed)) {
      check_device_error();
      if (device_->receive()) wait.reset();
      else wait();
    }
  } catch (const std::exception& e) {
    abort_job(e.what(), 1);
  }
}

std::string runtime::name_of_handler(uint64_t id) const {
  for (const handler_info& h : device_->handlers())
    if (h.id == id) return h.name;
  return "unknown";
}

void runtime::check_device_error() {
  const device_error* of_device = &segment_->control()->error;
  const device_error* of_host = host_error_.get();
  for (const device_error* found : {of_device, of_host}) {
    if (load_acquire(&found->code) == 0) continue;  // [E1]
    abort_job(gravel::describe(*found, nodes_.n_pes(), values_.symmetric_size, [this](uint64_t id) { return name_of_handler(id); }), 1);
  }
}

/// The producers' side of the queues, which the aggregator cannot see, and the receiver.
std::string runtime::describe() {
  if (!running_) return "the job was still starting";
  queue_state states[n_queue_kinds];
  read_queue_states(states);
  std::string text;
  for (uint32_t kind = 0; kind < n_queue_kinds; ++kind) {
    const queue q = segment_->queue_of(kind);
    if (states[kind].tickets == 0) continue;
    text += fmt::format("{}: {} tickets, below {} known to be consumed, {} are; flushed below {} of {} asked\n",
                        name_of(static_cast<queue_kind>(kind)), states[kind].tickets, states[kind].consumed_below,
                        q.read_consumed(), states[kind].flushed_below, states[kind].asked);
  }
  return text + peers_->describe() + "\n" + device_->describe_receiver();
}

void runtime::monitor_loop() {
  name_this_thread("gravel monitor");
  try {
    auto word = wait_for_word();
    if (leaving_) return;
    ended_elsewhere_ = true;
    if (word && word->kind == wire_kind::abort) {
      // Whoever found out has printed it. The launcher shall see the end of that process first.
      log_info("the job ends: {}", word->as<abort_word>("the aggregator").why);
      if (log_enabled(log_level::info)) log_info("{}", describe());
      let_cause_speak();
    } else if (launcher_reports_) {
      let_cause_speak();
      log_error("{}", launcher_text_);
    } else {
      if (!is_leader_) let_cause_speak();
      log_error("{}", describe_lost_aggregator());
    }
  } catch (const std::exception& e) {
    if (leaving_) return;
    ended_elsewhere_ = true;
    if (!is_leader_) let_cause_speak();
    log_error("{}", e.what());
  }
  _exit(1);
}

/// The aggregator's next word. Meanwhile looks whether the aggregator runs at all (one that is stopped cannot tell), shows
/// that this process does, and watches the rings of the route peer, of which the aggregator knows nothing.
std::optional<frame> runtime::wait_for_word() {
  if (values_.watchdog_s == 0) return channel_->receive();
  pe_control& shared = *segment_->control();
  stall_watch aggregator, rings;
  for (;;) {
    pollfd watched{channel_->descriptor(), POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(values_.watchdog_s * 1000 / heartbeat_looks)) != 0) return channel_->receive();
    store_relaxed(&shared.pe_heartbeat, shared.pe_heartbeat + 1);
    if (aggregator.look(true, load_relaxed(&shared.aggregator_heartbeat)))
      fail("the aggregator of node {} has not run for {} s (GRAVEL_WATCHDOG_S); is it stopped?", node_, values_.watchdog_s);
    if (!running_) continue;
    const peers::counts pushed = peers_->read();
    if (rings.look(pushed.applied != pushed.tickets, pushed.applied))
      fail("no progress for {} s (GRAVEL_WATCHDOG_S) on the route peer; a peer may be stopped, or its kernels may leave no "
           "room for its resolver:\n{}", values_.watchdog_s, describe());
  }
}

std::string runtime::describe_lost_aggregator() const {
  if (!is_leader_) return fmt::format("lost the aggregator of node {}", node_);
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 1000 && ended == 0; ++i, usleep(1000)) ended = waitpid(aggregator_pid_, &status, WNOHANG);
  std::string how = "closed its connection";
  if (ended == aggregator_pid_ && WIFSIGNALED(status)) {
    how = fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (ended == aggregator_pid_) {
    how = fmt::format("ended with exit status {}; its message is above", WEXITSTATUS(status));
  }
  return fmt::format("the aggregator of node {} (process {}) {}", node_, aggregator_pid_, how);
}

void runtime::fail_without_aggregator() const {
  let_cause_speak();
  fail("while the job was starting, {}", describe_lost_aggregator());
}

void runtime::abort_job(const std::string& text, int status) {
  static std::atomic<bool> first{true};
  while (!first.exchange(false)) pause();
  // What is wrong with the program is often wrong in every PE: it is enough that PE 0 says so.
  if (pe_ != 0) let_cause_speak();
  while (ended_elsewhere_) pause();  // the monitor ends this process
  log_error("{}", text);
  leaving_ = true;
  try {
    if (channel_) channel_->send(abort_word{fmt::format("PE {}: {}", pe_, text)});
  } catch (const std::exception&) {
    // The aggregator is gone: it knows, then.
  }
  _exit(status >= 1 && status <= 255 ? status : 1);
}

}  // namespace gravel
