// What handlers send while a warp of the resolver runs them: gathered in open chunks of the rings to their destinations, and
// published when a chunk is full or the warp has nothing else to do. So messages that handlers send leave
// together, without host or queue, and no handler waits:
//
//   the chunk of the next ticket is free         it is filled in place, in a peer's memory over NVLink
//   else that of the ring to the own PE is free  it is filled for that peer, and passed on later (resolver.cuh)
//   else                                         the message takes the handlers' queue, which may spill
//
// Who has taken a ticket must publish it. One whose chunk was not free is kept as owed: it is the next one used for that ring, or
// is published empty as soon as its chunk is free (flush). A warp looks after that whenever it is not running handlers,
// and hands its debts on to the next resolver kernel when it ends; so nobody waits for a ticket that nobody will publish.
//
// The lanes of a warp stand at different places: those that send to one PE together are a group. Groups of one warp take turns
// at the outbox: [O1] take, acquire; [O2] give back, release. Between the two nobody waits, so a turn always comes. On a GPU [O2]
// is relaxed: what lanes of one warp store, and then order by __syncwarp, is ordered by the fence of whichever of them publishes,
// and a fence for each message would wait for the stores that are under way to the peer.
//
// Invariants: a warp takes the tickets for what its handlers send before it marks as done what they ran for, and publishes them
// without waiting for anything but its own handlers; it owes at most one ticket of each ring.
#pragma once
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel {

/// A ticket of the ring to `pe` that is to be published when its chunk is free.
struct owed_ticket {
  uint64_t ticket;
  uint64_t pe;
};
/// What a warp owes: in device memory, where it outlasts the kernel. At most one ticket of each ring.
struct owed_tickets {
  owed_ticket of_rank[max_peers];
  uint64_t ranks;  ///< of whose rings a ticket is owed, as bits
  uint64_t spare;
};

/// The active lanes that send to the same PE as the caller, no more than whose messages fit the smallest chunk.
template <uint32_t UNITS>
GRAVEL_DEVICE lane_group group_for_chunk(uint32_t pe) {
  const lane_group all = lane_group::active();
  const lane_group group = all.part(all.match(pe));
  if constexpr (32 * UNITS <= peer_ring::least_chunk_units) return group;
  else return group.part(group.match(group.rank() / (peer_ring::least_chunk_units / UNITS)));
}

/// In shared memory, one for each warp of the resolver.
class outbox {
 public:
  static constexpr uint32_t most_chunks = 8;

  /// Thread scope: the warp, converged; as all but add().
  GRAVEL_DEVICE void begin(owed_tickets* owed, uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32) chunk_[i] = {};
    if (lane != 0) return;
    taken_ = n_open_ = 0;
    owed_ = owed;
    owes_ = static_cast<uint32_t>(owed->ranks);
  }
  /// True if something is owed still.
  GRAVEL_DEVICE bool end(uint32_t lane) const {
    if (lane == 0) owed_->ranks = owes_;
    return owes_ != 0;
  }

  /// The calling lane sends one message; false: there is no room at once, and it is to take the queue. `pe` has a ring.
  /// Thread scope: lane, divergent.
  template <uint32_t UNITS>
  GRAVEL_DEVICE bool add(const gravel_t& g, uint32_t pe, const unit (&message)[UNITS]) {
    const lane_group group = group_for_chunk<UNITS>(pe);
    unit* to = nullptr;
    if (group.is_leader()) {
      take();
      to = reserve(g, pe, group.size(), UNITS);
    }
    to = reinterpret_cast<unit*>(group.from_leader(reinterpret_cast<uint64_t>(to)));
    if (to)
      for (uint32_t u = 0; u < UNITS; ++u) store_unit(to + group.rank() * UNITS + u, message[u]);
    group.sync();
    if (group.is_leader()) give_back();
    return to != nullptr;
  }

  /// Is there anything to publish?
  GRAVEL_DEVICE bool is_empty() const { return n_open_ == 0 && owes_ == 0; }

  /// Publishes what is open; and empty chunks for tickets that are owed and can be had now.
  __device__ GRAVEL_NOINLINE void flush(const gravel_t& g, uint32_t lane) {
    for (uint32_t i = lane; i < most_chunks; i += 32)
      if (chunk_[i].units_used) publish(g, chunk_[i]);
    const uint32_t owes = owes_;
    bool is_free = false;
    if (owes >> lane & 1) {
      const owed_ticket owed = owed_->of_rank[lane];
      const peer_link& link = g.peers[owed.pe];
      is_free = link.ring.is_free(owed.ticket);
      if (is_free) link.ring.publish(owed.ticket, 0, 1, link.pe);
      ring_bell_now_and_then(link);  // whoever is to look there may sleep
    }
    const uint32_t paid = __ballot_sync(~0u, is_free);
    if (lane == 0) {
      owes_ = owes & ~paid;
      n_open_ = 0;
    }
    __syncwarp();
  }

  /// Takes the next chunk of a ring if it is free at once. After `true`, publish() must follow. Thread scope: the lane whose
  /// turn it is.
  GRAVEL_DEVICE bool claim(const peer_link& link, uint64_t* ticket) {
    owed_ticket& owed = owed_->of_rank[link.rank];
    const bool owes = owes_ >> link.rank & 1;
    const uint64_t next = owes ? owed.ticket : fetch_add<scope::device>(&link.line->tickets, uint64_t{1});
    const bool is_free = link.ring.is_free(next);
    if (is_free && owes) owes_ &= ~(1u << link.rank);
    if (!is_free && !owes) {
      owed = {next, link.pe};
      owes_ |= 1u << link.rank;
    }
    *ticket = next;
    return is_free;
  }

 private:
  struct open_chunk {
    const peer_link* link;  ///< in whose ring
    uint64_t ticket;
    uint32_t pe, units;     ///< of what is in it; more than one destination or size may share this place
    uint32_t units_used;    ///< 0: no chunk is open
  };

  GRAVEL_DEVICE void take() {
    for (relax wait; !compare_swap_acquire<scope::block>(&taken_, 0u, 1u); wait()) {  // [O1]
    }
  }
  GRAVEL_DEVICE void give_back() {  // [O2]
#if GRAVEL_ON_GPU
    store_relaxed<scope::block>(&taken_, 0u);
#else
    store_release<scope::block>(&taken_, 0u);
#endif
  }

  /// Where `n` messages of `units` units go; nullptr: there is no room. Thread scope: the lane whose turn it is.
  GRAVEL_DEVICE unit* reserve(const gravel_t& g, uint32_t pe, uint32_t n, uint32_t units) {
    const peer_link& direct = g.peers[pe];
    open_chunk& c = chunk_[(direct.rank + 5 * (units - 1)) % most_chunks];
    if (c.units_used && (c.pe != pe || c.units != units || c.units_used + n * units > c.link->ring.chunk_units)) publish(g, c);
    if (!c.units_used) {
      const peer_link& own = g.peers[g.my_pe];
      if (claim(direct, &c.ticket)) c.link = &direct;
      else if (&own != &direct && own.ring.slots && claim(own, &c.ticket)) c.link = &own;
      else return nullptr;
      c.pe = pe;
      c.units = units;
      ++n_open_;
    }
    unit* const at = peer_ring::payload(c.link->ring.chunk(c.ticket)) + c.units_used;
    c.units_used += n * units;
    return at;
  }
  GRAVEL_DEVICE void publish(const gravel_t& g, open_chunk& c) {
    const uint32_t n = c.units_used / c.units;
    c.link->ring.publish(c.ticket, n, c.units, c.pe);
    c.units_used = 0;
    route_counters& counters = g.counters->here();
    fetch_add<scope::device>(c.pe == g.my_pe ? &counters.in_place : &counters.to_peers, uint64_t{n});
    // Who runs handlers is awake itself.
    if (c.link != &g.peers[g.my_pe]) ring_bell_now_and_then(*c.link);
  }

  open_chunk chunk_[most_chunks];
  owed_tickets* owed_;
  uint32_t owes_;    ///< copy of owed_->ranks
  uint32_t n_open_;  ///< not 0: some chunk is open
  uint32_t taken_;
};

