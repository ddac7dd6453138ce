#include "host/aggregator/node_duties.hpp"

#include "lib/base/error.hpp"

namespace gravel {

node_duties::node_duties(const node_setup& setup, const std::vector<remote_link*>& links)
    : setup_(setup), collectives_(setup, links), nodes_(setup, links), bells_(setup.local) {}

bool node_duties::step(uint64_t now_us) {
  for (pe_segment* segment : setup_.local) store_relaxed(&segment->control()->aggregator_heartbeat, now_us);
  bool moved = collectives_.step();
  moved |= bells_.pass_on();
  if (!over()) nodes_.step(now_us);
  return moved;
}

bool node_duties::receive(const plane_header& header, std::span<const std::byte> data) {
  switch (header.word) {
    case plane_word::pulse: nodes_.receive(header); return false;
    case plane_word::contribution:
    case plane_word::result: collectives_.receive(header, data); return true;
    default: fail("node {} sent a message of unknown kind {}", header.source_node, static_cast<uint32_t>(header.word));
  }
}

}  // namespace gravel
