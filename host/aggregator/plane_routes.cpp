#include "host/aggregator/plane_routes.hpp"

namespace gravel {

plane_routes::plane_routes(const node_setup& setup, uint32_t index, const std::vector<remote_link*>& links, char* staging, char* transit,
                           stats_row& stats) {
  const topology& nodes = setup.nodes;
  const uint32_t me = setup.node, packets = static_cast<uint32_t>(setup.values.packets_per_destination);
  const settings& s = setup.values;
  const aggregation together = s.aggregation == "rows"       ? aggregation::rows
                               : s.aggregation == "messages" ? aggregation::messages
                                                             : aggregation::packets;
  const outbound::common common{me,          index,  packets,     s.packet_size, s.eager_size, s.zero_copy_size,
                                setup.spill, &stats, setup.fault, together};

  // Local sinks, and channels from other nodes into them.
  to_.resize(nodes.n_pes() * 2);
  from_.assign(nodes.n_nodes(), std::vector<inbound*>(nodes.n_pes() * 2));
  credited_.assign(nodes.n_nodes(), std::vector<outbound*>(nodes.n_pes() * 2));
  transit_from_.resize(nodes.n_nodes());
  transit_to_.resize(nodes.n_nodes());
  for (pe_segment* segment : setup.local)
    for (sink_kind kind : {sink_kind::device, sink_kind::host}) {
      const landing ring = segment->landing_of(kind);
      uint64_t* arrivals = &segment->control()->arrivals[static_cast<uint32_t>(kind)].packets;
      for (uint32_t from : nodes.sources_of(me)) {
        const uint32_t channel = channel_of(setup, me, from, index);
        if (from == me) {
          outbounds_.push_back(std::make_unique<outbound>(common, ring, channel, arrivals));
          to_[ring.sink] = outbounds_.back().get();
        } else {
          inbounds_.push_back(std::make_unique<inbound>(ring, channel, arrivals, from, *links[from]));
          from_[from][ring.sink] = inbounds_.back().get();
        }
      }
    }

  // Sinks of other nodes, sent to directly.
  const uint64_t staging_each = staging_bytes_each(setup);
  for (uint32_t node : nodes.targets_of(me)) {
    if (node == me) continue;
    for (uint32_t pe : nodes.pes_of(node))
      for (uint32_t sink : {sink_of(pe, sink_kind::device), sink_of(pe, sink_kind::host)}) {
        outbounds_.push_back(
            std::make_unique<outbound>(common, sink, *links[node], remote_slots_of(setup, node, sink, me, index), staging));
        staging += staging_each;
        to_[sink] = credited_[node][sink] = outbounds_.back().get();
      }
  }

  // Intermediate nodes, and channels of nodes for which this one is intermediate.
  for (uint32_t node : nodes.transits_of(me)) {
    outbounds_.push_back(
        std::make_unique<outbound>(common, transit_sink, *links[node], remote_transit_of(setup, node, me, index), staging));
    staging += staging_each;
    transit_to_[node] = outbounds_.back().get();
  }
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node)
    if (const uint32_t hop = nodes.next_hop(me, node); hop != node)
      for (uint32_t pe : nodes.pes_of(node)) to_[sink_of(pe, sink_kind::device)] = to_[sink_of(pe, sink_kind::host)] = transit_to_[hop];
  const landing_shape forwarded = transit_shape(setup, me);
  const landing transit_ring{transit,      nullptr,          nullptr, forwarded.channels, forwarded.packets, forwarded.packet_size,
                             transit_sink, nodes.n_pes() * 2};
  for (uint32_t from : nodes.transit_sources_of(me)) {
    inbounds_.push_back(std::make_unique<inbound>(transit_ring, transit_channel_of(setup, me, from, index), nullptr, from, *links[from]));
    transit_from_[from] = inbounds_.back().get();
  }
}

inbound* plane_routes::from(uint32_t node, uint32_t sink) const {
  if (sink == transit_sink) return transit_from_[node];
  return sink < n_sinks() ? from_[node][sink] : nullptr;
}

outbound* plane_routes::credited_by(uint32_t node, uint32_t sink) const {
  if (sink == transit_sink) return transit_to_[node];
  return sink < n_sinks() ? credited_[node][sink] : nullptr;
}

uint64_t plane_routes::acked_messages() const {
  uint64_t acked = 0;
  for (const auto& o : outbounds_) acked += o->acked_messages();
  return acked;
}

}  // namespace gravel
