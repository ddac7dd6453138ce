// Direct sending, without a block sender (Gravel, SC17, section 4.1).
//
// Problem. A slot of the queue per message would waste the queue and PCIe.
// Solution. The lanes of a warp that send together claim one slot, order their messages by destination, write them, and
// publish once. The program needs no predication. A slot holds the small messages of a whole warp. Larger messages are
// sent by groups of as many lanes as a slot holds messages.
#pragma once
#include "device/handle.cuh"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// Stores 16 bytes at once, which suits PCIe and the coalescer.
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

/// Stores a message. Messages consist of pieces: wide ones of units, compact ones of words (lib/base/row.hpp).
template <uint32_t N>
GRAVEL_BOTH void store_message(unit* to, const unit (&message)[N]) {
  for (uint32_t i = 0; i < N; ++i) store_unit(to + i, message[i]);
}
/// Words that one access moves, for messages of N words in a row.
#if GRAVEL_ON_GPU
constexpr uint32_t widest_access(uint32_t words) {
  if (words % 4 == 0) return 4;
  return words % 2 == 0 ? 2 : 1;
}
template <uint32_t N>
constexpr uint32_t words_at_once = widest_access(N);
#else
template <uint32_t N>
constexpr uint32_t words_at_once = 1;
#endif
/// Stores a compact message. `to` has the alignment of such a message in a row.
template <uint32_t N>
GRAVEL_BOTH void store_message(uint32_t* to, const uint32_t (&message)[N]) {
  constexpr uint32_t at_once = words_at_once<N>;
  for (uint32_t i = 0; i < N; i += at_once) {
#if GRAVEL_ON_GPU
    if constexpr (at_once == 4)
      *reinterpret_cast<uint4*>(to + i) = make_uint4(message[i], message[i + 1], message[i + 2], message[i + 3]);
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
      message[i] = v.x;
      message[i + 1] = v.y;
      message[i + 2] = v.z;
      message[i + 3] = v.w;
    } else if constexpr (at_once == 2) {
      const uint2 v = *reinterpret_cast<const uint2*>(from + i);
      message[i] = v.x;
      message[i + 1] = v.y;
    } else
#endif
      message[i] = from[i];
  }
}
template <class Piece>
GRAVEL_BOTH Piece* pieces_at(unit* at) {
  return reinterpret_cast<Piece*>(at);
}
/// Units of a message of N pieces.
template <class Piece, uint32_t N>
constexpr uint32_t message_units = static_cast<uint32_t>((N * sizeof(Piece) + sizeof(unit) - 1) / sizeof(unit));

/// The places of a group's messages in a slot.
struct slot_places {
  uint32_t n_rows = 0, units = 0;
  uint32_t row = 0, peers = 0, first_unit = 0;  ///< the caller's row, the lanes with messages in it, and its first unit
  uint32_t window = 0;                          ///< of the caller's row
  /// For the unit whose number is the caller's rank: the lanes with messages in its row, and its number in that row.
  uint32_t unit_peers = 0, unit_in_row = 0;
};

/// For send_together(): all messages of one sink share a row.
struct in_one_window {
  static constexpr uint32_t around() { return 0; }
  static constexpr bool is_in(uint32_t) { return true; }
};
/// For send_together(): messages of one sink share a row if one window has their words, in a large heap.
struct in_windows {
  uint64_t word;  ///< number of the calling lane's word in the heap
  GRAVEL_BOTH uint32_t around() const { return heap_window::around(word, true); }
  GRAVEL_BOTH bool is_in(uint32_t number) const { return heap_window::has(number, word); }
};

/// Sends a message of one kind for each lane of the group. `store` writes the messages of all lanes into the payload.
/// Waits while the queue is full.
template <class Store, class Windows = in_one_window>
GRAVEL_BOTH void send_together(const queue& q, const lane_group& group, uint32_t sink, const row_kind& kind,
                               Store store, const Windows& windows = {}) {
  constexpr bool has_windows = !std::is_same_v<Windows, in_one_window>;
  // Order by sink, and by window: one round for each row. Every lane finds its row and its place.
  slot_places places;
  for (uint32_t rest = group.mask(); rest != 0; ++places.n_rows) {
    const uint32_t first = lane_group::lowest(rest), chosen = group.from_lane(sink, first);
    bool is_in = sink == chosen;
    uint32_t window = 0;
    if constexpr (has_windows) {
      window = group.from_lane(windows.around(), first);
      is_in = is_in && windows.is_in(window) && (rest >> group.lane() & 1);
    }
    const uint32_t peers = group.ballot(is_in);
    if (is_in) {
      places.row = places.n_rows;
      places.peers = peers;
      places.first_unit = places.units;
      places.window = window;
    }
    if (group.rank() >= places.units) {
      places.unit_peers = peers;
      places.unit_in_row = group.rank() - places.units;
    }
    places.units += static_cast<uint32_t>(units_for(kind, lane_group::popcount(peers)));
    rest &= ~peers;
  }
  uint64_t ticket = 0;
  if (group.is_leader()) ticket = q.claim();
  ticket = group.from_leader(ticket);
  // From here to publish() there is no return and no wait.
  slot_header* slot = q.slot(ticket);
  store(q.payload(slot), places);
  if (lane_group::lowest(places.peers) == group.lane())
    store_row(&q.rows(slot)[places.row],
              {has_windows ? kind.in_window(places.window) : kind, sink, lane_group::popcount(places.peers)});
  group.sync();
  if (group.is_leader()) q.publish(ticket, slot, places.n_rows, places.units);
}

