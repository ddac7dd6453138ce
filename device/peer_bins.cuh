// Where a block sender gathers what goes to peers: a bin for each peer, in shared memory, of two halves. A half that is
// full is pushed into the peer's ring as it is, a row; nothing needs to be sorted. So bins hold messages of one kind, the first that the
// block sends to a peer; others are sorted.
//
//   reserve: place = reserved += size: a position in an endless sequence; generation = place / half; half = generation % 2
//   wait until holds[half] == generation              [B4] acquire
//   write the message; written[half] += size          [B3]
//   who sees written[half] == half size pushes it, then written[half] = 0, holds[half] = generation + 2   [B4] release
//
// Invariants: places are disjoint, so one group of lanes, and only one, completes a generation; whoever waits, waits for
// a lower generation of its own bin, so the lowest one that is incomplete always goes on.
#pragma once
#include "device/block_add.hpp"
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel {

/// In shared memory, beside the messages themselves: [bin][half][message].
struct peer_bins {
  static constexpr uint32_t most = 16;
  uint32_t half_units_log2;
  uint32_t in_use;  ///< bins; 0: messages to peers are sorted like all others
  uint64_t kind;    ///< row_kind::bits of what they hold; 0: nothing yet
  uint32_t reserved[most];
  uint32_t written[most][2];
  uint32_t holds[most][2];

  GRAVEL_DEVICE uint32_t units() const { return in_use << (half_units_log2 + 1); }
  GRAVEL_DEVICE unit* messages_of(unit* memory, uint32_t bin, uint32_t which) const {
    return memory + ((bin * 2 + which) << half_units_log2);
  }
  /// Messages of a half, a power of two: generations are told by shifts.
  GRAVEL_DEVICE uint32_t half_log2(uint32_t words) const {
    uint32_t up = 0;
    while (1u << up < words) ++up;
    return half_units_log2 + 2 - up;
  }

  /// `room`: units of memory that there are for the bins. Thread scope: one lane; the block synchronizes behind it.
  GRAVEL_DEVICE void begin(const gravel_t& g, uint32_t room) {
    in_use = half_units_log2 = 0;
    kind = 0;
    const uint32_t n = g.n_peers;
    if (n == 0 || n > most || room / (2 * n) < 32) return;
    while ((4u << half_units_log2) * n <= room && (2u << half_units_log2) <= g.peers[g.peer_pes[0]].ring.chunk_units) ++half_units_log2;
    in_use = n;
    for (uint32_t bin = 0; bin < n; ++bin) {
      reserved[bin] = 0;
      for (uint32_t which = 0; which < 2; ++which) {
        written[bin][which] = 0;
        holds[bin][which] = which;
      }
    }
  }

  /// Do the bins hold this kind? They do from now on if they were empty so far. Thread scope: lane, divergent.
  GRAVEL_DEVICE bool take(const row_kind& wanted) {
    if (half_log2(wanted.words) < 5) return false;  // the places of a warp lie in two halves at most
    const uint64_t now = load_relaxed<scope::block>(&kind);
    if (now != 0) return now == wanted.bits();
    return compare_swap_acquire<scope::block>(&kind, uint64_t{0}, wanted.bits()) || load_relaxed<scope::block>(&kind) == wanted.bits();
  }

  /// A message of the kind that the bins hold. Thread scope: lane, divergent.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void add(unit* memory, const peer_link& link, const Piece (&message)[N], uint32_t* sent) {
    const uint32_t bin = link.bin;
    const lane_group group = lane_group::active();
    const lane_group mine = in_use == 1 ? group : group.part(group.match(bin));
    uint32_t at = 0;
#if GRAVEL_ON_GPU
    // The commonest group: of masks that the compiler knows it makes one instruction where it needs a loop of a dozen for others.
    const bool is_warp = in_use == 1 && group.is_whole_warp();
    if (is_warp) {
      if (group.lane() == 0) at = block_add_relaxed(&reserved[0], 32);
      at = __shfl_sync(~0u, at, 0);
      if (at % 32 == 0) return put_warp_at<KIND>(memory, link, at, group.lane(), message, sent);
    } else
#endif
    {
      if (mine.is_leader()) at = block_add_relaxed(&reserved[bin], mine.size());
      at = mine.from_leader(at);
    }
    put_at<KIND>(memory, link, mine, at, message, sent);
  }

 private:
#if GRAVEL_ON_GPU
  /// Of a whole warp, within a half of the only bin.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void put_warp_at(unit* memory, const peer_link& link, uint32_t at, uint32_t lane, const Piece (&message)[N],
                                 uint32_t* sent) {
    const uint32_t log2 = half_log2(KIND.words), half = 1u << log2, generation = at >> log2, which = generation & 1;
    for (relax wait; load_acquire<scope::block>(&holds[0][which]) != generation; wait()) {  // [B4]
    }
    store_message(pieces_at<Piece>(messages_of(memory, 0, which)) + ((at & (half - 1)) + lane) * N, message);
    __syncwarp();
    uint32_t now = 0;
    if (lane == 0) now = block_add(&written[0][which], 32) + 32;  // [B3]
    if (__shfl_sync(~0u, now, 0) == half) push(memory, link, lane_group::active(), generation, sent);
  }
