// All streams of one plane: to each sink of the job, directly or through an intermediate node, and from each node that
// sends here.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "host/aggregator/inbound.hpp"
#include "host/aggregator/node_setup.hpp"
#include "host/aggregator/outbound.hpp"

namespace gravel::detail {

class plane_routes {
 public:
  /// As for plane.
  plane_routes(const node_setup&, uint32_t index, const std::vector<remote_link*>& links, char* staging, char* transit,
               stats_row&);

  uint32_t n_sinks() const { return static_cast<uint32_t>(to_.size()); }
  /// The stream by which messages for this sink leave.
  outbound& to(uint32_t sink) const { return *to_[sink]; }
  /// The stream of what `node` sends for `sink`, which may be transit_sink; nullptr: it is not here.
  inbound* from(uint32_t node, uint32_t sink);
  /// The stream for which `node` sends credits; nullptr: nothing is sent there.
  outbound* credited_by(uint32_t node, uint32_t sink) const;
  /// Messages known to be applied, of all streams.
  uint64_t acked_messages() const;

 private:
  std::deque<outbound> outbounds_;
  std::vector<outbound*> to_;  ///< by sink
  using node_and_sink = std::pair<uint32_t, uint32_t>;
  std::map<node_and_sink, inbound> from_;        ///< by source, and sink here
  std::map<node_and_sink, outbound*> credited_;  ///< by who sends the credits, and sink there
};

}  // namespace gravel::detail