#if GRAVEL_ON_GPU
/// Stores short messages of several rows. Each lane stores a whole unit, with messages of other lanes. Over PCIe
/// neighbouring units are then one write, although rows do not fill their last units. Otherwise each row would be a
/// write of its own. Thread scope: the group.
template <uint32_t N>
GRAVEL_DEVICE void store_whole_units(unit* payload, const lane_group& group, const slot_places& places,
                                     const uint32_t (&message)[N]) {
  constexpr uint32_t of_unit = row_kind::words_of_unit / N;
  uint32_t rest = places.unit_peers;
  for (uint32_t before = places.unit_in_row * of_unit; before != 0 && rest != 0; --before) rest &= rest - 1;
  uint32_t word[row_kind::words_of_unit];
  for (uint32_t i = 0; i < of_unit; ++i) {
    const uint32_t from = rest ? lane_group::lowest(rest) : group.leader_lane();  // behind the row's end: any lane
    for (uint32_t w = 0; w < N; ++w) word[i * N + w] = group.from_lane(message[w], from);
    rest &= rest - 1;
  }
  if (group.rank() < places.units)
    store_unit(payload + group.rank(), {{word[0] | uint64_t{word[1]} << 32, word[2] | uint64_t{word[3]} << 32}});
}
#endif

/// Returns the lanes that call together with a message of this kind. If each kind has its own code, on a GPU all of
/// them have the same kind: compilers do not merge places where a program can observe its neighbouring lanes. g++ does
/// merge the ends of two branches.
[[gnu::always_inline]] GRAVEL_BOTH lane_group active_with([[maybe_unused]] const row_kind& kind) {
  const lane_group all = lane_group::active();
#if GRAVEL_ON_GPU
  return all;
#else
  return all.part(all.match(kind.bits()));
#endif
}

/// Sends one message of N pieces for each lane of `all`. Waits while the queue is full.
template <class Piece, uint32_t N>
GRAVEL_BOTH void send_in_slots(const queue& q, const lane_group& all, uint32_t sink, const row_kind& kind,
                               const Piece (&message)[N]) {
  lane_group group = all;
  if (kind.is_wide() && N > max_small_units)
    group = group.part(group.match(group.rank() / (q.shape.payload_units / N)));
  send_together(q, group, sink, kind, [&](unit* payload, const slot_places& places) {
#if GRAVEL_ON_GPU
    if constexpr (sizeof(Piece) == 4 && N <= 2)
      if (places.n_rows > 1) return store_whole_units(payload, group, places, message);
#endif
    store_message(pieces_at<Piece>(payload + places.first_unit) + group.rank_in(places.peers) * N, message);
  });
}

/// Sends one message of N pieces for each calling lane. The kind is a template parameter, so each kind has its own
/// code. Returns when the message is handed over: source values may be reused. Waits while the queue is full. Thread
/// scope: lane; any subset of a warp may call.
template <row_kind KIND, class Piece, uint32_t N>
GRAVEL_BOTH void send_direct(const gravel_t& g, uint32_t sink, const Piece (&message)[N]) {
  send_in_slots(g.direct, active_with(KIND), sink, KIND, message);
}
/// Sends a wide message.
template <uint32_t UNITS>
GRAVEL_BOTH void send_direct(const gravel_t& g, uint32_t sink, const unit (&message)[UNITS]) {
  send_direct<wide_kind(UNITS)>(g, sink, message);
}

/// Stores the first `words` words of a message of up to one unit.
GRAVEL_BOTH void store_some(uint32_t* to, const unit& message, uint32_t words) {
  if (words == row_kind::words_of_unit) return store_unit(reinterpret_cast<unit*>(to), message);
  for (uint32_t w = 0; w < row_kind::words_of_unit; ++w)
    if (w < words) to[w] = static_cast<uint32_t>(message.word[w / 2] >> w % 2 * 32);
}
/// Sends a message of up to one unit, of any kind. Not inlined, so that there is one copy for messages that are seldom
/// sent, and for those of handlers, of which a program has many. The queue comes by value, so that the handle need not
/// lie in memory. Thread scope: lane, as of send_direct.
GRAVEL_BOTH_APART void send_apart(queue q, uint32_t sink, uint64_t kind_bits, unit message) {
  const row_kind kind = row_kind::of_bits(kind_bits);
  const lane_group all = lane_group::active(), group = all.part(all.match(kind_bits));
  send_together(q, group, sink, kind, [&](unit* payload, const slot_places& places) {
    uint32_t* const to = words_at(payload + places.first_unit) + group.rank_in(places.peers) * kind.words;
    store_some(to, message, kind.words);
  });
}
/// Sends an update in a large heap, to `word` of the heap. The messages of all lanes share a slot. Not inlined: one
/// copy for all kinds. Thread scope: lane, as of send_direct.
GRAVEL_BOTH_APART void send_in_windows(queue q, uint32_t sink, uint64_t kind_bits, unit message, uint64_t word) {
  const row_kind kind = row_kind::of_bits(kind_bits);
  const lane_group all = lane_group::active(), group = all.part(all.match(kind_bits));
  const auto store = [&](unit* payload, const slot_places& places) {
    uint32_t* const to = words_at(payload + places.first_unit) + group.rank_in(places.peers) * kind.words;
    unit indexed = message;
    indexed.word[0] &= ~uint64_t{~0u};
    indexed.word[0] |= heap_window::index_of(places.window, static_cast<uint32_t>(word));
    store_some(to, indexed, kind.words);
  };
  send_together(q, group, sink, kind, store, in_windows{word});
}

}  // namespace gravel::detail
