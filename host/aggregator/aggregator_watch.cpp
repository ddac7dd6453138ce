// How an aggregator ends: it watches its PEs, and when anything dies it tells everybody why.
#include <poll.h>
#include <unistd.h>

#include "host/aggregator/aggregator_plane.hpp"
#include "lib/base/log.hpp"

namespace gravel {

void aggregator::fail_job(const std::string& text, bool heard) {
  {
    std::lock_guard lock(failure_lock_);
    if (!failed_) {
      failure_ = text;
      failure_is_heard_ = heard;
    }
    failed_ = true;
  }
  [[maybe_unused]] const auto written = write(wake_[1], "!", 1);
}

void aggregator::tell_everybody(const std::string& text) {
  for (auto& channel : channels_) try {
      channel.send(abort_word{text});
    } catch (const std::exception&) {
      // That PE is gone already.
    }
  stop_ = true;
  for (auto& p : planes_)
    if (p->thread.joinable()) p->thread.join();
  if (!planes_.empty() && planes_[0]->worker) try {
      for (auto& link : planes_[0]->links)
        if (link) link->send({plane_word::abort, setup_.node, 0, 0, 0, 0, 0}, to_wire(abort_word{text}));
    } catch (const std::exception& e) {
      log_debug("{}", e.what());
    }
  end_planes();
}

/// Stops the planes' threads and delivers what they said last, an abort above all.
void aggregator::end_planes() {
  stop_ = true;
  for (auto& p : planes_)
    if (p->thread.joinable()) p->thread.join();
  for (auto& p : planes_)
    if (p->worker) try {
        p->worker->expect_disconnects();
        p->worker->close_endpoints(std::chrono::milliseconds(500));
      } catch (const std::exception& e) {
        log_debug("{}", e.what());
      }
}

/// A PE that is stopped sends nothing and answers nothing, and those that wait for it cannot know. Called after each
/// look in vain for words from the PEs; `watched[i].fd` is -1 for those that have left.
void aggregator::look_for_stopped_pes(const std::vector<pollfd>& watched) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool stopped = pe_watches_[i].look(watched[i].fd >= 0, load_relaxed(&segments_[i].control()->pe_heartbeat));
    if (!stopped || pe_stopped_) continue;
    stopped_text_ = fmt::format("PE {} (process {}) has not run for {} s (twice GRAVEL_WATCHDOG_S); is it stopped?", pes_[i],
                                pids_[i], 2 * setup_.values.watchdog_s);
    pe_stopped_ = true;  // a plane describes itself and ends the job
  }
}

int aggregator::watch_pes() {
  // Twice as patient as the planes, whose reason is the better one if messages wait.
  pe_watches_.assign(segments_.size(), stall_watch(2 * heartbeat_looks));
  const int look_ms = setup_.values.watchdog_s ? static_cast<int>(setup_.values.watchdog_s * 1000 / heartbeat_looks) : -1;
  std::vector<pollfd> watched;
  for (const auto& channel : channels_) watched.push_back({channel.descriptor(), POLLIN, 0});
  watched.push_back({wake_[0], POLLIN, 0});
  size_t left = channels_.size();
  while (left != 0) {
    const int n_ready = poll(watched.data(), watched.size(), look_ms);
    if (n_ready == 0) look_for_stopped_pes(watched);
    if (n_ready <= 0) continue;
    if (watched.back().revents) {
      std::string text;
      bool heard;
      {
        std::lock_guard lock(failure_lock_);
        text = failure_;
        heard = failure_is_heard_;
      }
      if (heard) log_info("the job ends: {}", text);
      else log_error("{}", text);
      tell_everybody(text);
      return 1;
    }
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (!watched[i].revents) continue;
      std::optional<frame> word;
      try {
        word = channels_[i].receive();
      } catch (const std::exception& e) {
        log_error("{}", e.what());
      }
      if (word && word->kind == wire_kind::goodbye) {
        if (const std::string why = why_not_leave(setup_.local, pes_, i); !why.empty()) {
          log_error("{}", why);
          tell_everybody(why);
          return 1;
        }
        watched[i].fd = -1;
        --left;
        continue;
      }
      // A PE that ends the job has said why on its own stderr.
      const std::string text = word && word->kind == wire_kind::abort
                                   ? word->as<abort_word>(fmt::format("PE {}", pes_[i])).why
                                   : fmt::format("PE {} (process {}) ended without gravel_finalize", pes_[i], pids_[i]);
      tell_everybody(text);
      if (!word || word->kind != wire_kind::abort) {
        // Its launcher knows how it ended, and ends us: then that is enough.
        let_cause_speak();
        log_error("{}", text);
      }
      return 1;
    }
  }
  // Our PEs are done, so all of the job is (they said goodbye after the last collective).
  over_ = true;
  end_planes();
  return 0;
}

}  // namespace gravel
