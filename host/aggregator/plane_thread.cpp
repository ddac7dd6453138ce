#include "host/aggregator/plane_thread.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/aggregator/clock.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel {
namespace {

std::vector<remote_link*> links_of(const plane_network* network, const topology& nodes) {
  return network ? network->links() : std::vector<remote_link*>(nodes.n_nodes());
}

}  // namespace

plane_thread::plane_thread(const node_setup& setup, uint32_t index, plane_network* network, char* staging, char* transit,
                           const placement& places, job_state& job)
    : setup_(setup),
      index_(index),
      network_(network),
      placement_(places),
      job_(job),
      plane_(setup, index, links_of(network, setup.nodes), staging, transit) {
  if (index == 0) duties_ = std::make_unique<node_duties>(setup, links_of(network, setup.nodes));
  if (!network) return;
  network->on_message([](void* self, std::span<const std::byte> header,
                         std::span<const std::byte> data) { static_cast<plane_thread*>(self)->receive(header, data); },
                      this);
}

void plane_thread::start() {
  thread_ = std::jthread([this] { run(); });
}

void plane_thread::join() {
  if (thread_.joinable()) thread_.join();
}

/// On the thread itself. A binding that is refused costs speed at most.
void plane_thread::bind() {
  if (placement_.threads.empty()) return;
  const cpu_set& wanted = placement_.threads[index_];
  if (const std::string why_not = bind_this_thread(wanted); !why_not.empty())
    return log_info("plane {} is not bound to processors {}: {}", index_, wanted.text(), why_not);
  binding_ = fmt::format("plane {} runs on processors {}, {}", index_, binding_of_this_thread().text(), placement_.reason);
  log_info("{}", binding_);
}

std::string plane_thread::describe() const {
  const std::string where = binding_.empty() ? "" : binding_ + "\n";
  return where + plane_.describe() + (duties_ ? duties_->describe() : std::string());
}

void plane_thread::receive(std::span<const std::byte> raw, std::span<const std::byte> data) {
  plane_header header;
  if (raw.size() != sizeof(header)) fail("a message with a header of {} bytes arrived", raw.size());
  std::memcpy(&header, raw.data(), sizeof(header));
  if (header.word == plane_word::abort) {
    heard_ = from_wire<abort_word>(data, fmt::format("node {}", header.source_node)).why;
    return;
  }
  if (header.word == plane_word::pulse && duties_) {
    duties_->receive(header, data);
    return;
  }
  received_ = true;
  const profile_range range("receive");
  if (plane_.receive(header, data, now_us())) return;
  if (!duties_) fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.word));
  duties_->receive(header, data);
}

/// Has somebody else found out that the job cannot go on?
bool plane_thread::has_failed(uint64_t now) {
  // The other node may have ended because the job is over, or may have sent the reason, or our launcher may know it.
  constexpr uint64_t lost_patience_us = 500'000;
  // Plane 0 knows the collectives, too.
  if (job_.has_stopped_pe() && duties_) job_.fail(job_.stopped_text() + ":\n" + describe());
  else if (network_ && !network_->lost().empty() && !job_.over && now - network_->lost_at() > lost_patience_us) job_.fail(network_->lost());
  else return false;
  return true;
}

/// True if anything moved.
bool plane_thread::round(uint64_t now) {
  bool moved = plane_.step(now) || received_;
  if (!duties_) return moved;
  moved |= duties_->step(now);
  if (duties_->over() && !job_.over.exchange(true) && network_) network_->expect_disconnects();
  return moved;
}

void plane_thread::run() {
  name_this_thread(fmt::format("gravel plane {}", index_).c_str());
  bind();
  relax wait;
  bool attentive = false;
  profile_wait waiting;
  uint64_t last_progress = now_us(), busy_since = 0;
  const uint64_t patience = setup_.values.watchdog_s * 1'000'000;
  try {
    while (!job_.stop) {
      received_ = false;
      const bool awake = network_ && network_->progress();
      if (!heard_.empty()) return job_.fail(heard_, true);
      const uint64_t now = now_us();
      if (busy_since) plane_.count_busy(now - std::exchange(busy_since, 0));
      if (has_failed(now)) return;
      if (round(now)) {
        wait.reset();
        waiting.end();
        last_progress = busy_since = now;
        continue;
      }
      const bool busy = plane_.busy();
      if (!busy) {
        last_progress = now;
      } else if (patience && now - last_progress > patience) {
        return job_.fail(fmt::format(
            "no progress for {} s (GRAVEL_WATCHDOG_S); a PE may be stopped, or its kernels may leave no room for the resolver:\n{}",
            setup_.values.watchdog_s, describe()));
      }
      if (awake) continue;
      waiting.in_vain(busy ? "wait" : "idle");
      const bool was_attentive = std::exchange(attentive, is_expecting());
      if (attentive && !was_attentive) wait.reset();
      if (busy) wait.briefly();
      else if (attentive) wait.attentively();
      else wait();
    }
    // Another plane gave up: how it stands here may say why.
    if (plane_.busy()) log_info("{}", describe());
  } catch (const std::exception& e) {
    job_.fail(e.what());
  }
}

/// May something come any moment?
bool plane_thread::is_expecting() const {
  return (duties_ && duties_->begun()) || std::any_of(setup_.local.begin(), setup_.local.end(), [](const pe_segment* segment) {
           return load_relaxed(&segment->control()->attention) != 0;
         });
}

}  // namespace gravel
