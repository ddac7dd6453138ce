#include "host/aggregator/aggregator.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "host/aggregator/aggregator_plane.hpp"
#include "lib/base/log.hpp"
#include "lib/base/relax.hpp"

namespace gravel {

aggregator::aggregator(int listener, uint32_t n_pes, pid_t parent, const settings& s)
    : listener_(listener), n_local_(n_pes), parent_(parent), injected_(s.fault) {
  setup_.values = s;
  setup_.fault = &injected_;
  spill_.limit = s.spill_size;
  setup_.spill = &spill_;
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe");
}

aggregator::~aggregator() {
  stop_ = true;
  planes_.clear();
  for (int end : wake_) close(end);
  remove_listener();
}

int aggregator::run() {
  accept_pes();
  placement_ = place_threads(setup_.values.aggregator_bind, bus_ids_,
                             static_cast<uint32_t>(setup_.values.aggregator_threads));
  if (placement_.threads.empty()) log_info("threads are not bound: {}", placement_.reason);
  wire();
  start_planes();
  for (auto& channel : channels_) channel.send(ready_word{});
  return watch_pes();
}

/// On the plane's own thread. A binding that is refused costs speed at most.
void aggregator::bind_plane(plane_thread& p) const {
  if (placement_.threads.empty()) return;
  const cpu_list& wanted = placement_.threads[p.index];
  if (const std::string why_not = bind_this_thread(wanted); !why_not.empty())
    return log_info("plane {} is not bound to processors {}: {}", p.index, text_of(wanted), why_not);
  p.binding = fmt::format("plane {} runs on processors {}, {}", p.index, text_of(binding_of_this_thread()), placement_.reason);
  log_info("{}", p.binding);
}

std::string aggregator::describe(const plane_thread& p) const {
  const std::string where = p.binding.empty() ? "" : p.binding + "\n";
  return where + p.work->describe() + (p.collectives ? p.collectives->describe() : std::string());
}

void aggregator::run_plane(plane_thread& p) {
  name_this_thread(fmt::format("gravel plane {}", p.index).c_str());
  bind_plane(p);
  relax wait;
  bool attentive = false;
  profile_wait waiting;
  uint64_t last_progress = now_us(), busy_since = 0;
  const uint64_t patience = setup_.values.watchdog_s * 1'000'000;
  // The other node may have ended because the job is over, or may have sent the reason, or our launcher may know it.
  constexpr uint64_t lost_patience = 500'000;
  try {
    while (!stop_) {
      p.received = false;
      const bool awake = p.worker && p.worker->progress();
      if (!p.heard.empty()) return fail_job(p.heard, true);
      const uint64_t now = now_us();
      if (busy_since) p.work->count_busy(now - std::exchange(busy_since, 0));
      // Plane 0 knows the collectives, too.
      if (pe_stopped_ && p.collectives) return fail_job(stopped_text_ + ":\n" + describe(p));
      if (!p.lost.empty() && !over_ && now - p.lost_at > lost_patience) return fail_job(p.lost);
      bool moved = p.work->step(now) || p.received;
      if (p.collectives) {
        for (auto& segment : segments_) store_relaxed(&segment.control()->aggregator_heartbeat, now);
        moved |= p.collectives->step();
        moved |= ring_bells();
        if (!over_) p.nodes->step(now);
        if (p.collectives->over() && !over_.exchange(true) && p.worker) p.worker->expect_disconnects();
      }
      if (moved) {
        wait.reset();
        waiting.end();
        last_progress = busy_since = now;
        continue;
      }
      const bool busy = p.work->busy();
      if (!busy) {
        last_progress = now;
      } else if (patience && now - last_progress > patience) {
        return fail_job(fmt::format("no progress for {} s (GRAVEL_WATCHDOG_S); a PE may be stopped, or its kernels may "
                                    "leave no room for the resolver:\n{}",
                                    setup_.values.watchdog_s, describe(p)));
      }
      if (awake) continue;
      waiting.in_vain(busy ? "wait" : "idle");
      const bool was_attentive = std::exchange(attentive, is_expecting(p));
      if (attentive && !was_attentive) wait.reset();
      if (busy) wait.briefly();
      else if (attentive) wait.attentively();
      else wait();
    }
    // Another plane gave up: how it stands here may say why.
    if (p.work->busy()) log_info("{}", describe(p));
  } catch (const std::exception& e) {
    fail_job(e.what());
  }
}

/// May something come any moment?
bool aggregator::is_expecting(const plane_thread& p) const {
  return (p.collectives && p.collectives->begun()) || std::any_of(segments_.begin(), segments_.end(), [](const pe_segment& segment) {
           return load_relaxed(&segment.control()->attention) != 0;
         });
}

/// A PE whose resolver sleeps does not see what its peers push into its memory: their kernels say so in their segments,
/// and we tell it. What a kernel stores is the time, so any change means new chunks.
bool aggregator::ring_bells() {
  bool rang = false;
  const size_t n = std::min<size_t>(segments_.size(), max_peers);
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to) {
      const uint64_t word = load_acquire(&segments_[from].control()->peer_bells[to]);
      if (word == seen_bells_[from * n + to]) continue;
      seen_bells_[from * n + to] = word;
      store_release(&segments_[to].control()->peer_bell, segments_[to].control()->peer_bell + 1);
      rang = true;
    }
  return rang;
}

}  // namespace gravel
