// Watches whether the previous node, in a ring of all nodes, still exists. If nothing is in flight, no other part would
// notice that it is gone: TCP tries for minutes before it gives up a host that has vanished, and UCX's keep-alive
// messages keep it trying.
#pragma once
#include <cstdint>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "lib/base/error.hpp"
#include "lib/base/stall_watch.hpp"

namespace gravel::detail {

class node_watch {
 public:
  /// `links[n]`: to plane 0 of node n.
  node_watch(const node_setup& setup, const std::vector<remote_link*>& links)
      : node_(setup.node),
        before_((node_ + setup.nodes.n_nodes() - 1) % setup.nodes.n_nodes()),
        watchdog_s_(setup.values.watchdog_s),
        to_(watchdog_s_ ? links[(node_ + 1) % setup.nodes.n_nodes()] : nullptr) {}
  /// Sends a pulse to the next node when it is time, and checks whether pulses have come from the previous one. Throws
  /// gravel::error if none has come for twice GRAVEL_WATCHDOG_S. (A missing packet is noticed after GRAVEL_WATCHDOG_S,
  /// and that message explains more.) Thread of plane 0.
  void step(uint64_t now_us) {
    if (!to_ || now_us < next_us_) return;
    next_us_ = now_us + watchdog_s_ * 1'000'000 / heartbeat_polls;
    to_->send({plane_message::pulse, node_, 0, 0, 0, 0, 0}, {});
    if (watch_.poll(true, received_))
      fail(
          "nothing has come from node {} for {} s (twice GRAVEL_WATCHDOG_S): its host may have vanished, or the "
          "network to it",
          before_, 2 * watchdog_s_);
  }
  void receive(const plane_header& header) {
    if (header.source_node != before_)
      fail("node {} sent a pulse; expected pulses of node {} only", header.source_node, before_);
    ++received_;
  }

 private:
  uint32_t node_, before_;
  uint64_t watchdog_s_;
  remote_link* to_;  ///< nullptr: there is one node, or no watchdog
  stall_watch watch_{2 * heartbeat_polls};
  uint64_t received_ = 0, next_us_ = 0;
};

}  // namespace gravel::detail
