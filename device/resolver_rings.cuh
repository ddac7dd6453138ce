// How warps of the resolver serve the rings that peers, and this PE itself, fill in device memory.
//
// Each lane of a warp polls one ring for one ticket (ring_watch). The warp applies the chunks that have arrived, posts
// them to the block's releasing warp (release_ring.cuh), and draws the next tickets. Chunks in the own ring that are
// for a peer are forwarded when the peer's ring has room.
//
// On the CPU backend this is a kernel of its own (host/pe/ring_server.hpp).
#pragma once
#include "device/resolver_apply.cuh"
#include "lib/base/packet.hpp"

namespace gravel::detail {

/// Forwards a row from this PE's own ring to a peer's ring. Returns false if that ring has no room yet. Thread scope:
/// warp.
__device__ GRAVEL_NOINLINE inline bool forward_row(const gravel_t& g, const unit* from, const message_row& row) {
  const uint32_t lane = threadIdx.x % 32, units = static_cast<uint32_t>(row.units());
  const peer_link& link = g.peers[pe_of_sink(row.sink)];
  uint64_t ticket = 0;
  bool has_room = false;
  if (lane == 0) has_room = outbox_of_warp().claim(link, &ticket);
  if (!__shfl_sync(~0u, has_room, 0)) return false;
  unit* const to = peer_ring::payload(link.ring.chunk(__shfl_sync(~0u, ticket, 0)));
  for (uint32_t i = lane; i < units; i += 32) store_unit(to + i, load_unit(from + i));
  __syncwarp();
  if (lane == 0) {
    link.ring.publish(ticket, row);
    ring_doorbell_sometimes(link);
  }
  return true;
}

/// Discards lines of the L2 cache that have been read and will be written again, so that they are not written back to
/// memory. All rings of a PE together are too large for the cache. `bytes`: a multiple of 16; `at` begins a line of 64
/// or 128 bytes. GPUs before compute capability 8.0 do nothing: they write the lines back. Thread scope: warp.
__device__ __forceinline__ void forget_lines([[maybe_unused]] const unit* at, [[maybe_unused]] uint32_t bytes) {
#if GRAVEL_ON_GPU && __CUDA_ARCH__ >= 800
  constexpr uint32_t line = 128;
  __syncwarp();  // all lanes have read
  const uint64_t first = (reinterpret_cast<uint64_t>(at) + line - 1) / line * line,
                 end = (reinterpret_cast<uint64_t>(at) + bytes) / line * line;
  for (uint64_t l = first + threadIdx.x % 32 * line; l < end; l += 32 * line)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(l) : "memory");
#endif
}

/// Applies a chunk of a ring. Its messages are checked one by one like all others. Returns false if the chunk is to be
/// forwarded but cannot be yet: it stays where it is. Thread scope: warp.
template <class Handlers>
__device__ __forceinline__ bool resolve_chunk(const gravel_t& g, uint32_t room, bool from_self, chunk_header* chunk) {
  constexpr uint32_t batch = 8;
  constexpr uint64_t from = device_error::from_peer;
  const uint32_t lane = threadIdx.x % 32;
  const unit* const at = peer_ring::payload(chunk);
  // These loads are issued with the load of the header, before the number of messages is known: one latency instead of
  // two.
  unit held[batch];
  static_assert(batch * 32 <= peer_ring::least_chunk_units);
  GRAVEL_UNROLL
  for (uint32_t b = 0; b < batch; ++b) held[b] = load_unit(at + b * 32 + lane);
  const message_row row = load_row(&chunk->row);
  const uint32_t pe = pe_of_sink(row.sink);
  const bool is_forwarded = from_self && pe < g.n_pes && pe != g.my_pe && ring_to(g, row.sink);
  if (!peer_ring::may_hold(row, room) || row.sink != sink_of(pe, sink_kind::device) ||
      (pe != g.my_pe && !is_forwarded)) {
    if (lane == 0)
      report_error(g, message_fault::corrupt_packet, op::none, g.my_pe, static_cast<uint64_t>(packet_fault::bad_total),
                   0);
    return true;
  }
  if (is_forwarded) return forward_row(g, at, row);
  // The most frequent kinds, without a call.
  const auto update = [&]<class T, uint32_t WORDS>(T, std::integral_constant<uint32_t, WORDS>, auto&& f) {
    update_held<T, WORDS>(g, row, held, lane, from, f);
    for (uint32_t u = batch * 32 + lane; u * 4 < row.messages * WORDS; u += 32) {
      const unit more[1] = {load_unit(at + u)};
      update_held<T, WORDS>(g, row, more, u, from, f);
    }
  };
  constexpr std::integral_constant<uint32_t, 1> one_word;
  constexpr std::integral_constant<uint32_t, 2> two_words;
  if (row.kind.is_in_a_window_as(update_kind(op::inc, value_type::u64))) {
    update(uint64_t{}, one_word, [](uint64_t* word, uint64_t one) { add_scattered(word, one); });
  } else if (row.kind.is_in_a_window_as(update_kind(op::put, value_type::u32))) {
    update(uint32_t{}, two_words, [](uint32_t* word, uint32_t value) { put_scattered(word, value); });
  } else if (row.kind.is_in_a_window_as(update_kind(op::add, value_type::u32))) {
    update(uint32_t{}, two_words, [](uint32_t* word, uint32_t value) { add_scattered(word, value); });
  } else if (row.kind.is_in_a_window_as(update_kind(op::min, value_type::u32))) {
    update(uint32_t{}, two_words, [](uint32_t* word, uint32_t value) { min_scattered(word, value); });
  } else if (!row.kind.is_wide()) {
    resolve_compact<Handlers, 32>(g, row, at, from);
  } else if (row.kind.units() == 1) {
    resolve_small<Handlers, 32, batch>(g, at, row.messages, from);
  } else {
    resolve_large<Handlers, 32>(g, at, row.messages, row.kind.units(), from);
  }
  forget_lines(at, static_cast<uint32_t>(row.units() * sizeof(unit)));
  return true;
}

