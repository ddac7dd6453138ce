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
  node_duties(const node_setup& setup, const std::vector<remote_link*>& links)
      : setup_(setup), collectives_(setup, links), nodes_(setup, links), bells_(setup.local) {}
  /// One round. True if anything moved. Throws gravel::error when the job cannot go on.
  bool step(uint64_t now_us) {
    for (pe_segment* segment : setup_.local) store_relaxed(&segment->control()->aggregator_heartbeat, now_us);
    const bool moved = collectives_.step(), rang = bells_.pass_on();
    if (!over()) nodes_.step(now_us);
    return moved || rang;
  }
  /// A message that is none of a plane's.
  void receive(const plane_header& header, std::span<const std::byte> data) {
    if (header.word == plane_word::pulse) nodes_.receive(header);
    else if (header.word == plane_word::contribution || header.word == plane_word::result) collectives_.receive(header, data);
    else fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.word));
  }
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
