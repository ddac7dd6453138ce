// What handlers send while a warp of the resolver runs them: gathered in open chunks of the rings to their
// destinations, and published when a chunk is full or the warp has nothing else to do. So messages that handlers send
// leave together, without host or queue, and no handler waits:
//
//   the chunk of the next ticket is free         it is filled in place, in a peer's memory over NVLink
//   else that of the ring to the own PE is free  it is filled for that peer, and passed on later (resolver_rings.cuh)
//   else                                         the message takes the handlers' queue, which may spill
//
// Who has taken a ticket must publish it. One whose chunk was not free is kept as deferred: it is the next one used for
// that ring, or is published empty as soon as its chunk is free (flush). A warp looks after that whenever it is not
// running handlers, from time to time while one sends (serve_others), and hands its debts on to the next resolver
// kernel when it ends; so nobody waits for a ticket that nobody will publish.
//
// The lanes of a warp stand at different places: those that send together are a group. Groups of one warp take turns
// at the outbox: [O1] take, acquire; [O2] give back, release. Between the two nobody waits, so a turn always comes. On
// a GPU [O2] is relaxed: what lanes of one warp store, and then order by __syncwarp, is ordered by the fence of
// whichever of them publishes, and a fence for each message would wait for the stores that are under way to the peer.
//
// Invariants: a warp takes the tickets for what its handlers send before it marks as done what they ran for, and
// publishes them without waiting for anything but its own handlers; it owes at most one ticket of each ring.
#pragma once
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel::detail {

/// A ticket of the ring to `pe` that is to be published when its chunk is free.
struct deferred_ticket {
  uint64_t ticket;
  uint64_t pe;
};
/// What a warp owes: in device memory, where it outlasts the kernel. At most one ticket of each ring.
struct deferred_tickets {
  deferred_ticket of_rank[max_peers];
  uint64_t ranks;  ///< of whose rings a ticket is deferred, as bits
  uint64_t busy;   ///< not 0: the warp applies chunks
};

/// Messages that leave through a ring, counted where the chunk is published. Thread scope: one lane for all of them.
GRAVEL_DEVICE void count_published(device_counters* counters, bool is_own, uint32_t messages) {
  route_counters& line = counters->here();
  fetch_add<scope::device>(is_own ? &line.in_place : &line.to_peers, uint64_t{messages});
}

/// Those of `all` that send to the same PE as the caller, no more than whose messages fit the smallest chunk.
GRAVEL_DEVICE lane_group group_for_chunk(const lane_group& all, uint32_t pe, const row_kind& kind) {
  const lane_group group = all.part(all.match(pe));
  if (units_for(kind, 32) <= peer_ring::least_chunk_units) return group;
  return group.part(group.match(group.rank() / (peer_ring::least_chunk_units / kind.units())));
}

/// In shared memory, one for each warp of the resolver.
class outbox {
 public:
  static constexpr uint32_t most_chunks = 8, adds_of_a_turn = 128;
  /// Words by which a chunk grows in a turn if it is to stay open: so it is full after few turns.
  static constexpr uint32_t least_growth = 8;

  /// `deferred`: nullptr if this PE has no rings. Thread scope: the warp, converged; as all but add().
  GRAVEL_DEVICE void begin(const gravel_t& g, deferred_tickets* deferred, uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32) chunk_[i] = {};
    if (lane != 0) return;
    taken_ = n_open_ = adds_ = 0;
    peers_ = g.peers;
    counters_ = g.counters;
    queue_ = g.direct;
    my_pe_ = g.my_pe;
    deferred_ = deferred;
    owes_ = deferred ? static_cast<uint32_t>(deferred->ranks) : 0;
  }
  /// True if something is deferred still.
  GRAVEL_DEVICE bool end(uint32_t lane) const {
    if (lane == 0 && deferred_) deferred_->ranks = owes_;
    return owes_ != 0;
  }

  /// The calling lane, one of `all`, sends one message. Thread scope: lane, divergent.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add(const lane_group& all, uint32_t pe, const row_kind& kind, const Piece (&message)[N]) {
    if (all.is_leader()) {
      take();
      if (++adds_ % adds_of_a_turn == 0) serve_others();
    }
    if constexpr (message_units<Piece, N> * 32 > peer_ring::least_chunk_units) {
      all.sync();  // it is the group's turn
      add_to_others(all, group_for_chunk(all, pe, kind), all.mask(), pe, kind, message);
    } else {
      add_small(all, pe, kind, message);
    }
  }

  /// Is there anything to publish?
  GRAVEL_DEVICE bool is_empty() const { return n_open_ == 0 && owes_ == 0; }

  /// Publishes what is open; and empty chunks for tickets that are deferred and can be had now.
  __device__ GRAVEL_NOINLINE void flush(uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32)
      if (chunk_[i].is_open()) publish(chunk_[i]);
    const uint32_t owes = owes_;
    const bool is_paid = owes >> lane & 1 && pay(lane);
    const uint32_t paid = __ballot_sync(~0u, is_paid);
    if (lane == 0) {
      owes_ = owes & ~paid;
      n_open_ = 0;
    }
    __syncwarp();
  }

  /// Takes the next chunk of a ring if it is free at once. After `true`, publish() must follow. Thread scope: the lane
  /// whose turn it is.
  GRAVEL_DEVICE bool claim(const peer_link& link, uint64_t* ticket) {
    deferred_ticket& deferred = deferred_->of_rank[link.rank];
    const bool owes = owes_ >> link.rank & 1;
    const uint64_t next = owes ? deferred.ticket : fetch_add<scope::device>(&link.line->tickets, uint64_t{1});
    const bool is_free = link.ring.is_free(next);
    if (is_free && owes) owes_ &= ~(1u << link.rank);
    if (!is_free && !owes) {
      deferred = {next, link.pe};
      owes_ |= 1u << link.rank;
    }
    *ticket = next;
    return is_free;
  }

 private:
  struct alignas(16) open_chunk {
    uint64_t kind;      ///< of what is in it, as bits; 0: no chunk is open. More than one destination or kind may share
                        ///< this place
    uint32_t pe, used;  ///< for whom; words
    uint32_t* payload;
    uint32_t room, looked;  ///< words; what serve_others() found used the last time, or not_yet
    const peer_link* link;  ///< in whose ring
    uint64_t ticket;
    GRAVEL_DEVICE bool is_open() const { return kind != 0; }
    static constexpr uint32_t not_yet = 1u << 31;  // far from all that may be used
  };

  GRAVEL_DEVICE void take() {
    for (relax wait; !compare_swap_acquire<scope::shared>(&taken_, 0u, 1u); wait()) {  // [O1]
    }
  }
  GRAVEL_DEVICE void give_back() {  // [O2]
#if GRAVEL_ON_GPU
    store_relaxed<scope::shared>(&taken_, 0u);
#else
    store_release<scope::shared>(&taken_, 0u);
#endif
  }

  /// Mostly a lane is alone, or what is sent to each destination fits into the chunk that is open for it.
  template <class Piece, uint32_t N>
  GRAVEL_DEVICE void add_small(const lane_group& all, uint32_t pe, const row_kind& kind, const Piece (&message)[N]) {
    lane_group part = all;
    uint64_t row;
    uint32_t rest;
    if (all.size() == 1) {
      row = place(pe, kind, 1);
      rest = row ? 0 : all.mask();
    } else {
      all.sync();  // it is the group's turn
      part = all.part(all.match(pe));
      row = all.from_lane(part.is_leader() ? place(pe, kind, part.size()) : 0, part.leader_lane());
      rest = all.ballot(row == 0);
    }
    if (row) store_message(reinterpret_cast<Piece*>(row) + part.rank() * N, message);
    all.sync();  // the next part, or the next group, may publish the chunk
    if (rest) {
      Piece copy[N];  // whose address leaves, not the message's
      for (uint32_t i = 0; i < N; ++i) copy[i] = message[i];
      add_apart(all, part, rest, pe, kind.bits(), copy);
    } else if (all.is_leader()) {
      give_back();
    }
  }

  GRAVEL_DEVICE open_chunk& chunk_for(uint32_t pe, row_kind kind) {
    return chunk_[(pe + 5 * (kind.words + kind.handler)) % most_chunks];
  }
  /// Where `n` messages of a kind go if they fit into the open chunk, else 0. Thread scope: a lane of those whose turn
  /// it is; one for each destination.
  GRAVEL_DEVICE uint64_t place(uint32_t pe, const row_kind& kind, uint32_t n) {
    open_chunk& c = chunk_for(pe, kind);
    const uint32_t used = c.used, end = used + n * kind.words;
    if (c.kind != kind.bits() || c.pe != pe || end > c.room) return 0;
    c.used = end;
    return reinterpret_cast<uint64_t>(c.payload + used);
  }
  /// As place(), in a chunk that it opens, unless another part has; 0: there is no room. Thread scope: the lane whose
  /// turn it is.
  GRAVEL_DEVICE uint64_t place_in_new(uint32_t pe, const row_kind& kind, uint32_t n) {
    if (const uint64_t row = place(pe, kind, n)) return row;
    open_chunk& c = chunk_for(pe, kind);
    if (c.is_open()) publish(c);
    return open(c, pe, kind) ? place(pe, kind, n) : 0;
  }
  /// Sends the messages of the lanes in `rest`, whole parts of the group, one part after the other: in chunks that the
  /// leader opens, or, where there is no room at once, through the queue. Gives back the turn. Thread scope: the group.
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
    if (all.is_leader()) give_back();
    if (waiting >> all.lane() & 1)
      send_in_slots(queue_, all.part(waiting), sink_of(pe, sink_kind::device), kind, message);
  }
  /// Not inlined, as all that is seldom done: so the code of a place that sends is short.
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
    c.looked = open_chunk::not_yet;
    ++n_open_;
    return true;
  }
  /// A handler may go on sending for long, to other PEs than before. What its warp opened or owes there is published
  /// meanwhile: else the ring would come round to it, and who has the ticket after it could send nothing there either.
  __device__ GRAVEL_NOINLINE void serve_others() {
    for (open_chunk& c : chunk_)
      if (c.is_open()) {
        const uint32_t before = c.looked;
        c.looked = c.used;
        if (c.used - before < least_growth) publish(c);
      }
    uint32_t paid = 0;
    for (uint32_t rest = owes_; rest; rest &= rest - 1)
      if (pay(lane_group::lowest(rest))) paid |= rest & ~(rest - 1);
    owes_ &= ~paid;
  }
  /// Publishes an empty chunk for the ticket that is deferred to this rank, if its chunk is free. Thread scope: lane.
  GRAVEL_DEVICE bool pay(uint32_t rank) const {
    const deferred_ticket deferred = deferred_->of_rank[rank];
    const peer_link& link = peers_[deferred.pe];
    const bool is_free = link.ring.is_free(deferred.ticket);
    if (is_free) link.ring.publish(deferred.ticket, {wide_kind(1), sink_of(link.pe, sink_kind::device), 0});
    ring_doorbell_sometimes(link);  // whoever is to look there may sleep
    return is_free;
  }
  __device__ GRAVEL_NOINLINE void publish(open_chunk& c) {
    const row_kind kind = row_kind::of_bits(c.kind);
    const uint32_t messages = c.used / kind.words;
    c.link->ring.publish(c.ticket, {kind, sink_of(c.pe, sink_kind::device), messages});
    c.kind = 0;
    count_published(counters_, c.pe == my_pe_, messages);
    // Who runs handlers is awake itself.
    if (c.link != &peers_[my_pe_]) ring_doorbell_sometimes(*c.link);
  }

  open_chunk chunk_[most_chunks];
  const peer_link* peers_;  ///< of the handle: so who sends need not have it in memory
  device_counters* counters_;
  queue queue_;
  deferred_tickets* deferred_;
  uint32_t owes_;    ///< copy of deferred_->ranks
  uint32_t n_open_;  ///< not 0: some chunk is open
  uint32_t adds_;    ///< by groups of lanes
  uint32_t taken_;
  uint32_t my_pe_;
};

/// The outbox of the calling warp; meaningful in the resolver kernel, whose dynamic shared memory they are.
GRAVEL_DEVICE outbox& outbox_of_warp() { return reinterpret_cast<outbox*>(gravel_dynamic_shared())[threadIdx.x / 32]; }

/// Whether the handler that calls has one. On the CPU backend the receiver thread serves the rings by launches, and
/// applies packets without.
GRAVEL_DEVICE bool has_outbox() {
#if GRAVEL_CUDA
  return true;
#else
  return simt::in_kernel();
#endif
}

/// Kernels' active messages to a PE that has a ring: those of `all` that send to it together fill a chunk. Waits while
/// the ring is full. Thread scope: lane, divergent.
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
