// State that the blocks of the resolver (resolver.cuh) share: with each other, with the host, and from one kernel to
// the next; and the decision when a kernel ends.
#pragma once
#include "device/outbox.cuh"
#include "device/release_ring.cuh"

namespace gravel::detail {

struct rendezvous_view;  // device/settle.cuh

/// The control block of the resolver: pinned host words between the receiver thread and the resolver kernel. Each word
/// has one writer.
struct resolver_control {
  alignas(64) uint64_t lease;       ///< host: number of the lease that is in force; 0: none
  alignas(64) uint64_t lease_seen;  ///< resolver: last lease acknowledged [H1]
  alignas(64) uint64_t taken;       ///< resolver: packets applied when the last kernel ended
  alignas(64) uint64_t left_over;   ///< resolver: the last kernel ended with chunks still in its rings
  alignas(64) uint64_t settled[2];  ///< device/settle.cuh: the event for which the host waits has happened
  alignas(64) uint64_t order;       ///< host: its last settle_order
  alignas(64) uint64_t answered;    ///< resolver: the last order that it has obeyed
};

/// What the host orders (device/settle_orders.cuh): a word that differs from that of the order before.
///   bits 0-15 low part of the number of the order | 16-63 number of the barrier; 0: a quiet
struct settle_order {
  static uint64_t word(uint64_t number, uint64_t barrier) { return barrier << 16 | (number & 0xffff); }
  GRAVEL_BOTH static uint64_t barrier_of(uint64_t word) { return word >> 16; }
};

/// The rings that peers fill, in device memory.
struct peer_rings {
  const peer_ring* of_source;  ///< [n]; slots == nullptr: no ring from there
  uint64_t* drawn;             ///< [n] tickets of each ring that lanes have drawn so far
  /// [warps that serve rings][ring_watch::groups_for(n)][32] the place of each lane, kept for the next kernel
  ring_place* places;
  uint32_t n;                     ///< number of rings
  uint32_t blocks;                ///< blocks that serve rings, behind those for the landing ring
  uint32_t own;                   ///< number of the ring from this PE itself; n: there is none
  deferred_tickets* deferred;     ///< [warps of the resolver]; nullptr: no rings at all
  const rendezvous_view* orders;  ///< what a warp needs to obey the host's orders; nullptr: no warp obeys them
};

/// State of a stream of the landing ring.
struct stream_state {
  uint64_t arrived;  ///< cached: packets below this have been published
  uint64_t next;     ///< sequence to claim next
};

/// Words that all blocks share, in device memory. They survive from one resolver kernel to the next. Words that idle
/// warps poll lie apart from words that are written all the time.
struct resolver_state {
  /// Blocks of this kernel that have started. The host clears this word and the next three before each launch.
  alignas(64) uint32_t resident;
  uint32_t leaving;                 ///< blocks that have left
  uint32_t stop;                    ///< block 0 has decided to end
  uint32_t left_over;               ///< a warp saw a chunk in its rings when it left
  alignas(64) uint64_t taken;       ///< packets claimed by blocks
  uint64_t finished;                ///< packets applied
  uint64_t next_turn;               ///< time from which on a block may poll host memory, for all
  alignas(64) uint64_t last_chunk;  ///< a recent time at which a chunk was applied
#if GRAVEL_CUDA
  alignas(64) stream_state stream[];
#endif
};

struct resolver_limits {
  uint64_t quantum_ns;   ///< longest life of a kernel without a lease
  uint64_t idle_ns;      ///< without a lease, a kernel that has found nothing for so long ends
  uint32_t stage_units;  ///< units of stage_of_block()
};

#if GRAVEL_CUDA
constexpr int resolver_threads = 512;
#else
constexpr int resolver_threads = 96;  // threads of the block that serves the rings (host/pe/ring_server.hpp)
#endif
constexpr uint32_t resolver_warps = resolver_threads / 32;
constexpr unsigned resolver_shared_bytes = resolver_warps * sizeof(outbox) + sizeof(release_ring);
static_assert(sizeof(outbox) % alignof(release_ring) == 0);

/// Returns the memory in which a block stages the messages of a packet before it applies them. Valid in the resolver
/// kernel; it lies behind everything else.
GRAVEL_DEVICE unit* stage_of_block() {
  return reinterpret_cast<unit*>(gravel_dynamic_shared() + resolver_shared_bytes);
}
static_assert(resolver_shared_bytes % sizeof(unit) == 0);

/// Returns the chunks that this block has applied and not yet released. Valid in the resolver kernel.
GRAVEL_DEVICE release_ring& releases_of_block() {
  return *reinterpret_cast<release_ring*>(gravel_dynamic_shared() + resolver_warps * sizeof(outbox));
}

#if GRAVEL_CUDA
/// Acknowledges the host's lease, or, if there is none, ends the kernel when it is time. Thread scope: one lane of the
/// kernel.
__device__ __forceinline__ void decide(resolver_state* state, resolver_control* control, const peer_rings& peers,
                                       const resolver_limits& limits, uint64_t born, uint64_t last_work, bool working) {
  if (const uint64_t lease = load_acquire(&control->lease)) {
    if (load_acquire<scope::device>(&state->resident) == gridDim.x && load_relaxed(&control->lease_seen) != lease)
      store_release(&control->lease_seen, lease);  // [H1]
    return;
  }
  const uint64_t now = globaltimer_ns();
  const uint64_t last_chunk = peers.n ? load_relaxed<scope::device>(&state->last_chunk) : 0;
  const uint64_t last = last_chunk > last_work ? last_chunk : last_work;
  if (now - born <= limits.quantum_ns) {
    if (working || now <= last + limits.idle_ns) return;
    // A warp may be busy with a handler for a long time.
    for (uint32_t warp = 0; warp < peers.blocks * resolver_warps; ++warp)
      if (load_relaxed<scope::device>(&peers.deferred[(gridDim.x - peers.blocks) * resolver_warps + warp].busy)) return;
  }
  store_release<scope::device>(&state->stop, 1u);
}
#endif

}  // namespace gravel::detail
