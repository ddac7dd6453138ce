// One thread of an aggregator. It steps its plane, receives messages from the same plane of other nodes, and ends the
// job if the job cannot continue. The thread of plane 0 also has duties for the whole node.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "host/aggregator/collective.hpp"
#include "host/aggregator/job_state.hpp"
#include "host/aggregator/network.hpp"
#include "host/aggregator/node_watch.hpp"
#include "host/aggregator/peer_doorbells.hpp"
#include "host/aggregator/placement.hpp"
#include "host/aggregator/plane.hpp"
#include "host/node/clock.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/profile.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

class plane_thread {
 public:
  /// `network`: nullptr if there is one node. `staging` and `transit` as for plane.
  plane_thread(const node_setup& setup, uint32_t index, plane_network* network, char* staging, char* transit,
               const placement& places, job_state& job)
      : setup_(setup),
        index_(index),
        network_(network),
        placement_(places),
        job_(job),
        plane_(setup, index, links_of(network, setup.nodes), staging, transit) {
    if (const auto links = links_of(network, setup.nodes); index == 0)
      duties_.reset(new node_duties{{setup, links}, {setup, links}, {setup, links}});
    if (!network) return;
    network->worker().on_am(
        plane_am,
        [](void* self, std::span<const std::byte> header, std::span<const std::byte> data) {
          static_cast<plane_thread*>(self)->receive(header, data);
        },
        this);
  }
  /// Starts the thread. All planes must be made before the first one starts.
  void start() {
    thread_ = start_thread<std::jthread>("the aggregator (GRAVEL_AGGREGATOR_THREADS)", [this] { run(); });
  }
  /// Waits for the end of the thread. job_state::stop asks the thread to end.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  plane_thread(const plane_thread&) = delete;
  plane_thread& operator=(const plane_thread&) = delete;

 private:
  static std::vector<remote_link*> links_of(const plane_network* network, const topology& nodes) {
    return network ? network->links() : std::vector<remote_link*>(nodes.n_nodes());
  }
  void run() {
    name_this_thread(fmt::format("gravel plane {}", index_).c_str());
    bind();
    relax wait;
    bool attentive = false;
    profile_wait waiting;
    uint64_t last_progress = now_us(), since = last_progress, put_ns = 0;
    std::optional<stat> doing;  // since `since`
    const uint64_t patience = setup_.values.watchdog_s * 1'000'000;
    try {
      while (!job_.stop) {
        received_ = false;
        const bool awake = network_ && network_->worker().progress();
        if (!why_elsewhere_.empty()) return job_.fail(why_elsewhere_, true);
        const uint64_t now = now_us();
        if (doing) plane_.count_time(*doing, now - since);
        since = now;
        if (has_failed(now)) return;
        if (round(now)) {
          wait.reset();
          waiting.end();
          last_progress = now;
          doing = stat::busy_us;
          if (network_)
            plane_.count_time(stat::put_us,
                              network_->put_ns() / 1000 - std::exchange(put_ns, network_->put_ns()) / 1000);
          continue;
        }
        doing = plane_.waits_for();
        const bool busy = plane_.busy();
        if (!busy) {
          last_progress = now;
        } else if (patience && now - last_progress > patience) {
          return job_.fail(
              fmt::format("no progress for {} s (GRAVEL_WATCHDOG_S); a PE may be stopped, or its kernels may leave no "
                          "room for the resolver:\n{}",
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
      // Another plane has failed. The state of this plane may explain why.
      if (plane_.busy()) log_info("{}", describe());
    } catch (const std::exception& e) {
      job_.fail(e.what());
    }
  }
  /// True if anything moved.
  bool round(uint64_t now) {
    bool moved = plane_.step(now) || received_;
    if (!duties_) return moved;
    for (pe_segment* segment : setup_.local) store_relaxed(&segment->control()->aggregator_heartbeat, now);
    moved |= duties_->collectives.step();
    if (!duties_->collectives.over()) {
      moved |= duties_->doorbells.pass_on(now);
      duties_->nodes.step(now);
    } else if (!job_.over.exchange(true) && network_) {
      network_->worker().expect_disconnects();
    }
    return moved;
  }
  /// Binds the thread itself. If the binding is refused, only speed suffers.
  void bind() {
    if (placement_.threads.empty()) return;
    const cpu_set& wanted = placement_.threads[index_];
    if (const std::string why_not = bind_this_thread(wanted); !why_not.empty())
      return log_info("plane {} is not bound to processors {}: {}", index_, wanted.text(), why_not);
    binding_ =
        fmt::format("plane {} runs on processors {}, {}", index_, binding_of_this_thread().text(), placement_.reason);
    log_info("{}", binding_);
  }
  void receive(std::span<const std::byte> raw, std::span<const std::byte> data) {
    plane_header header;
    if (raw.size() != sizeof(header)) fail("a message with a header of {} bytes arrived", raw.size());
    std::memcpy(&header, raw.data(), sizeof(header));
    if (header.kind == plane_message::abort) {
      why_elsewhere_ = from_wire<abort_message>(data, fmt::format("node {}", header.source_node)).why;
      return;
    }
    if (duties_) {
      if (header.kind == plane_message::pulse) return duties_->nodes.receive(header);
      if (header.kind == plane_message::doorbell) return duties_->doorbells.receive(header);
      if (header.kind == plane_message::waiting) return duties_->collectives.receive_waiting(header);
    }
    received_ = true;
    const profile_range range("receive");
    if (plane_.receive(header, data, now_us())) return;
    if (!duties_ || (header.kind != plane_message::contribution && header.kind != plane_message::result))
      fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.kind));
    duties_->collectives.receive(header, data);
  }
  /// True if a message may come any moment.
  bool is_expecting() const {
    return (duties_ && duties_->collectives.begun()) ||
           std::any_of(setup_.local.begin(), setup_.local.end(),
                       [](const pe_segment* segment) { return load_relaxed(&segment->control()->attention) != 0; });
  }
  /// True if another part of the aggregator has found that the job cannot continue.
  bool has_failed(uint64_t now) {
    // When a connection is lost, waits a moment: the job may be over, the other node may have sent the reason, or the
    // launcher of this node may know it.
    constexpr uint64_t lost_patience_us = 500'000;
    // Only plane 0 can describe the collectives, too.
    if (job_.has_stopped_pe() && duties_) job_.fail(job_.stopped_text() + ":\n" + describe());
    else if (network_ && !network_->lost().empty() && !job_.over && now - network_->lost_at() > lost_patience_us)
      job_.fail(network_->lost());
    else return false;
    return true;
  }
  std::string describe() const {
    const std::string where = binding_.empty() ? "" : binding_ + "\n";
    return where + plane_.describe() + (duties_ ? duties_->collectives.describe() : std::string());
  }

  const node_setup& setup_;
  uint32_t index_;
  plane_network* network_;
  const placement& placement_;
  job_state& job_;
  plane plane_;
  /// Duties of plane 0's thread for the whole node.
  struct node_duties {
    collective collectives;
    node_watch nodes;
    peer_doorbells doorbells;
  };
  std::unique_ptr<node_duties> duties_;
  bool received_ = false;      ///< in this round; UCX's own keep-alive traffic does not count as progress
  std::string binding_;        ///< how the thread is bound, in words; empty: it is not
  std::string why_elsewhere_;  ///< another node's reason for ending the job
  std::jthread thread_;
};

}  // namespace gravel::detail
