// Outbox: collects the messages that device handlers send.
//
// Problem. A handler may send messages but must never wait. Many handlers of a warp send at the same time.
// Solution. The warp keeps one open chunk per destination. It publishes a chunk when the chunk is full, or when the
// warp has no handler left to run. No message passes through the host.
//
// A message goes to the first of these places that has room at once:
//   1. the peer's ring: the chunk is filled in place, in the peer's memory over NVLink
//   2. the ring of this PE, which forwards the chunk to the peer later (resolver_rings.cuh)
//   3. the handlers' queue, which may spill to host memory
//
// Deferred tickets. A warp that takes a ticket of a ring must publish that ticket, or the ring stops. If the chunk of
// the ticket is not free, the warp defers the ticket: it uses the ticket for its next chunk of that ring, or publishes
// it empty as soon as the chunk is free. It checks for this in flush(), whenever it runs no handler, and in
// serve_others(), from time to time while a handler sends. Deferred tickets outlive the kernel (deferred_tickets): the
// next resolver kernel takes them over. So every ticket is published at some time.
//
// Exclusion. The lanes of a warp may send from different places in the code. Lanes that send together are a group, and
// the groups of a warp take turns: [O1] acquire, [O2] release. No group waits while it holds the turn. On a GPU [O2] is
// relaxed: the stores of a warp's lanes, ordered by __syncwarp, are ordered by the fence of the lane that publishes
// them. A fence for each message would wait for the stores that are under way to the peer.
//
// Invariants. A warp takes the tickets for what its handlers send before it marks the messages that they ran for as
// done. It publishes these tickets without waiting for anything but its own handlers. It defers at most one ticket per
// ring.
#pragma once
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel::detail {

/// A ticket of the ring to `pe` that is to be published when its chunk is free.
struct deferred_ticket {
  uint64_t ticket;
  uint64_t pe;
};
/// The deferred tickets of a warp, at most one per ring. They lie in device memory and outlive the kernel.
struct deferred_tickets {
  deferred_ticket of_rank[max_peers];
  rank_set ranks;  ///< the rings of which a ticket is deferred
  uint64_t busy;   ///< not 0: the warp applies chunks
  uint32_t group;  ///< the group of rings with which the warp's next kernel begins (ring_watch)
};

/// Counts messages that leave through a ring, when their chunk is published. Thread scope: one lane for all of them.
GRAVEL_DEVICE void count_published(device_counters* counters, bool is_own, uint32_t messages) {
  route_counters& line = counters->here();
  fetch_add<scope::device>(is_own ? &line.in_place : &line.to_peers, uint64_t{messages});
}

/// The lanes of `all` that send to the same PE as the caller, as many as have room for their messages in the smallest
/// chunk.
GRAVEL_DEVICE lane_group group_for_chunk(const lane_group& all, uint32_t pe, const row_kind& kind) {
  const lane_group group = all.part(all.match(pe));
  if (units_for(kind, 32) <= peer_ring::least_chunk_units) return group;
  return group.part(group.match(group.rank() / (peer_ring::least_chunk_units / kind.units())));
}

/// The outbox of one warp of the resolver, in shared memory.
class outbox {
 public:
  static constexpr uint32_t most_chunks = 8, adds_of_a_turn = 128;
  /// serve_others() publishes a chunk that has grown by fewer words than this since its last call. A chunk that grows
  /// faster is full after a few calls.
  static constexpr uint32_t least_growth = 8;

  /// Begins with the tickets that an earlier kernel has deferred. `deferred`: nullptr if this PE has no rings. Thread
  /// scope: the warp, converged, as of all members but add().
  GRAVEL_DEVICE void begin(const gravel_t& g, deferred_tickets* deferred, uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32) chunk_[i] = {};
    if (lane != 0) return;
    taken_ = n_open_ = adds_ = 0;
    peers_ = g.peers;
    counters_ = g.counters;
    queue_ = g.direct;
    my_pe_ = g.my_pe;
    deferred_ = deferred;
    deferred_ranks_ = deferred ? deferred->ranks : rank_set{};
  }
  /// Ends. Returns true if a ticket is still deferred.
  GRAVEL_DEVICE bool end(uint32_t lane) const {
    if (lane == 0 && deferred_) deferred_->ranks = deferred_ranks_;
    return !deferred_ranks_.is_empty();
  }

  /// Sends one message of the calling lane, which is one of `all`. Thread scope: lane, divergent.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add(const lane_group& all, uint32_t pe, const row_kind& kind, const Piece (&message)[N]) {
    if (all.is_leader()) {
      acquire();
      if (++adds_ % adds_of_a_turn == 0) serve_others();
    }
    if constexpr (message_units<Piece, N> * 32 > peer_ring::least_chunk_units) {
      all.sync();  // the group has the turn
      add_to_others(all, group_for_chunk(all, pe, kind), all.mask(), pe, kind, message);
    } else {
      add_small(all, pe, kind, message);
    }
  }

  /// Returns true if there is nothing to publish.
  GRAVEL_DEVICE bool is_empty() const { return n_open_ == 0 && deferred_ranks_.is_empty(); }

  /// Publishes the open chunks, and empty chunks for the deferred tickets whose chunks are free now.
  __device__ GRAVEL_NOINLINE void flush(uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32)
      if (chunk_[i].is_open()) publish(chunk_[i]);
    __syncwarp();  // all lanes have seen that the outbox is not empty
    for (uint32_t w = 0; w < rank_set::words; ++w) {
      const uint32_t ranks = deferred_ranks_.word[w];  // the same in all lanes
      if (ranks == 0) continue;
      const bool is_retired = ranks >> lane & 1 && retire(w * 32 + lane);
      const uint32_t retired = __ballot_sync(~0u, is_retired);
      if (lane == 0) deferred_ranks_.word[w] = ranks & ~retired;
    }
    if (lane == 0) n_open_ = 0;
    __syncwarp();
  }

  /// Claims the next chunk of a ring if it is free at once; else defers its ticket and returns false. After `true`,
  /// publish() must follow. Thread scope: the lane that has the turn.
  GRAVEL_DEVICE bool claim(const peer_link& link, uint64_t* ticket) {
    deferred_ticket& deferred = deferred_->of_rank[link.rank];
    const bool is_deferred = deferred_ranks_.has(link.rank);
    const uint64_t next = is_deferred ? deferred.ticket : fetch_add<scope::device>(&link.line->tickets, uint64_t{1});
    const bool is_free = link.ring.is_free(next);
    if (is_free && is_deferred) deferred_ranks_.remove(link.rank);
    if (!is_free && !is_deferred) {
      deferred = {next, link.pe};
      deferred_ranks_.add(link.rank);
    }
    *ticket = next;
    return is_free;
  }

 private:
  struct alignas(16) open_chunk {
    /// row_kind::bits of its messages; 0: no chunk is open here. Several destinations and kinds share one entry.
    uint64_t kind;
    uint32_t pe, used;  ///< destination; words that are filled
    uint32_t* payload;
    uint32_t room, used_before;  ///< words; `used` at the last serve_others(), or not_yet
    const peer_link* link;       ///< the ring's link
    uint64_t ticket;
    GRAVEL_DEVICE bool is_open() const { return kind != 0; }
    static constexpr uint32_t not_yet = 1u << 31;  // larger than any `used`
  };

  GRAVEL_DEVICE void acquire() {
    for (relax wait; !compare_swap_acquire<scope::shared>(&taken_, 0u, 1u); wait()) {  // [O1]
    }
  }
  GRAVEL_DEVICE void release() {  // [O2]
#if GRAVEL_ON_GPU
    store_relaxed<scope::shared>(&taken_, 0u);
#else
    store_release<scope::shared>(&taken_, 0u);
#endif
  }

  /// Sends small messages. The common cases: the lane is alone, or the messages for each destination fit into the open
  /// chunk.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add_small(const lane_group& all, uint32_t pe, const row_kind& kind, const Piece (&message)[N]) {
    lane_group part = all;
    uint64_t row;
    uint32_t rest;
    if (all.size() == 1) {
      row = place(pe, kind, 1);
      rest = row ? 0 : all.mask();
    } else {
      all.sync();  // the group has the turn
      part = all.part(all.match(pe));
      row = all.from_lane(part.is_leader() ? place(pe, kind, part.size()) : 0, part.leader_lane());
      rest = all.ballot(row == 0);
    }
    if (row) store_message(reinterpret_cast<Piece*>(row) + part.rank() * N, message);
    all.sync();  // after this the next part, or the next group, may publish the chunk
    if (rest) {
      Piece copy[N];  // a copy, so that the address of `message` does not leave this function
      for (uint32_t i = 0; i < N; ++i) copy[i] = message[i];
      add_apart(all, part, rest, pe, kind.bits(), copy);
    } else if (all.is_leader()) {
      release();
    }
  }

  GRAVEL_DEVICE open_chunk& chunk_for(uint32_t pe, row_kind kind) {
    return chunk_[(pe + 5 * (kind.words + kind.handler)) % most_chunks];
  }
  /// Reserves room for `n` messages of a kind in the open chunk. Returns the address of the room, or 0 if they do not
  /// fit. Thread scope: one lane for each destination, of the group that has the turn.
  GRAVEL_DEVICE uint64_t place(uint32_t pe, const row_kind& kind, uint32_t n) {
    open_chunk& c = chunk_for(pe, kind);
    const uint32_t used = c.used, end = used + n * kind.words;
    if (c.kind != kind.bits() || c.pe != pe || end > c.room) return 0;
    c.used = end;
    return reinterpret_cast<uint64_t>(c.payload + used);
  }
  /// As place(), but opens a new chunk if no chunk with room is open. Returns 0 if no ring has room. Thread scope: the
  /// lane that has the turn.
  GRAVEL_DEVICE uint64_t place_in_new(uint32_t pe, const row_kind& kind, uint32_t n) {
    if (const uint64_t row = place(pe, kind, n)) return row;
    open_chunk& c = chunk_for(pe, kind);
    if (c.is_open()) publish(c);
    return open(c, pe, kind) ? place(pe, kind, n) : 0;
  }
  /// Sends the messages of the lanes in `rest`, which are whole parts of the group, one part after the other. The
  /// leader opens a chunk for each part. A part for which no ring has room at once goes through the queue. Releases the
  /// turn. Thread scope: the group.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add_to_others(const lane_group& all, const lane_group& part, uint32_t rest, uint32_t pe,
                                   const row_kind& kind, const Piece (&message)[N]) {
    uint32_t waiting = 0;
    while (rest) {
      const uint32_t of = lane_group::lowest(rest), together = all.from_lane(part.mask(), of),
                     destination = all.from_lane(pe, of);
      uint64_t row = 0;
      if (all.is_leader()) row = place_in_new(destination, kind, lane_group::popcount(together));
      row = all.from_leader(row);
      if (!row) waiting |= together;
      else if (together >> all.lane() & 1) store_message(reinterpret_cast<Piece*>(row) + part.rank() * N, message);
      rest &= ~together;
      all.sync();
    }
    if (all.is_leader()) release();
    if (waiting >> all.lane() & 1)
      send_in_slots(queue_, all.part(waiting), sink_of(pe, sink_kind::device), kind, message);
  }
  /// Not inlined, since it is seldom called: this keeps the code short at each place that sends.
  template <class Piece, uint32_t N>
  __device__ GRAVEL_NOINLINE void add_apart(lane_group all, lane_group part, uint32_t rest, uint32_t pe,
                                            uint64_t kind_bits, const Piece (&message)[N]) {
    add_to_others(all, part, rest, pe, row_kind::of_bits(kind_bits), message);
  }
  GRAVEL_DEVICE bool open(open_chunk& c, uint32_t pe, const row_kind& kind) {
    if (!peers_) return false;
    const peer_link &direct = peers_[pe], &own = peers_[my_pe_];
    if (!direct.ring.slots) return false;
    uint64_t ticket = 0;
    if (claim(direct, &ticket)) c.link = &direct;
    else if (&own != &direct && own.ring.slots && claim(own, &ticket)) c.link = &own;
    else return false;
    c.ticket = ticket;
    c.payload = words_at(peer_ring::payload(c.link->ring.chunk(ticket)));
    c.room = c.link->ring.chunk_units * row_kind::words_of_unit;
    c.kind = kind.bits();
    c.pe = pe;
    c.used = 0;
    c.used_before = open_chunk::not_yet;
    ++n_open_;
    return true;
  }
  /// Publishes chunks that hardly grow, and retires deferred tickets. A handler may send for a long time, to other PEs
  /// than before. Without this call the rings to the earlier PEs would come round to the tickets that this warp has not
  /// published, and a warp with a later ticket could not send there either.
  __device__ GRAVEL_NOINLINE void serve_others() {
    for (open_chunk& c : chunk_)
      if (c.is_open()) {
        const uint32_t before = c.used_before;
        c.used_before = c.used;
        if (c.used - before < least_growth) publish(c);
      }
    for (uint32_t w = 0; w < rank_set::words; ++w)
      for (uint32_t rest = deferred_ranks_.word[w]; rest; rest &= rest - 1) {
        const uint32_t rank = w * 32 + lane_group::lowest(rest);
        if (retire(rank)) deferred_ranks_.remove(rank);
      }
  }
  /// Retires the deferred ticket of the ring with this rank, that is, publishes its chunk empty, if the chunk is free.
  /// Thread scope: lane.
  GRAVEL_DEVICE bool retire(uint32_t rank) const {
    const deferred_ticket deferred = deferred_->of_rank[rank];
    const peer_link& link = peers_[deferred.pe];
    const bool is_free = link.ring.is_free(deferred.ticket);
    if (is_free) link.ring.publish(deferred.ticket, {wide_kind(1), sink_of(link.pe, sink_kind::device), 0});
    ring_doorbell_sometimes(link);  // the resolver that polls the ring may sleep
    return is_free;
  }
  __device__ GRAVEL_NOINLINE void publish(open_chunk& c) {
    const row_kind kind = row_kind::of_bits(c.kind);
    const uint32_t messages = c.used / kind.words;
    c.link->ring.publish(c.ticket, {kind, sink_of(c.pe, sink_kind::device), messages});
    c.kind = 0;
    count_published(counters_, c.pe == my_pe_, messages);
    // No doorbell for the own ring: this PE's resolver, which runs this code, is awake.
    if (c.link != &peers_[my_pe_]) ring_doorbell_sometimes(*c.link);
  }

  open_chunk chunk_[most_chunks];
  const peer_link* peers_;  ///< copied from the handle, so that a caller need not have the handle in memory
  device_counters* counters_;
  queue queue_;
  deferred_tickets* deferred_;
  rank_set deferred_ranks_;  ///< copy of deferred_->ranks
  uint32_t n_open_;          ///< not 0: at least one chunk is open
  uint32_t adds_;            ///< calls of add(), by groups of lanes
  uint32_t taken_;
  uint32_t my_pe_;
};