#endif

  /// The group's places begin with `at`.
  template <row_kind KIND, class Piece, uint32_t N>
  GRAVEL_DEVICE void put_at(unit* memory, const peer_link& link, const lane_group& mine, uint32_t at, const Piece (&message)[N],
                            uint32_t* sent) {
    const uint32_t bin = link.bin, log2 = half_log2(KIND.words), half = 1u << log2;
    // The group's places may end one half and begin the next.
    const bool in_first = mine.rank() < half - (at & (half - 1));
    const uint32_t firsts = mine.ballot(in_first);
    const lane_group part = mine.part(in_first ? firsts : mine.mask() & ~firsts);
    const uint32_t place = at + mine.rank(), generation = place >> log2, which = generation & 1;
    for (relax wait; load_acquire<scope::block>(&holds[bin][which]) != generation; wait()) {  // [B4]
    }
    store_message(pieces_at<Piece>(messages_of(memory, bin, which)) + (place & (half - 1)) * N, message);
    part.sync();
    uint32_t now = 0;
    if (part.is_leader()) now = block_add(&written[bin][which], part.size()) + part.size();  // [B3]
    if (part.from_leader(now) == half) push(memory, link, part, generation, sent);
  }

  /// Hands over a full half. Thread scope: the part of a warp that completed it.
  __device__ GRAVEL_NOINLINE void push(unit* memory, const peer_link& link, const lane_group& part, uint32_t generation, uint32_t* sent) {
    const row_kind held = row_kind::of_bits(kind);
    const uint32_t which = generation & 1, log2 = half_log2(held.words);
    const message_row row{held, sink_of(link.pe, sink_kind::device), 1u << log2};
    uint64_t ticket = 0;
    if (part.is_leader()) ticket = claim_chunk(link);
    ticket = part.from_leader(ticket);
    unit* const to = link.ring.payload(link.ring.chunk(ticket));
    const unit* const from = messages_of(memory, link.bin, which);
    for (uint32_t i = part.rank(); i < row.units(); i += part.size()) store_unit(to + i, load_unit(from + i));
    part.sync();
    if (!part.is_leader()) return;
    store_relaxed<scope::block>(&written[link.bin][which], 0u);
    // Places are 32 bits wide, and so generations wrap below that.
    store_release<scope::block>(&holds[link.bin][which], (generation + 2) & (~0u >> log2));  // [B4]
    block_add(sent, row.messages);
    link.ring.publish(ticket, row);
    if (ticket % 64 == 0) ring_bell(link);
  }

 public:
  /// Hands over what is left, and makes the bins empty. Thread scope: block, converged; `ticket`: a word of shared memory.
  /// One bin after the other, as hand_over_to_peers.
  GRAVEL_DEVICE void finish(const gravel_t& g, unit* memory, uint64_t* ticket, uint32_t rank, uint32_t size, uint32_t* sent) {
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

}  // namespace gravel
