// Is the node before this one, in a ring of all nodes, still there? Where nothing is in flight nobody would miss it: TCP tries
// for minutes before it gives up a host that has vanished, and what UCX sends to find out keeps it trying.
#pragma once
#include <cstdint>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "host/node/stall_watch.hpp"

namespace gravel {

class node_watch {
 public:
  /// `links[n]`: to plane 0 of node n.
  node_watch(const node_setup&, std::vector<remote_link*> links);
  /// When it is time: sends a pulse to the next node, and looks whether some have come from the one before. Throws
  /// gravel::error if none has for twice GRAVEL_WATCHDOG_S (what is in flight is missed after once that time, and tells more).
  /// Thread of plane 0.
  void step(uint64_t now_us);
  void receive(const plane_header&);

 private:
  uint32_t node_, before_, after_;
  uint64_t watchdog_s_;
  remote_link* to_;  ///< nullptr: there is one node, or no watchdog
  stall_watch watch_{2 * heartbeat_looks};
  uint64_t received_ = 0, next_us_ = 0;
};

}  // namespace gravel