/// The outbox of the calling warp. Valid in the resolver kernel only, in whose dynamic shared memory the outboxes lie.
GRAVEL_DEVICE outbox& outbox_of_warp() { return reinterpret_cast<outbox*>(gravel_dynamic_shared())[threadIdx.x / 32]; }

/// Returns true if the calling handler has an outbox. On the CPU backend the receiver thread serves the rings by
/// launches, which have outboxes, and applies packets without one.
GRAVEL_DEVICE bool has_outbox() {
#if GRAVEL_CUDA
  return true;
#else
  return simt::in_kernel();
#endif
}

/// Sends an active message of a kernel to a PE that has a ring. The lanes of `all` that send to this PE fill one chunk
/// together. Waits while the ring is full. Thread scope: lane, divergent.
template <class Piece, uint32_t N>
GRAVEL_DEVICE void push_together(const gravel_t& g, const lane_group& all, uint32_t pe, const row_kind& kind,
                                 const Piece (&message)[N]) {
  const lane_group group = group_for_chunk(all, pe, kind);
  const peer_link& link = g.peers[pe];
  uint64_t ticket = 0;
  if (group.is_leader()) ticket = claim_chunk(link);
  ticket = group.from_leader(ticket);
  store_message(pieces_at<Piece>(peer_ring::payload(link.ring.chunk(ticket))) + group.rank() * N, message);
  group.sync();
  if (!group.is_leader()) return;
  link.ring.publish(ticket, {kind, sink_of(pe, sink_kind::device), group.size()});
  count_published(g.counters, pe == g.my_pe, group.size());
  ring_doorbell_sometimes(link);
}

}  // namespace gravel::detail
