#include "host/aggregator/plane_routes.hpp"

#include <array>

namespace gravel::detail {

plane_routes::plane_routes(const node_setup& setup, uint32_t index, const std::vector<remote_link*>& links,
                           char* staging, char* transit, stats_row& stats) {
  const topology& nodes = setup.nodes;
  const uint32_t me = setup.node, packets = static_cast<uint32_t>(setup.values.packets_per_destination);
  const settings& s = setup.values;
  aggregation together = aggregation::packets;
  if (s.aggregation == "rows") together = aggregation::rows;
  else if (s.aggregation == "messages") together = aggregation::messages;
  const outbound::common common{me,          index,  packets,     s.packet_size, s.eager_size, s.zero_copy_size,
                                setup.spill, &stats, setup.fault, together};

  // Local sinks, and streams from other nodes into them.
  to_.resize(nodes.n_pes() * 2);
  for (pe_segment* segment : setup.local)
    for (sink_kind kind : {sink_kind::device, sink_kind::host}) {
      const landing ring = segment->landing_of(kind);
      uint64_t* arrivals = &segment->control()->arrivals[static_cast<uint32_t>(kind)].packets;
      for (uint32_t from : nodes.sources_of(me)) {
        const uint32_t stream = setup.stream_of(me, from, index);
        if (from == me) to_[ring.sink] = &outbounds_.emplace_back(common, ring, stream, arrivals);
        else from_.try_emplace({from, ring.sink}, ring, stream, arrivals, from, *links[from]);
      }
    }

  // Direct streams to the sinks of other nodes. Then streams to intermediate nodes, which carry what goes to nodes
  // behind them.
  const auto send_to = [&, each = setup.staging_bytes_each()](uint32_t node, uint32_t sink, const remote_slots& there) {
    credited_[{node, sink}] = &outbounds_.emplace_back(common, sink, *links[node], there, staging);
    staging += each;
    return &outbounds_.back();
  };
  const auto sinks_of = [](uint32_t pe) {
    return std::array{sink_of(pe, sink_kind::device), sink_of(pe, sink_kind::host)};
  };
  for (uint32_t node : nodes.targets_of(me))
    for (uint32_t pe : nodes.pes_of(node))
      for (uint32_t sink : sinks_of(pe))
        if (node != me) to_[sink] = send_to(node, sink, setup.remote_slots_of(node, sink, me, index));
  for (uint32_t node : nodes.transits_of(me)) send_to(node, transit_sink, setup.remote_transit_of(node, me, index));
  for (uint32_t node = 0; node < nodes.n_nodes(); ++node)
    if (const uint32_t hop = nodes.next_hop(me, node); hop != node)
      for (uint32_t pe : nodes.pes_of(node))
        for (uint32_t sink : sinks_of(pe)) to_[sink] = credited_.at({hop, transit_sink});

  // Streams of nodes for which this one is an intermediate node.
  const landing_shape forwarded = setup.transit_shape(me);
  const landing transit_ring{transit,           nullptr,           nullptr,
                             forwarded.streams, forwarded.packets, forwarded.packet_size,
                             transit_sink,      nodes.n_pes() * 2};
  for (uint32_t from : nodes.transit_sources_of(me))
    from_.try_emplace({from, transit_sink}, transit_ring, setup.transit_stream_of(me, from, index), nullptr, from,
                      *links[from]);
}

inbound* plane_routes::from(uint32_t node, uint32_t sink) {
  const auto found = from_.find({node, sink});
  return found == from_.end() ? nullptr : &found->second;
}

outbound* plane_routes::credited_by(uint32_t node, uint32_t sink) const {
  const auto found = credited_.find({node, sink});
  return found == credited_.end() ? nullptr : found->second;
}

uint64_t plane_routes::acked_messages() const {
  uint64_t acked = 0;
  for (const outbound& o : outbounds_) acked += o.acked_messages();
  return acked;
}

}  // namespace gravel::detail