/// The rings that a warp serves. Lane i polls ring i % width, for a ticket that no other lane has. A lane that has
/// applied its ticket draws the next ticket of the ring. So a warp that is busy for long, with a handler that sends
/// much, delays only the few tickets that it has drawn. More than 32 rings form groups of 32, which the warp polls in
/// turn. A lane's place in the other groups lies in memory meanwhile. The next kernel begins with the group behind that
/// at which this one ends. Otherwise short-lived kernels with much to do would never come to the last group.
struct ring_watch {
  peer_ring ring{};
  uint64_t* drawn = nullptr;  ///< tickets of `ring` that have been drawn
  ring_place at{ring_place::none, ring_place::none};
  uint32_t width = 1, depth = 1;
  /// Tickets of each ring for which one warp waits. While the warp works on one of them, no other warp applies the
  /// others.
  static constexpr uint32_t most_depth = 2;

  uint32_t group = 0, groups = 1;

  /// Lane i of a warp polls ring i % width_for(n) of each group.
  GRAVEL_BOTH static uint32_t width_for(uint32_t n) {
    uint32_t width = 1;
    while (width < n && width < 32) width *= 2;
    return width;
  }
  GRAVEL_BOTH static uint32_t groups_for(uint32_t n) { return (n + 31) / 32; }
  __device__ __forceinline__ ring_watch(const peer_rings& peers, uint32_t warp, uint32_t first_group) {
    width = width_for(peers.n);
    depth = 32 / width < most_depth ? 32 / width : most_depth;
    groups = groups_for(peers.n);
    group = first_group < groups ? first_group : 0;
    enter(peers, warp);
  }
  /// Number of the calling lane's ring.
  __device__ __forceinline__ uint32_t source() const { return group * 32 + threadIdx.x % 32 % width; }
  /// Saves the lane's place for the next kernel, or the next turn of this group.
  __device__ __forceinline__ void save(const peer_rings& peers, uint32_t warp) const { *place(peers, warp) = at; }
  __device__ __forceinline__ uint32_t next_group() const { return group + 1 < groups ? group + 1 : 0; }
  /// Goes on to the next group.
  __device__ __forceinline__ void turn(const peer_rings& peers, uint32_t warp) {
    save(peers, warp);
    group = next_group();
    enter(peers, warp);
  }
  /// Returns the lanes whose ticket has arrived.
  __device__ __forceinline__ uint32_t poll() const { return __ballot_sync(~0u, ring.slots && ring.arrived(at.ticket)); }
  /// To be called while the chunk is applied, so that no lane waits for the result.
  __device__ __forceinline__ void draw_next() { at.draw_next(drawn); }
  __device__ __forceinline__ void advance() { at.advance(); }

 private:
  __device__ __forceinline__ ring_place* place(const peer_rings& peers, uint32_t warp) const {
    return &peers.places[(warp * groups + group) * 32 + threadIdx.x % 32];
  }
  __device__ __forceinline__ void enter(const peer_rings& peers, uint32_t warp) {
    ring = {};
    at = {};
    if (source() >= peers.n || threadIdx.x % 32 >= width * depth) return;
    ring = peers.of_source[source()];
    if (!ring.slots) return;
    drawn = &peers.drawn[source()];
    at = *place(peers, warp);
    at.begin(drawn);
  }
};

