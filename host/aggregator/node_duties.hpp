// What one thread of a node, that of plane 0, does for all: collectives, pulses between nodes, bells of peers, the heartbeat.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/aggregator/collective.hpp"
#include "host/aggregator/node_watch.hpp"
#include "host/aggregator/peer_bells.hpp"

namespace gravel {

class node_duties {
 public:
  /// `links[n]`: to plane 0 of node n.
  node_duties(const node_setup&, const std::vector<remote_link*>& links);
  /// One round. True if anything moved. Throws gravel::error when the job cannot go on.
  bool step(uint64_t now_us);
  /// A message that is none of a plane's. False: of the job's progress it says nothing (a pulse).
  bool receive(const plane_header&, std::span<const std::byte> data);
  /// Has a collective begun that is not over?
  bool begun() const { return collectives_.begun(); }
  /// The job's last collective is over.
  bool over() const { return collectives_.over(); }
  std::string describe() const { return collectives_.describe(); }

 private:
  const node_setup& setup_;
  collective collectives_;
  node_watch nodes_;
  peer_bells bells_;
};

}  // namespace gravel
