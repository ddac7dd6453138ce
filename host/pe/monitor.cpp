#include "host/pe/monitor.hpp"

#include <poll.h>

#include "host/node/stall_watch.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"

namespace gravel {

monitor::monitor(const membership& job, aggregator_link& link, job_end& end, pe_control& shared)
    : job_(job), link_(link), end_(end), shared_(shared), thread_([this] { run(); }) {}

monitor::~monitor() { stop(); }

void monitor::stop() {
  end_.leave();
  link_.shut_down();
  if (thread_.joinable()) thread_.join();
}

void monitor::watch(peers& rings, service_watch& services, std::function<std::string()> describe) {
  rings_ = &rings;
  services_ = &services;
  describe_ = std::move(describe);
  watching_ = true;
}

void monitor::hear_of_launcher(const std::string& text) {
  launcher_text_ = text;
  launcher_reports_ = true;
  link_.shut_down();  // wakes the thread
}

void monitor::run() {
  name_this_thread("gravel monitor");
  try {
    auto word = wait_for_word();
    if (end_.leaving()) return;
    end_.comes_from_elsewhere();
    if (word && word->kind == wire_kind::abort) {
      // Whoever found out has printed it. The launcher shall see the end of that process first.
      log_info("the job ends: {}", word->as<abort_word>("the aggregator").why);
      if (log_enabled(log_level::info)) log_info("{}", describe());
      let_cause_speak();
    } else if (launcher_reports_) {
      let_cause_speak();
      log_error("{}", launcher_text_);
    } else {
      if (!job_.is_leader()) let_cause_speak();
      log_error("{}", link_.describe_lost());
    }
  } catch (const std::exception& e) {
    if (end_.leaving()) return;
    end_.comes_from_elsewhere();
    if (!job_.is_leader()) let_cause_speak();
    log_error("{}", e.what());
  }
  job_end::end_process(1);
}

/// The aggregator's next word. Meanwhile looks whether the aggregator runs at all (one that is stopped cannot tell), shows
/// that this process does, and watches services and the rings of the route peer.
std::optional<frame> monitor::wait_for_word() {
  const uint64_t limit_s = job_.values.watchdog_s;
  if (limit_s == 0) return link_.channel().receive();
  stall_watch aggregator, rings;
  for (;;) {
    pollfd watched{link_.channel().descriptor(), POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(limit_s * 1000 / heartbeat_looks)) != 0) return link_.channel().receive();
    store_relaxed(&shared_.pe_heartbeat, shared_.pe_heartbeat + 1);
    if (aggregator.look(true, load_relaxed(&shared_.aggregator_heartbeat)))
      fail("the aggregator of node {} has not run for {} s (GRAVEL_WATCHDOG_S); is it stopped?", job_.node, limit_s);
    if (!watching_) continue;
    if (const std::string stopped = services_->look(limit_s); !stopped.empty()) fail("{}\n{}", stopped, describe());
    const peers::counts pushed = rings_->read();
    if (rings.look(pushed.applied != pushed.tickets, pushed.applied))
      fail(
          "no progress for {} s (GRAVEL_WATCHDOG_S) on the route peer; a peer may be stopped, or its kernels may leave no room for its "
          "resolver:\n{}",
          limit_s, describe());
  }
}

}  // namespace gravel