/// The outbox of the calling warp; meaningful in the resolver kernel, whose dynamic shared memory they are.
GRAVEL_DEVICE outbox& outbox_of_warp() { return reinterpret_cast<outbox*>(gravel_dynamic_shared())[threadIdx.x / 32]; }

/// Kernels' active messages to a PE that has a ring: the lanes that send to it together fill a chunk. Waits while the ring is
/// full. Thread scope: lane, divergent.
template <uint32_t UNITS>
GRAVEL_DEVICE void push_together(const gravel_t& g, uint32_t pe, const unit (&message)[UNITS]) {
  const lane_group group = group_for_chunk<UNITS>(pe);
  const peer_link& link = g.peers[pe];
  uint64_t ticket = 0;
  if (group.is_leader()) ticket = claim_chunk(link);
  ticket = group.from_leader(ticket);
  unit* const to = peer_ring::payload(link.ring.chunk(ticket)) + group.rank() * UNITS;
  for (uint32_t u = 0; u < UNITS; ++u) store_unit(to + u, message[u]);
  group.sync();
  if (!group.is_leader()) return;
  link.ring.publish(ticket, group.size(), UNITS, pe);
  route_counters& counters = g.counters->here();
  fetch_add<scope::device>(pe == g.my_pe ? &counters.in_place : &counters.to_peers, uint64_t{group.size()});
  ring_bell_now_and_then(link);
}

}  // namespace gravel
