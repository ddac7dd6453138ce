#include "host/aggregator/node_setup.hpp"

#include <algorithm>

namespace gravel {
namespace {

uint32_t index_in(const std::vector<uint32_t>& in, uint32_t what) {
  return static_cast<uint32_t>(std::lower_bound(in.begin(), in.end(), what) - in.begin());
}

}  // namespace

uint32_t channel_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return index_in(s.nodes.sources_of(node), source) * static_cast<uint32_t>(s.values.aggregator_threads) + plane;
}

uint32_t transit_channel_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return index_in(s.nodes.transit_sources_of(node), source) * static_cast<uint32_t>(s.values.aggregator_threads) + plane;
}

landing_shape transit_shape(const node_setup& s, uint32_t node) {
  return {static_cast<uint32_t>(s.nodes.transit_sources_of(node).size() * s.values.aggregator_threads),
          static_cast<uint32_t>(s.values.packets_per_destination), s.values.packet_size};
}

uint64_t staging_bytes_each(const node_setup& s) { return s.values.packets_per_destination * s.values.packet_size; }

remote_slots remote_slots_of(const node_setup& s, uint32_t node, uint32_t sink, uint32_t source, uint32_t plane) {
  const segment_shape shape = make_segment_shape(s.values, s.nodes, node);
  return {index_in(s.nodes.pes_of(node), pe_of_sink(sink)),
          (sink & 1) * shape.landing_bytes() + shape.landing().slot_at(channel_of(s, node, source, plane), 0)};
}

remote_slots remote_transit_of(const node_setup& s, uint32_t node, uint32_t source, uint32_t plane) {
  return {static_cast<uint32_t>(s.nodes.pes_of(node).size()),
          transit_shape(s, node).slot_at(transit_channel_of(s, node, source, plane), 0)};
}

uint64_t transit_bytes(const node_setup& s) { return transit_shape(s, s.node).bytes(); }

uint64_t staging_bytes(const node_setup& s) {
  uint64_t destinations = s.nodes.transits_of(s.node).size();
  for (uint32_t node : s.nodes.targets_of(s.node))
    if (node != s.node) destinations += 2 * s.nodes.pes_of(node).size();
  return destinations * staging_bytes_each(s);
}

}  // namespace gravel
