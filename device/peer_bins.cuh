// Peer bins: where a block sender gathers messages for peers.
//
// Problem. Messages for a peer need not be sorted: they leave as one row. But many lanes write at the same time, and a
// full row takes microseconds to push over NVLink.
// Solution. Each peer has a bin in shared memory, of two halves. Lanes fill one half while the other leaves: a full
// half is pushed into the peer's ring as it is. All bins hold messages of one kind, the first that the block sends to a
// peer; updates of one window of the heap (heap_window). Other messages go into the buffer that is sorted.
//
// Protocol.
//   reserve: place = reserved += size: a position in an endless sequence; generation = place / half;
//     half = generation % 2
//   wait until holds[half] == generation                                                          [B4] acquire
//   write the message; written[half] += size                                                      [B3]
//   the group that sees written[half] == half size pushes the half, then
//     written[half] = 0, holds[half] = generation + 2                                             [B4] release
//
// Progress. The lanes of a group may send to different bins and wait for different halves. They must not wait for each
// other: a lane that could write may be the one for which another group waits. So the group works in rounds. In each
// round all lanes whose half is free write, the whole group pushes the halves that are full, and the other lanes try
// again (test/models/bin_rounds.pml). A push waits only for the destination's ring, which its resolver empties in any
// case.
//
// Invariants. Places are disjoint, so exactly one group completes a generation. A waiting lane waits for a lower
// generation of its own bin. So the lowest incomplete generation always advances.
#pragma once
#include "device/block_add.hpp"
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel::detail {

/// A whole warp, with the members of lane_group. A vote or a shuffle takes one instruction if the compiler knows the
/// mask, and a loop of a dozen if it does not.
struct whole_warp {
  uint32_t lane_;
  GRAVEL_DEVICE uint32_t lane() const { return lane_; }
  GRAVEL_DEVICE static uint32_t mask() { return ~0u; }
  GRAVEL_DEVICE static uint32_t size() { return 32; }
  GRAVEL_DEVICE uint32_t rank() const { return lane_; }
  GRAVEL_DEVICE uint32_t rank_in(uint32_t some) const { return lane_group::popcount(some & ((1u << lane_) - 1)); }
  GRAVEL_DEVICE static uint32_t ballot(bool vote) { return __ballot_sync(~0u, vote); }
  GRAVEL_DEVICE static uint32_t from_lane(uint32_t value, uint32_t lane) {
    return __shfl_sync(~0u, value, static_cast<int>(lane));
  }
  GRAVEL_DEVICE static void sync() { __syncwarp(); }
};

/// The route of a block's messages to one PE. peer_bins::begin() computes it once for each PE.
struct peer_route {
  static constexpr uint32_t most_bins = 128;
  uint32_t code;  ///< below most_bins: the number of a bin

  GRAVEL_DEVICE static constexpr peer_route into_bin(uint32_t bin) { return {bin}; }
  /// The PE is this one: the messages are applied in place.
  GRAVEL_DEVICE static constexpr peer_route in_place() { return {most_bins}; }
  /// Neither: through the buffer, or directly.
  GRAVEL_DEVICE static constexpr peer_route other() { return {255}; }

  GRAVEL_DEVICE constexpr uint8_t byte() const { return static_cast<uint8_t>(code); }  ///< in peer_bins_for::routes
  GRAVEL_DEVICE constexpr bool is_bin() const { return code < most_bins; }
  GRAVEL_DEVICE constexpr bool is_in_place() const { return code == in_place().code; }
  GRAVEL_DEVICE constexpr bool is_other() const { return code == other().code; }
};

/// The bins of a block, in shared memory. The messages lie beside them: [bin][half][message]. There are at most MOST.
template <uint32_t MOST>
struct peer_bins_for {
  static constexpr uint32_t most = MOST;
  static_assert(most <= peer_route::most_bins);
  uint32_t half_units_log2;
  uint32_t in_use;                             ///< number of bins; 0: messages to peers are sorted like all others
  uint64_t kind;                               ///< row_kind::bits of the messages in the bins; 0: none yet
  uint32_t first_pe;                           ///< first PE of `routes`
  uint8_t routes[most <= 16 ? 64 : 2 * most];  ///< [PE - first_pe] peer_route::byte()
  uint32_t reserved[most];
  uint32_t written[most][2];
  uint32_t holds[most][2];

  GRAVEL_DEVICE uint32_t units() const { return in_use << (half_units_log2 + 1); }
  GRAVEL_DEVICE unit* messages_of(unit* memory, uint32_t bin, uint32_t which) const {
    return memory + ((bin * 2 + which) << half_units_log2);
  }
  /// Binary logarithm of the number of messages that fit a half. The number is a power of two, so that generations are
  /// found by shifts.
  GRAVEL_DEVICE uint32_t half_log2(uint32_t words) const {
    uint32_t up = 0;
    while (1u << up < words) ++up;
    return half_units_log2 + 2 - up;
  }

  /// Divides `room` units of memory among the bins. Thread scope: one lane; the block synchronizes behind it.
  GRAVEL_DEVICE void begin(const gravel_t& g, uint32_t room) {
    in_use = half_units_log2 = 0;
    kind = 0;
    const uint32_t n = g.n_peers;
    first_pe = g.my_pe;
    for (uint32_t bin = 0; bin < n; ++bin) first_pe = g.peer_pes[bin] < first_pe ? g.peer_pes[bin] : first_pe;
    for (uint8_t& r : routes) r = peer_route::other().byte();
    if (g.self_in_place && has_route(g.my_pe)) routes[g.my_pe - first_pe] = peer_route::in_place().byte();
    if (n == 0 || n > most || room / (2 * n) < 32) return;
    while ((4u << half_units_log2) * n <= room && (2u << half_units_log2) <= g.peers[g.peer_pes[0]].ring.chunk_units)
      ++half_units_log2;
    in_use = n;
    for (uint32_t bin = 0; bin < n; ++bin) {
      if (has_route(g.peer_pes[bin])) routes[g.peer_pes[bin] - first_pe] = peer_route::into_bin(bin).byte();
      reserved[bin] = 0;
      for (uint32_t which = 0; which < 2; ++which) {
        written[bin][which] = 0;
        holds[bin][which] = which;
      }
    }
  }

  /// Returns the route to a PE, which may be out of range.
  GRAVEL_DEVICE peer_route route_to(uint32_t pe) const {
    return {has_route(pe) ? routes[pe - first_pe] : peer_route::other().code};
  }
  GRAVEL_DEVICE bool has_route(uint32_t pe) const { return pe - first_pe < sizeof(routes); }

  /// Returns true if the bins hold updates of this kind, in a window that has the word. `wanted` is in window 0.
  GRAVEL_DEVICE bool have(row_kind wanted, uint64_t word) const {
    const row_kind held = row_kind::of_bits(load_relaxed<scope::shared>(&kind));
    return held.is_in_a_window_as(wanted) && heap_window::has(held.window(), word);
  }
  /// As have(). If the bins were empty so far, they hold such updates from now on, in a window around the word.
  /// `is_large`: as of heap_window::around(). Thread scope: lane, divergent.
  GRAVEL_DEVICE bool take(row_kind wanted, uint64_t word, bool is_large) {
    if (have(wanted, word)) return true;
    take_first(wanted.in_window(heap_window::around(word, is_large)));
    return have(wanted, word);
  }
  /// Returns the index, in the window of the bins, of a word that it has.
  GRAVEL_DEVICE uint32_t index_of(uint32_t word) const {
    return heap_window::index_of(row_kind::of_bits(load_relaxed<scope::shared>(&kind)).window(), word);
  }

  /// Returns true if the bins hold this kind. If they were empty so far, they hold it from now on. Thread scope: lane,
  /// divergent.
  GRAVEL_DEVICE bool take(row_kind wanted) { return have(wanted) || take_first(wanted); }
  GRAVEL_DEVICE bool have(row_kind wanted) const { return load_relaxed<scope::shared>(&kind) == wanted.bits(); }
  __device__ GRAVEL_NOINLINE bool take_first(row_kind wanted) {
    if (load_relaxed<scope::shared>(&kind) != 0) return have(wanted);
    if (half_log2(wanted.words) < 5) return false;  // else the places of a warp could lie in more than two halves
    return compare_swap_acquire<scope::shared>(&kind, uint64_t{0}, wanted.bits()) ||
           load_relaxed<scope::shared>(&kind) == wanted.bits();
  }

  /// Adds a message of the kind that the bins hold to the bin of its route. If the route is no bin, the lane adds none,
  /// but takes part in the votes of the others. Thread scope: lane, divergent.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void add(const gravel_t& g, unit* memory, peer_route to, const Piece (&message)[N], uint32_t* sent) {
    const uint32_t bin = to.code;
    bin_message<Piece, N> m;
    for (uint32_t i = 0; i < N; ++i) m.piece[i] = message[i];
#if GRAVEL_ON_GPU
    if (const lane_group all = lane_group::active_to_count(); all.is_whole_warp())
      return add_together<KIND>(g, memory, whole_warp{all.lane()}, bin, m, sent);
    add_some<KIND>(g, memory, lane_group::active().mask(), bin, m, sent);
#else
    add_together<KIND>(g, memory, lane_group::active(), bin, m, sent);
#endif
  }

 private:
  template <class Piece, uint32_t N>
  struct bin_message {
    Piece piece[N];
  };
#if GRAVEL_ON_GPU
  template <row_kind KIND, class Message>
  __device__ GRAVEL_NOINLINE void add_some(const gravel_t& g, unit* memory, uint32_t mask, uint32_t bin,
                                           Message message, uint32_t* sent) {
    add_together<KIND>(g, memory, lane_group::of(mask), bin, message, sent);
  }
#endif
  /// Returns the lanes of the group that send to the same bin. The result is undefined for a lane that does not send.
  template <class Group>
  GRAVEL_DEVICE uint32_t peers_of(const Group& group, uint32_t bin) const {
    uint32_t peers = group.ballot(bin < most);
    for (uint32_t bit = 1; bit < in_use; bit *= 2) {
      const uint32_t have = group.ballot((bin & bit) != 0);
      peers &= bin & bit ? have : ~have;
    }
    return peers;
  }

  template <row_kind KIND, class Group, class Piece, uint32_t N>
  GRAVEL_DEVICE void add_together(const gravel_t& g, unit* memory, const Group& group, uint32_t bin,
                                  const bin_message<Piece, N>& message, uint32_t* sent) {
    const uint32_t log2 = half_log2(KIND.words), half = 1u << log2;
    bool waits = bin < most;
    const uint32_t peers = peers_of(group, bin), leader = waits ? lane_group::lowest(peers) : group.lane();
    uint32_t at = 0;
    if (waits && leader == group.lane()) at = block_add_relaxed(&reserved[bin], lane_group::popcount(peers));
    at = group.from_lane(at, leader);
#if GRAVEL_ON_GPU
    if constexpr (std::is_same_v<Group, whole_warp>)
      if (peers == ~0u && (at & (half - 1)) <= half - 32)
        return add_in_one_half(g, memory, group, bin, log2, at, message, sent);
#endif
    const uint32_t place = at + group.rank_in(peers), generation = place >> log2, which = generation & 1;
    // The places of one bin may cross from one half into the next.
    const uint32_t firsts = group.ballot(generation == at >> log2),
                   part = peers & (generation == at >> log2 ? firsts : ~firsts);
    for (relax wait;; wait()) {
      const bool goes = waits && load_acquire<scope::shared>(&holds[bin][which]) == generation;  // [B4]
      if (goes)
        store_message(pieces_at<Piece>(messages_of(memory, bin, which)) + (place & (half - 1)) * N, message.piece);
      group.sync();
      const uint32_t went = group.ballot(goes);  // lanes of a part read `holds` one after the other
      bool full = false;
      if (goes && lane_group::lowest(went & part) == group.lane()) {
        const uint32_t n = lane_group::popcount(went & part);
        full = block_add(&written[bin][which], n) + n == half;  // [B3]
      }
      for (uint32_t rest = group.ballot(full); rest; rest &= rest - 1) {
        const uint32_t of = lane_group::lowest(rest);
        push(g, memory, group.mask(), group.from_lane(bin, of), group.from_lane(generation, of), sent);
      }
      waits = waits && !goes;
      if (!group.ballot(waits)) break;
    }
  }

#if GRAVEL_ON_GPU
  /// add_together() for the most frequent case: all lanes of a warp have places in the same half. They all wait for the
  /// same word, so they may wait in a loop of their own.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add_in_one_half(const gravel_t& g, unit* memory, const whole_warp& group, uint32_t bin,
                                     uint32_t log2, uint32_t at, const bin_message<Piece, N>& message, uint32_t* sent) {
    const uint32_t half = 1u << log2, generation = at >> log2, which = generation & 1;
    for (relax wait; load_acquire<scope::shared>(&holds[bin][which]) != generation; wait()) {  // [B4]
    }
    store_message(pieces_at<Piece>(messages_of(memory, bin, which)) + ((at & (half - 1)) + group.lane()) * N,
                  message.piece);
    group.sync();
    bool full = false;
    if (group.lane() == 0) full = block_add(&written[bin][which], 32) + 32 == half;  // [B3]
    if (group.ballot(full)) push(g, memory, ~0u, bin, generation, sent);
  }
