// The main thread of an aggregator while the job runs. It watches the PEs of its node until all have left, or until the
// job cannot continue.
#pragma once
#include <poll.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "host/aggregator/collective.hpp"
#include "host/aggregator/gathering.hpp"
#include "host/aggregator/job_state.hpp"
#include "host/aggregator/sample_socket.hpp"
#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

class pe_watch {
 public:
  /// `notify_nodes`: ends the planes and notifies the other nodes why the job ends.
  pe_watch(local_pes& here, job_state& job, uint64_t watchdog_s, std::function<void(const std::string&)> notify_nodes)
      : here_(here),
        job_(job),
        watchdog_s_(watchdog_s),
        notify_nodes_(std::move(notify_nodes)),
        // The limit is twice that of the planes: if messages wait, the planes' message explains more.
        heartbeats_(here.pes.size(), stall_watch(2 * heartbeat_polls)),
        samples_(here, watchdog_s) {
    for (auto& segment : here.segments) segments_.push_back(&segment);
    for (const auto& socket : here.sockets) watched_.push_back({socket.descriptor(), POLLIN, 0});
    watched_.push_back({job.failed_descriptor(), POLLIN, 0});
    watched_.push_back({samples_.descriptor(), POLLIN, 0});
  }
  /// Name of the socket that gives samples of this node.
  const std::string& name_of_samples() const { return samples_.name(); }
  /// True: all PEs said goodbye after the job's last collective. False: the job has failed, and all PEs and nodes know
  /// why.
  bool run() {
    const uint64_t check_each_us = watchdog_s_ * 1'000'000 / heartbeat_polls;
    uint64_t check_at_us = now_us() + check_each_us;
    const auto has_left = [](const pollfd& w) { return w.fd < 0; };
    const size_t n_pes = here_.pes.size();
    while (!std::all_of(watched_.begin(), watched_.begin() + static_cast<ptrdiff_t>(n_pes), has_left)) {
      int poll_ms = -1;
      if (check_each_us) {
        // By the clock: whoever asks for samples must not put the checks off.
        const uint64_t now = now_us();
        if (now >= check_at_us) {
          check_for_stopped_pes();
          check_at_us = now + check_each_us;
        }
        poll_ms = static_cast<int>((check_at_us - std::min(now, check_at_us)) / 1000 + 1);
      }
      if (poll(watched_.data(), watched_.size(), poll_ms) <= 0) continue;
      if (watched_.back().revents) samples_.answer();
      if (watched_[n_pes].revents) {
        const auto [why, is_from_other_node] = job_.what_failed();
        if (is_from_other_node) log_info("the job ends: {}", why);
        else log_error("{}", why);
        notify_everybody(why);
        return false;
      }
      for (size_t i = 0; i < n_pes; ++i)
        if (watched_[i].revents && !receive_from(i)) return false;
    }
    return true;
  }

 private:
  /// A PE that is stopped sends nothing, and the parties that wait for it cannot know that. Called
  /// heartbeat_polls times in GRAVEL_WATCHDOG_S.
  void check_for_stopped_pes() {
    for (size_t i = 0; i < segments_.size(); ++i)
      if (heartbeats_[i].poll(watched_[i].fd >= 0, load_relaxed(&segments_[i]->control()->pe_heartbeat)))
        job_.find_stopped(
            fmt::format("PE {} (process {}) has not run for {} s (twice GRAVEL_WATCHDOG_S); is it stopped?",
                        here_.pes[i], here_.processes[i], 2 * watchdog_s_));
  }
  /// Receives a message of a PE, or notices its end. False: the job ends.
  bool receive_from(size_t i) {
    std::optional<frame> message;
    try {
      message = here_.sockets[i].receive();
    } catch (const std::exception& e) {
      log_error("{}", e.what());
    }
    if (message && message->kind == wire_kind::goodbye) {
      watched_[i].fd = -1;
      const std::string why = why_not_leave(segments_, here_.pes, i);
      if (why.empty()) return true;
      log_error("{}", why);
      notify_everybody(why);
      return false;
    }
    if (message && message->kind == wire_kind::abort) {  // the PE has printed the reason itself
      notify_everybody(message->as<abort_message>(fmt::format("PE {}", here_.pes[i])).why);
      return false;
    }
    const std::string why =
        fmt::format("PE {} (process {}) ended without gravel_finalize", here_.pes[i], here_.processes[i]);
    notify_everybody(why);
    // The launcher knows how the PE ended, and ends this process. Then its message is enough.
    wait_for_root_cause();
    log_error("{}", why);
    return false;
  }
  void notify_everybody(const std::string& why) {
    for (auto& socket : here_.sockets) try {
        socket.send(abort_message{why});
      } catch (const std::exception&) {
        // This PE has ended already.
      }
    notify_nodes_(why);
  }

  local_pes& here_;
  job_state& job_;
  uint64_t watchdog_s_;
  std::function<void(const std::string&)> notify_nodes_;
  std::vector<pe_segment*> segments_;
  std::vector<stall_watch> heartbeats_;
  sample_socket samples_;
  std::vector<pollfd> watched_;  ///< the PEs' sockets, -1 for those that have left; then job_state's, then samples_'
};

}  // namespace gravel::detail