/// Serves the rings until block 0 sets `stop`. The last warp of a block releases the chunks that the others have
/// applied. Thread scope: each warp for itself.
template <class Handlers>
__device__ __forceinline__ void serve_rings(const gravel_t& g, const peer_rings& peers, resolver_state* state) {
  const uint32_t lane = threadIdx.x % 32;
  if (threadIdx.x / 32 == resolver_warps - 1)
    return releases_of_block().serve(resolver_warps - 1,
                                     peers.own < peers.n ? &g.peers[g.my_pe].line->applied : nullptr);
  const uint32_t me = (blockIdx.x - (gridDim.x - peers.blocks)) * resolver_warps + threadIdx.x / 32;
  deferred_tickets* const kept = &peers.deferred[blockIdx.x * resolver_warps + threadIdx.x / 32];
  ring_watch watch(peers, me, kept->group);
  bool is_own = watch.source() == peers.own;  // this lane's ring is the own one
  const auto turn = [&] {
    watch.turn(peers, me);
    is_own = watch.source() == peers.own;
  };
  uint64_t* const busy = &kept->busy;
  uint32_t rounds = 0;
  relax wait;
  for (;;) {
    const uint32_t arrived = watch.poll();
    if (arrived == 0) {
      if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(lane);
      if (__any_sync(~0u, load_acquire<scope::device>(&state->stop) != 0)) break;  // all lanes leave together
      if (watch.groups > 1) turn();
      wait();
      continue;
    }
    wait.reset();
    __syncwarp();  // what one lane has acquired, all may read
    if (arrived >> lane & 1) watch.draw_next();
    if (lane == 0) store_relaxed<scope::device>(busy, uint64_t{1});
    uint32_t applied = arrived;  // less the chunks that stay where they are
    bool leaves = false;
    for (uint32_t rest = arrived; rest && !leaves; rest &= rest - 1) {
      // Handlers may run for long. A warp that stayed for more chunks while all others have left would delay the next
      // kernel.
      const uint32_t stop = load_relaxed<scope::device>(&state->stop);
      const int chosen = __ffs(static_cast<int>(rest)) - 1;
      const auto chunk = reinterpret_cast<uint64_t>(watch.ring.slots ? watch.ring.chunk(watch.at.ticket) : nullptr);
      if (!resolve_chunk<Handlers>(g, __shfl_sync(~0u, watch.ring.chunk_units, chosen),
                                   __shfl_sync(~0u, is_own, chosen),
                                   reinterpret_cast<chunk_header*>(__shfl_sync(~0u, chunk, chosen))))
        applied &= ~(1u << chosen);
      leaves = __any_sync(~0u, stop != 0);
      if (leaves) applied &= ~(rest & (rest - 1));
    }
    // Messages that handlers sent have their tickets before any of these chunks is marked as done. The outbox is
    // flushed when no more chunks have arrived, so that its chunks are full while there is much to do, and otherwise
    // every few rounds.
    constexpr uint32_t keep_for_rounds = 8;
    if (rounds % keep_for_rounds == 0 && !outbox_of_warp().is_empty()) outbox_of_warp().flush(lane);
    __syncwarp();
    if (applied >> lane & 1) {
      releases_of_block().post(watch.ring, watch.at.ticket, is_own);
      watch.advance();
    }
    if (lane == 0) {
      store_relaxed<scope::device>(busy, uint64_t{0});
      if (rounds % 16 == 0) store_relaxed<scope::device>(&state->last_chunk, globaltimer_ns());
    }
    if (leaves) break;
    if (++rounds % keep_for_rounds == 0 && watch.groups > 1) turn();
    if (applied == 0)
      // Let the peer whose room these chunks wait for work without competing with these polls.
      __nanosleep(1000);
  }
  if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(lane);
  watch.save(peers, me);
  if (lane == 0) kept->group = watch.next_group();
  __syncwarp();  // all lanes have posted
  if (lane == 0) releases_of_block().leave();
  // For a chunk that arrives after this poll, the doorbell is rung after the host has started this kernel, and so the
  // host starts another.
  uint32_t left = watch.poll();
  for (uint32_t others = watch.groups; others > 1; --others) {
    turn();
    left |= watch.poll();
  }
  watch.save(peers, me);
  if (left && lane == 0) store_relaxed<scope::device>(&state->left_over, 1u);
}

}  // namespace gravel::detail