#endif

  /// Pushes a full half into the ring. Thread scope: lanes of a warp, one of which has completed the half.
  __device__ GRAVEL_NOINLINE void push(const gravel_t& g, unit* memory, uint32_t mask, uint32_t bin,
                                       uint32_t generation, uint32_t* sent) {
    const lane_group group = lane_group::of(mask);
    group.sync();  // behind [B3]: what one lane has acquired, all may read
    const peer_link& link = g.peers[g.peer_pes[bin]];
    const row_kind held = row_kind::of_bits(kind);
    const uint32_t which = generation & 1, log2 = half_log2(held.words);
    const message_row row{held, sink_of(link.pe, sink_kind::device), 1u << log2};
    uint64_t ticket = 0;
    if (group.is_leader()) ticket = claim_chunk(link);
    ticket = group.from_leader(ticket);
    unit* const to = link.ring.payload(link.ring.chunk(ticket));
    const unit* const from = messages_of(memory, bin, which);
    for (uint32_t i = group.rank(); i < row.units(); i += group.size()) store_unit(to + i, load_unit(from + i));
    group.sync();
    if (!group.is_leader()) return;
    store_relaxed<scope::shared>(&written[bin][which], 0u);
    // Places have 32 bits, so generations wrap at a lower number.
    store_release<scope::shared>(&holds[bin][which], (generation + 2) & (~0u >> log2));  // [B4]
    block_add(sent, row.messages);
    link.ring.publish(ticket, row);
    if (ticket % 64 == 0) ring_doorbell(link);
  }

 public:
  /// Pushes what is left, and empties the bins, one bin after the other as in hand_over_to_peers(). `ticket`: a word of
  /// shared memory. Thread scope: block, converged.
  GRAVEL_DEVICE void finish(const gravel_t& g, unit* memory, uint64_t* ticket, uint32_t rank, uint32_t size,
                            uint32_t* sent) {
    const row_kind held = row_kind::of_bits(kind);
    const uint32_t log2 = half_log2(held.words);
    for (uint32_t bin = 0; bin < in_use && kind; ++bin) {
      const uint32_t n = reserved[bin] & ((1u << log2) - 1);
      if (n == 0) continue;
      const peer_link& link = g.peers[g.peer_pes[bin]];
      const message_row row{held, sink_of(link.pe, sink_kind::device), n};
      if (rank == 0) *ticket = claim_chunk(link);
      __syncthreads();
      const uint64_t claimed = *ticket;
      unit* const to = link.ring.payload(link.ring.chunk(claimed));
      const unit* const from = messages_of(memory, bin, reserved[bin] >> log2 & 1);
      for (uint32_t i = rank; i < row.units(); i += size) store_unit(to + i, load_unit(from + i));
      __syncthreads();
      if (rank != 0) continue;
      link.ring.publish(claimed, row);
      block_add(sent, n);
    }
    __syncthreads();
    if (rank == 0) begin(g, units());
  }
};
using peer_bins = peer_bins_for<16>;

}  // namespace gravel::detail
