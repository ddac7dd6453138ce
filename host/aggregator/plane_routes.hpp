// All channels of one plane: to each sink of the job, directly or through an intermediate node, and from each node that sends here.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "host/aggregator/inbound.hpp"
#include "host/aggregator/node_setup.hpp"
#include "host/aggregator/outbound.hpp"

namespace gravel {

class plane_routes {
 public:
  /// As for plane.
  plane_routes(const node_setup&, uint32_t index, const std::vector<remote_link*>& links, char* staging, char* transit, stats_row&);

  uint32_t n_sinks() const { return static_cast<uint32_t>(to_.size()); }
  /// The channel by which messages for this sink leave.
  outbound& to(uint32_t sink) const { return *to_[sink]; }
  /// The channel of what `node` sends for `sink`, which may be transit_sink; nullptr: it is not here.
  inbound* from(uint32_t node, uint32_t sink) const;
  /// The channel for which `node` sends credits; nullptr: nothing is sent there.
  outbound* credited_by(uint32_t node, uint32_t sink) const;
  /// Messages known to be applied, of all channels.
  uint64_t acked_messages() const;

 private:
  std::vector<std::unique_ptr<outbound>> outbounds_;
  std::vector<std::unique_ptr<inbound>> inbounds_;
  std::vector<outbound*> to_;                     ///< by sink
  std::vector<std::vector<inbound*>> from_;       ///< by source node: by local sink
  std::vector<inbound*> transit_from_;            ///< by source node
  std::vector<std::vector<outbound*>> credited_;  ///< by node: by sink there
  std::vector<outbound*> transit_to_;             ///< by intermediate node
};

}  // namespace gravel
