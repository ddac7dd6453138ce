// Parameters that all planes of an aggregator share, and the places of packets in the memory of other nodes. Both sides
// compute these places in the same way.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "host/node/segment.hpp"
#include "lib/base/topology.hpp"

namespace gravel::detail {

struct node_setup {
  topology nodes;
  uint32_t node = 0;
  bool one_host = false;           ///< all nodes are on one host
  settings values;                 ///< aggregator_threads resolved
  std::vector<pe_segment*> local;  ///< segments of the node's PEs, in order of PE
  spill_budget* spill = nullptr;
  injected_fault* fault = nullptr;  ///< may be nullptr
  /// Returns the name of a handler id, for error messages. The function may be empty.
  std::function<std::string(uint32_t)> handler_name;

  /// Number of the stream from (source node, plane) to a sink of `into`; and of that on which `into` forwards.
  uint32_t stream_of(uint32_t into, uint32_t source, uint32_t plane) const {
    return stream_among(nodes.sources_of(into), source, plane);
  }
  uint32_t transit_stream_of(uint32_t into, uint32_t source, uint32_t plane) const {
    return stream_among(nodes.transit_sources_of(into), source, plane);
  }
  /// Landing slots of (source node, plane) for a sink of `into`, as the source sees them.
  remote_slots remote_slots_of(uint32_t into, uint32_t sink, uint32_t source, uint32_t plane) const {
    const segment_shape shape = make_segment_shape(values, nodes, into);
    return {index_in(nodes.pes_of(into), pe_of_sink(sink)),
            (sink & 1) * shape.landing_bytes() + shape.landing().slot_at(stream_of(into, source, plane), 0)};
  }
  /// Transit slots of an intermediate node, as the source sees them.
  remote_slots remote_transit_of(uint32_t into, uint32_t source, uint32_t plane) const {
    return {static_cast<uint32_t>(nodes.pes_of(into).size()),
            transit_shape(into).slot_at(transit_stream_of(into, source, plane), 0)};
  }
  landing_shape transit_shape(uint32_t into) const {
    return {static_cast<uint32_t>(nodes.transit_sources_of(into).size() * values.aggregator_threads),
            static_cast<uint32_t>(values.packets_per_destination), values.packet_size};
  }
  /// Bytes of this node's transit memory (all planes), and of one plane's staging memory.
  uint64_t transit_bytes() const { return transit_shape(node).bytes(); }
  uint64_t staging_bytes() const {
    uint64_t destinations = nodes.transits_of(node).size();
    for (uint32_t target : nodes.targets_of(node))
      if (target != node) destinations += 2 * nodes.pes_of(target).size();
    return destinations * staging_bytes_each();
  }
  /// Bytes of the packets to one destination on another node.
  uint64_t staging_bytes_each() const { return values.packets_per_destination * values.packet_size; }

 private:
  static uint32_t index_in(const std::vector<uint32_t>& in, uint32_t what) {
    return static_cast<uint32_t>(std::lower_bound(in.begin(), in.end(), what) - in.begin());
  }
  uint32_t stream_among(const std::vector<uint32_t>& sources, uint32_t source, uint32_t plane) const {
    return index_in(sources, source) * static_cast<uint32_t>(values.aggregator_threads) + plane;
  }
};

}  // namespace gravel::detail
