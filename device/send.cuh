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

/// Messages are made of pieces: wide ones of units, compact ones of words (lib/base/row.hpp).
template <uint32_t N>
GRAVEL_BOTH void store_message(unit* to, const unit (&message)[N]) {
  for (uint32_t i = 0; i < N; ++i) store_unit(to + i, message[i]);
}
/// Words that one access moves, of messages of N words in a row.
#if GRAVEL_ON_GPU
template <uint32_t N>
constexpr uint32_t words_at_once = N % 4 == 0   ? 4
                                   : N % 2 == 0 ? 2
                                                : 1;
#else
template <uint32_t N>
constexpr uint32_t words_at_once = 1;
#endif
/// `to`: as aligned as a row of such messages makes it.
template <uint32_t N>
GRAVEL_BOTH void store_message(uint32_t* to, const uint32_t (&message)[N]) {
  constexpr uint32_t at_once = words_at_once<N>;
  for (uint32_t i = 0; i < N; i += at_once) {
#if GRAVEL_ON_GPU
    if constexpr (at_once == 4) *reinterpret_cast<uint4*>(to + i) = make_uint4(message[i], message[i + 1], message[i + 2], message[i + 3]);
    else if constexpr (at_once == 2) *reinterpret_cast<uint2*>(to + i) = make_uint2(message[i], message[i + 1]);
    else
#endif
      to[i] = message[i];
  }
}
template <uint32_t N>
GRAVEL_BOTH void load_message(const uint32_t* from, uint32_t (&message)[N]) {
  constexpr uint32_t at_once = words_at_once<N>;
  for (uint32_t i = 0; i < N; i += at_once) {
#if GRAVEL_ON_GPU
    if constexpr (at_once == 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(from + i);
      message[i] = v.x, message[i + 1] = v.y, message[i + 2] = v.z, message[i + 3] = v.w;
    } else if constexpr (at_once == 2) {
      const uint2 v = *reinterpret_cast<const uint2*>(from + i);
      message[i] = v.x, message[i + 1] = v.y;
    } else
#endif
      message[i] = from[i];
  }
}
template <class Piece>
GRAVEL_BOTH Piece* pieces_at(unit* at) {
  return reinterpret_cast<Piece*>(at);
}
/// Units that a message of N pieces takes.
template <class Piece, uint32_t N>
constexpr uint32_t message_units = static_cast<uint32_t>((N * sizeof(Piece) + sizeof(unit) - 1) / sizeof(unit));

/// What a send needs of a queue: the rest follows from it.
struct queue_view {
  queue_state* state;
  char* slots;
  queue_shape shape;
  GRAVEL_BOTH queue_view(const queue& q) : state(q.state), slots(q.slots), shape(q.shape) {}
  GRAVEL_BOTH queue whole() const { return {reinterpret_cast<queue_control*>(slots - sizeof(queue_control)), state, slots, shape}; }
};
/// Where a lane's message goes in the slot that its group has claimed.
struct slot_place {
  char* message;
  message_row* row;   ///< which this lane is to write; nullptr: another does
  uint32_t messages;  ///< of the row
  uint32_t n_rows, n_units;
  slot_header* slot;
  uint64_t ticket;
};
/// Claims a slot for a message of one kind of each lane of the group, of which the caller is one. Waits while the queue is full. From
/// here to the end_slot() that must follow: no return, no wait. The queue comes by value, so that a kernel's handle need not lie in memory.
GRAVEL_SEND_PART slot_place begin_slot(queue_view view, uint32_t mask, uint32_t sink, uint64_t kind_bits) {
  const queue q = view.whole();
  const lane_group group = lane_group::of(mask);
  const row_kind kind = row_kind::of_bits(kind_bits);
  // Order by sink: one round per distinct sink; every lane learns its row and its place.
  uint32_t n_rows = 0, before = 0, my_place = 0, my_row = 0, my_peers = 0;  // before, my_place: units
  for (uint32_t rest = group.mask(); rest != 0; ++n_rows) {
    const uint32_t chosen = group.from_lane(sink, lane_group::lowest(rest));
    const uint32_t peers = group.ballot(sink == chosen);
    if (sink == chosen) {
      my_row = n_rows;
      my_peers = peers;
      my_place = before;
    }
    before += static_cast<uint32_t>(units_for(kind, lane_group::popcount(peers)));
    rest &= ~peers;
  }
  uint64_t ticket = 0;
  if (group.is_leader()) ticket = q.claim();
  ticket = group.from_leader(ticket);
  slot_header* const slot = q.slot(ticket);
  return {reinterpret_cast<char*>(q.payload(slot) + my_place) + uint64_t{group.rank_in(my_peers)} * kind.words * 4,
          lane_group::lowest(my_peers) == group.lane() ? &q.rows(slot)[my_row] : nullptr,
          lane_group::popcount(my_peers),
          n_rows,
          before,
          slot,
          ticket};
}
/// Hands over the slot once all lanes of the group have written their messages.
GRAVEL_BOTH void end_slot(const queue& q, const lane_group& group, const slot_place& place, uint32_t sink, uint64_t kind_bits) {
  if (place.row) store_row(place.row, {row_kind::of_bits(kind_bits), sink, place.messages});
  group.sync();
  if (group.is_leader()) q.publish(place.ticket, place.slot, place.n_rows, place.n_units);
}

/// Sends one message of N pieces for each lane of the group, all of one kind. Thread scope: the group.
template <class Piece, uint32_t N>
GRAVEL_BOTH void send_together(const queue& q, const lane_group& group, uint32_t sink, uint64_t kind_bits, const Piece (&message)[N]) {
  const slot_place place = begin_slot(q, group.mask(), sink, kind_bits);
  store_message(reinterpret_cast<Piece*>(place.message), message);
  end_slot(q, group, place, sink, kind_bits);
}

/// Sends one message of N pieces for each calling lane. Thread scope: lane; any subset of a warp may call. Waits while the queue is
/// full. Returns when the message is handed over (source values may be reused). The kind is a template parameter, here and wherever lanes
/// act together: lanes that stand at the same place so have messages of the same kind.
template <row_kind KIND, class Piece, uint32_t N>
GRAVEL_BOTH void send_direct(const gravel_t& g, uint32_t sink, const Piece (&message)[N]) {
  lane_group group = lane_group::active();
  if constexpr (KIND.is_wide() && N > max_small_units) group = group.part(group.match(group.rank() / (g.direct.shape.payload_units / N)));
  send_together(g.direct, group, sink, KIND.bits(), message);
}
/// Of a wide message.
template <uint32_t UNITS>
GRAVEL_BOTH void send_direct(const gravel_t& g, uint32_t sink, const unit (&message)[UNITS]) {
  send_direct<wide_kind(UNITS)>(g, sink, message);
}

/// A message of one unit that seldom needs to be wide: not inlined at each place that sends.
GRAVEL_APART void send_wide(queue_view view, uint32_t sink, uint64_t word0, uint64_t word1) {
  const unit message[1] = {{{word0, word1}}};
  send_together(view.whole(), lane_group::active(), sink, wide_kind(1).bits(), message);
}

}  // namespace gravel
