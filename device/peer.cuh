// Route `peer`: operations on the memory of another GPU of the domain, mapped over NVLink or PCIe.
//
// Single operations are loads, stores and atomics there. Block senders (hand_over.cuh), active messages, and messages
// that handlers send (outbox.cuh) go through the ring to that PE. Active messages to this PE go through a ring in its
// own memory.
#pragma once
#include "device/handle.cuh"
#include "device/in_place.cuh"
#include "device/lane_group.cuh"

namespace gravel::detail {

/// Returns the address at which the heap of `pe` is mapped; nullptr if it is no peer. `pe` is in range.
GRAVEL_BOTH char* peer_heap(const gravel_t& g, int pe) { return g.peers ? g.peers[pe].heap : nullptr; }

/// Returns the link to a sink that has a ring; nullptr if there is none. Host handlers are reached only through the
/// node's aggregator.
GRAVEL_BOTH const peer_link* ring_to(const gravel_t& g, uint32_t sink) {
  if (!g.peers || kind_of_sink(sink) != sink_kind::device) return nullptr;
  const peer_link* link = &g.peers[pe_of_sink(sink)];
  return link->ring.slots ? link : nullptr;
}

/// Counts a message that left on the route `self` or `peer`. A group of lanes adds once, so statistics cost one atomic
/// for up to 32 messages.
GRAVEL_BOTH void count_one(const gravel_t& g, uint64_t route_counters::*route) {
  const lane_group group = lane_group::active_to_count();
  if (group.is_leader()) fetch_add<scope::device>(&(g.counters->here().*route), uint64_t{group.size()});
}

/// Notifies a destination whose resolver may sleep that there is something in its ring. A caller that waits for the
/// destination rings, and a caller that pushes rings now and then. A resolver that is awake polls its rings all the
/// time.
GRAVEL_BOTH void ring_doorbell(const peer_link& link) {
#if GRAVEL_ON_GPU
  store_release(link.doorbell, globaltimer_ns());
#else
  fetch_add_release<scope::system>(link.doorbell, uint64_t{1});
#endif
}
GRAVEL_BOTH void ring_doorbells(const gravel_t& g) {
  for (uint32_t pe = 0; g.peers && pe < g.n_pes; ++pe)
    if (g.peers[pe].ring.slots && load_relaxed<scope::device>(&g.peers[pe].line->tickets)) ring_doorbell(g.peers[pe]);
}

/// Rings the doorbell unless a lane has rung it lately; for callers that push all the time. A resolver kernel that was
/// started after that doorbell lives longer than `often_ns` (GRAVEL_RESOLVER_QUANTUM_US is at least 100 us). A kernel
/// that was started before it is followed by another.
GRAVEL_BOTH void ring_doorbell_sometimes(const peer_link& link) {
#if GRAVEL_ON_GPU
  constexpr uint64_t often_ns = 20'000;
  const uint64_t now = globaltimer_ns(), last = load_relaxed<scope::device>(&link.line->last_doorbell);
  // One of all lanes that find it is time: doorbells are words in host memory.
  if (now - last < often_ns || !compare_swap_acquire<scope::device>(&link.line->last_doorbell, last, now)) return;
#endif
  ring_doorbell(link);
}

/// Claims a chunk and waits until it is free. After it, publish() must follow. Thread scope: lane.
GRAVEL_BOTH uint64_t claim_chunk(const peer_link& link) {
  const uint64_t ticket = fetch_add<scope::device>(&link.line->tickets, uint64_t{1});
  uint32_t rounds = 0;
  for (relax wait; !link.ring.is_free(ticket); wait())
    if (++rounds % 256 == 0) ring_doorbell(link);
  return ticket;
}

/// Waits until the chunks of a ring below ticket `target` are applied. The caller knows that those below `below` are.
/// Thread scope: the group.
GRAVEL_BOTH void wait_for_chunks(const peer_link& link, const lane_group& group, uint64_t below, uint64_t target) {
  uint32_t rounds = 0;
  for (relax wait; below < target; wait()) {
    below = link.ring.words().first_missing(below, target, group);
    if (below < target && rounds++ % 256 == 0 && group.is_leader()) ring_doorbell(link);
  }
  group.sync();  // each lane has acquired what it read
  if (group.is_leader()) raise_to(&link.line->applied_below, below);
}
/// Waits until all that this PE's kernels have pushed to its peers before the call is applied. Thread scope: the group.
GRAVEL_BOTH void flush_peers(const gravel_t& g, const lane_group& group) {
  for (uint32_t base = 0; g.peers && base < g.n_pes; base += group.size()) {
    const uint32_t pe = base + group.rank();
    uint64_t target = 0, below = 0;
    if (pe < g.n_pes && g.peers[pe].ring.slots) {
      // Both loads are under way at once; acquire_now() follows.
      target = load_acquire_later(&g.peers[pe].line->tickets);
      below = load_acquire_later(&g.peers[pe].line->applied_below);
    }
    acquire_now();
    for (uint32_t rest = group.ballot(below < target); rest; rest &= rest - 1) {
      const uint32_t of = lane_group::lowest(rest);
      wait_for_chunks(g.peers[group.from_lane(pe, of)], group, group.from_lane(below, of), group.from_lane(target, of));
    }
  }
}

}  // namespace gravel::detail
