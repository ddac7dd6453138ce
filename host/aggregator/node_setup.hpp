// What all planes of an aggregator are given, and where in the memory of other nodes their packets go: the same arithmetic on both
// sides.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/aggregator/outbound.hpp"
#include "host/node/segment.hpp"
#include "lib/base/topology.hpp"

namespace gravel {

struct node_setup {
  topology nodes;
  uint32_t node = 0;
  settings values;                 ///< aggregator_threads resolved
  std::vector<pe_segment*> local;  ///< segments of the node's PEs, in order of PE
  spill_budget* spill = nullptr;
  injected_fault* fault = nullptr;  ///< may be missing
  /// Name of a handler id, for errors; may be empty.
  std::function<std::string(uint32_t)> handler_name;
};

/// Number of the channel of (source node, plane) into the sinks of `node`, and among those that it forwards.
uint32_t channel_of(const node_setup&, uint32_t node, uint32_t source, uint32_t plane);
uint32_t transit_channel_of(const node_setup&, uint32_t node, uint32_t source, uint32_t plane);
/// Where the landing slots of (source node, plane) for a sink of `node` are, as seen from the source.
remote_slots remote_slots_of(const node_setup& local_view, uint32_t node, uint32_t sink, uint32_t source, uint32_t plane);
/// Same for the transit slots of an intermediate node.
remote_slots remote_transit_of(const node_setup&, uint32_t node, uint32_t source, uint32_t plane);
landing_shape transit_shape(const node_setup&, uint32_t node);
/// Bytes of one node's transit memory (all planes), and of one plane's staging memory.
uint64_t transit_bytes(const node_setup&);
uint64_t staging_bytes(const node_setup&);
/// Of the packets to one destination of another node.
uint64_t staging_bytes_each(const node_setup&);

}  // namespace gravel
