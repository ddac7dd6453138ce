// Sending directly: the lanes of a warp that are active together reserve one slot, order their messages by
// destination, write them, and publish once (Gravel paper, section 4.1, at the width of what is active; no
// predication of the program is needed). A slot holds a warp's small messages; of larger ones as many lanes
// act together as it holds.
#pragma once
#include "device/handle.cuh"
#include "device/lane_group.cuh"

namespace gravel {

/// 16 bytes in one store: what PCIe and the coalescer like.
GRAVEL_BOTH void store_unit(unit* to, const unit& from) {
#if GRAVEL_ON_GPU
  *reinterpret_cast<ulonglong2*>(to) = make_ulonglong2(from.word[0], from.word[1]);
#else
  *to = from;
#endif
}
GRAVEL_BOTH unit load_unit(const unit* from) {
#if GRAVEL_ON_GPU
  const ulonglong2 v = *reinterpret_cast<const ulonglong2*>(from);
  return {{v.x, v.y}};
#else
  return *from;
#endif
}

/// Sends one message of UNITS units per calling lane. Thread scope: lane; any subset of a warp may call.
/// Waits while the queue is full. Returns when the message is handed over (source values may be reused).
template <uint32_t UNITS>
GRAVEL_BOTH void send_direct(const gravel_t& g, uint32_t sink, const unit (&message)[UNITS]) {
  lane_group group = lane_group::active();
  if constexpr (UNITS > max_small_units) group = group.part(group.match(group.rank() / (g.direct.shape.payload_units / UNITS)));
  // Order by sink: one round per distinct sink; every lane learns its row and its place.
  uint32_t n_rows = 0, before = 0, my_place = 0, my_row = 0, my_peers = 0;
  for (uint32_t rest = group.mask(); rest != 0; ++n_rows) {
    const uint32_t chosen = group.from_lane(sink, lane_group::lowest(rest));
    const uint32_t peers = group.ballot(sink == chosen);
    if (sink == chosen) {
      my_row = n_rows;
      my_peers = peers;
      my_place = before + group.rank_in(peers);
    }
    before += lane_group::popcount(peers);
    rest &= ~peers;
  }
  const queue& q = g.direct;
  uint64_t ticket = 0;
  if (group.is_leader()) ticket = q.claim();
  ticket = group.from_leader(ticket);
  // From here to publish(): no return, no wait.
  slot_header* slot = q.slot(ticket);
  for (uint32_t u = 0; u < UNITS; ++u) store_unit(q.payload(slot) + my_place * UNITS + u, message[u]);
  if (lane_group::lowest(my_peers) == group.lane())
    q.rows(slot)[my_row] = {sink, static_cast<uint16_t>(lane_group::popcount(my_peers)), static_cast<uint16_t>(UNITS)};
  group.sync();
  if (group.is_leader()) q.publish(ticket, slot, n_rows, before * UNITS);
}

}  // namespace gravel
