// The thread of a PE that listens to the aggregator and to the launcher, and checks that what the PE depends on makes
// progress. It ends the process when the job has ended elsewhere.
#pragma once
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "host/pe/job_end.hpp"
#include "host/pe/peers.hpp"
#include "host/pe/queue_watch.hpp"
#include "host/pe/report_writer.hpp"
#include "host/pe/service_watch.hpp"
#include "host/pe/wait_reports.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

class monitor {
 public:
  monitor(const membership& job, aggregator_link& link, job_end& end, pe_control& shared)
      : job_(job),
        link_(link),
        end_(end),
        shared_(shared),
        thread_(start_thread("the monitor of a PE", [this] { run(); })) {}
  /// Ends the thread if it still runs.
  ~monitor() { stop(); }
  monitor(const monitor&) = delete;
  monitor& operator=(const monitor&) = delete;

  /// Called when all is set up: watches these objects as well, of which the aggregator knows nothing. `describe`: the
  /// state of the PE in words, for a report about a job that makes no progress. All are used until stop().
  void watch(queue_watch& queues, const pe_memory& memory, peers& rings, service_watch& services,
             std::function<std::string()> describe) {
    queues_ = &queues;
    memory_ = &memory;
    rings_ = &rings;
    services_ = &services;
    describe_ = std::move(describe);
    watching_ = true;
  }
  /// The launcher reports the end of a PE, or has ended itself. Any thread.
  void report_from_launcher(const std::string& text) {
    launcher_text_ = text;
    launcher_reports_ = true;
    link_.shut_down();  // wakes the thread
  }
  void stop() {
    end_.leave();
    link_.shut_down();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    name_this_thread("gravel monitor");
    // A signal that the program handles would end a poll too early. The program has other threads for its signals.
    sigset_t signals;
    sigfillset(&signals);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    try {
      auto message = wait_for_message();
      if (end_.leaving()) return;
      end_.comes_from_elsewhere();
      if (message && message->kind == wire_kind::abort) {
        // The process that found the reason has printed it. The launcher shall see the end of that process first.
        const std::string text = fmt::format("the job ends: {}", message->as<abort_message>("the aggregator").why);
        if (job_.boot->has_launcher()) log_info("{}", text);
        else log_error("{}", text);
        if (log_enabled(log_level::info)) log_info("{}", describe());
        wait_for_root_cause();
      } else if (launcher_reports_) {
        wait_for_root_cause();
        log_error("{}", launcher_text_);
      } else {
        if (!job_.is_leader()) wait_for_root_cause();
        log_error("{}", link_.describe_lost());
      }
    } catch (const std::exception& e) {
      if (end_.leaving()) return;
      end_.comes_from_elsewhere();
      if (!job_.is_leader()) wait_for_root_cause();
      log_error("{}", e.what());
    }
    job_end::end_process(1);
  }
  /// Waits for the aggregator's next message. Meanwhile checks that the aggregator runs (one that is stopped cannot say
  /// so), shows that this process runs, and watches claimed slots, services and the rings of the route `peer`. Writes
  /// the report of this PE.
  std::optional<frame> wait_for_message() {
    const uint64_t limit_s = job_.values.watchdog_s;
    if (limit_s == 0) return link_.socket().receive();
    stall_watch aggregator;
    wait_reports waits(shared_.long_wait, limit_s * 1'000'000'000);
    report_writer report(shared_.report);
    std::vector<stall_watch> rings;  // by rank of the destination
    for (;;) {
      pollfd watched{link_.socket().descriptor(), POLLIN, 0};
      if (poll(&watched, 1, static_cast<int>(limit_s * 1000 / heartbeat_polls)) != 0) return link_.socket().receive();
      store_relaxed(&shared_.pe_heartbeat, shared_.pe_heartbeat + 1);
      if (aggregator.poll(true, load_relaxed(&shared_.aggregator_heartbeat)))
        fail("the aggregator of node {} has not run for {} s (GRAVEL_WATCHDOG_S); is it stopped?", job_.node, limit_s);
      if (const auto waits_long = waits.poll()) log_warning("{}", *waits_long);
      if (waits.last()) report.write_wait(*waits.last());
      if (!watching_) continue;
      if (const std::string missing = queues_->poll(limit_s); !missing.empty()) fail("{}\n{}", missing, describe());
      if (const std::string stopped = services_->poll(limit_s); !stopped.empty()) fail("{}\n{}", stopped, describe());
      const std::vector<peers::counts> pushed = rings_->read_each();
      report.write_counts(*memory_, pushed);
      rings.resize(pushed.size());
      for (uint32_t rank = 0; rank < pushed.size(); ++rank)
        if (rings[rank].poll(pushed[rank].applied != pushed[rank].tickets, pushed[rank].applied))
          fail(
              "no progress for {} s (GRAVEL_WATCHDOG_S) on the route peer to PE {}; that PE may be stopped, its "
              "kernels may leave no room "
              "for its "
              "resolver, or the kernel that claimed a chunk has ended:\n{}",
              limit_s, rings_->pe_of(rank), describe());
    }
  }
  std::string describe() const { return watching_ ? describe_() : "the job was still starting"; }

  const membership& job_;
  aggregator_link& link_;
  job_end& end_;
  pe_control& shared_;
  queue_watch* queues_ = nullptr;  ///< these five are written before watching_
  const pe_memory* memory_ = nullptr;
  peers* rings_ = nullptr;
  service_watch* services_ = nullptr;
  std::function<std::string()> describe_;
  std::atomic<bool> watching_{false};
  std::string launcher_text_;  ///< written before launcher_reports_
  std::atomic<bool> launcher_reports_{false};
  std::thread thread_;
};

}  // namespace gravel::detail
