// All streams of one plane: to each sink of the job, directly or through an intermediate node, and from each node that
// sends to this one.
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
  /// Parameters as for plane.
  plane_routes(const node_setup&, uint32_t index, const std::vector<remote_link*>& links, char* staging, char* transit,
               stats_row&);

  uint32_t n_sinks() const { return static_cast<uint32_t>(to_.size()); }
  /// The stream that carries messages for this sink.
  outbound& to(uint32_t sink) const { return *to_[sink]; }
  /// The stream from `node` to `sink`, which may be transit_sink; nullptr: there is none.
  inbound* from(uint32_t node, uint32_t sink);
  /// The stream to which a credit from `node` for `sink` belongs; nullptr: there is none.
  outbound* credited_by(uint32_t node, uint32_t sink) const;
  /// Messages of all streams that are known to be applied.
  uint64_t acked_messages() const;

 private:
  std::deque<outbound> outbounds_;
  std::vector<outbound*> to_;  ///< by sink
  using node_and_sink = std::pair<uint32_t, uint32_t>;
  std::map<node_and_sink, inbound> from_;        ///< by source node, and sink at this node
  std::map<node_and_sink, outbound*> credited_;  ///< by the node that sends the credits, and sink there
};

}  // namespace gravel::detail
