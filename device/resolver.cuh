// The resolver kernel: applies the packets that arrive at a GPU, and runs device handlers, many at once.
//
// Its life is bounded. Block 0 decides: it ends the kernel when nothing has arrived for a while, or when its quantum is
// over, unless the host says `hold`: kernels of gravel_launch are running, which may wait for what only the resolver
// can do, and once it gave up its SMs it might never get them back. The host therefore starts such a kernel only after
// block 0 has acknowledged the hold ([H1]), which it does when all blocks of the resolver are resident.
#pragma once
#include "device/apply.cuh"
#include "device/bulk.cuh"
#include "device/outbox.cuh"

namespace gravel {

/// Pinned host words between the receiver thread and the resolver kernel; one writer each.
struct resolver_mailbox {
  alignas(64) uint64_t hold;        ///< host: number of the hold that is in force; 0: none
  alignas(64) uint64_t hold_seen;   ///< resolver: last hold acknowledged [H1]
  alignas(64) uint64_t taken;       ///< resolver: packets applied when the last kernel ended
  alignas(64) uint64_t left_over;   ///< resolver: the last kernel ended with chunks still in its rings
  alignas(64) uint64_t settled[2];  ///< device/settle.cuh: what the host waits for has happened
};

/// Tickets that a lane has drawn from a ring: the one that it waits for, and, while that cannot be applied, one more.
struct ring_place {
  static constexpr uint64_t none = ~0ull;
  uint64_t ticket, next;
};

/// Rings that peers fill, in device memory.
struct peer_rings {
  const peer_ring* of_source;  ///< [n]; slots == nullptr: no ring from there
  uint64_t* drawn;             ///< [n] tickets of each ring that lanes have drawn so far
  ring_place* places;          ///< [warps that serve rings][32]: each lane's, from one kernel to the next
  uint32_t n;                  ///< at most 32: a lane looks at each
  uint32_t blocks;             ///< that serve rings, behind those for the landing ring
  uint32_t own;                ///< number of the ring from this PE itself; n: there is none
  owed_tickets* owed;          ///< [warps of the resolver]; nullptr: no rings at all
};
static_assert(max_peers <= 32);

/// Of a channel of the landing ring.
struct channel_state {
  uint64_t arrived;  ///< cached: packets below this have been published
  uint64_t next;     ///< sequence to claim next
};

/// In device memory; survives from one resolver kernel to the next.
struct resolver_state {
  uint64_t taken;      ///< packets claimed by blocks
  uint64_t finished;   ///< packets applied
  uint32_t resident;   ///< blocks of this kernel that have started; the host clears these four before each launch
  uint32_t leaving;    ///< blocks that have left
  uint32_t stop;       ///< block 0 has decided to end
  uint32_t left_over;  ///< a warp saw a chunk in its rings when it left
  uint64_t last_chunk; ///< time at which a chunk was applied, now and then
  uint32_t working;    ///< warps that apply chunks now, and may run handlers for long
  uint32_t spare;
  uint64_t next_turn;  ///< time from which on a block may look for packets in host memory, for all
  channel_state channel[];
};

struct resolver_limits {
  uint64_t quantum_ns, idle_ns;
};

#if GRAVEL_CUDA

constexpr int resolver_threads = 512;
constexpr unsigned resolver_shared_bytes = resolver_threads / 32 * sizeof(outbox);

/// Claims packet `sequence` of a channel. Thread scope: lane.
__device__ __forceinline__ bool claim(channel_state& channel, uint64_t sequence) {
  return compare_swap_acquire<scope::device>(&channel.next, sequence, sequence + 1);
}

/// A packet that a block has claimed.
struct claimed_packet {
  int channel = -1;  ///< -1: none
  uint64_t sequence = 0;
};

/// Looks for packets in host memory, at most one of each channel, claims one of them and tells all blocks of the others.
/// With many channels the one word that counts arrivals comes first, so that an idle resolver reads little. Thread scope: warp.
__device__ __forceinline__ claimed_packet look_once(const landing& ring, resolver_state* state) {
  constexpr uint32_t few_channels = 32;
  const uint32_t lane = threadIdx.x & 31;
  claimed_packet mine;
  bool some = true;
  if (ring.channels > few_channels) {
    if (lane == 0) some = load_acquire(ring.arrivals) != load_relaxed<scope::device>(&state->taken);
    some = __shfl_sync(~0u, some, 0);
  }
  for (uint32_t base = 0; some && base < ring.channels; base += 32) {
    const uint32_t channel = base + lane;
    uint64_t sequence = 0;
    bool arrived = false, claimed = false;
    if (channel < ring.channels) {
      sequence = load_relaxed<scope::device>(&state->channel[channel].arrived);
      arrived = ring.arrived(channel, sequence);
    }
    for (uint32_t rest = __ballot_sync(~0u, arrived); rest && mine.channel < 0; rest &= rest - 1) {
      const int chosen = __ffs(static_cast<int>(rest)) - 1;
      if (static_cast<int>(lane) == chosen) claimed = claim(state->channel[channel], sequence);
      if (__shfl_sync(~0u, claimed, chosen)) mine = {static_cast<int>(base) + chosen, __shfl_sync(~0u, sequence, chosen)};
    }
    // Who looks in the meantime, because this took longer than a turn, may have seen more. What is claimed nobody else needs
    // to acquire.
    if (claimed) raise_relaxed(&state->channel[channel].arrived, sequence + 1);
    else if (arrived) raise_to(&state->channel[channel].arrived, sequence + 1);
  }
  return mine;
}

/// Looks for a while, if it is this block's turn. One block looks at a time: reads of one word in host memory do not overlap,
/// so that eight blocks that looked at once waited three times as long. Thread scope: warp.
__device__ __forceinline__ claimed_packet look_for_packets(const landing& ring, resolver_state* state) {
  constexpr uint64_t longest_ns = 20'000, while_ns = 10'000;
  const uint32_t lane = threadIdx.x & 31;
  claimed_packet found;
  if (!__shfl_sync(~0u, lane == 0 && take_turn(&state->next_turn, longest_ns), 0)) return found;
  const uint64_t begin = globaltimer_ns();
  do found = look_once(ring, state);
  while (__shfl_sync(~0u, found.channel < 0 && globaltimer_ns() - begin < while_ns, 0));
  if (lane == 0) give_turn(&state->next_turn, 0);
  return found;
}

/// Claims a packet of which it is known that it has arrived. Thread scope: warp.
__device__ __forceinline__ claimed_packet claim_packet(const landing& ring, resolver_state* state) {
  const uint32_t lane = threadIdx.x & 31;
  for (uint32_t base = 0; base < ring.channels; base += 32) {
    // Blocks begin at different channels, so that they do not race for the same packet.
    const uint32_t channel = (base + lane + blockIdx.x) % ring.channels;
    const bool mine = base + lane < ring.channels;
    uint64_t next = 0;
    bool arrived = false;
    if (mine) {
      next = load_relaxed<scope::device>(&state->channel[channel].next);
      arrived = next < load_acquire<scope::device>(&state->channel[channel].arrived);
    }
    for (uint32_t some = __ballot_sync(~0u, arrived); some; some &= some - 1) {
      const int chosen = __ffs(static_cast<int>(some)) - 1;
      bool claimed = false;
      if (static_cast<int>(lane) == chosen) claimed = claim(state->channel[channel], next);
      if (__shfl_sync(~0u, claimed, chosen))
        return {__shfl_sync(~0u, static_cast<int>(channel), chosen), __shfl_sync(~0u, next, chosen)};
    }
  }
  return {};
}

/// `from`: device_error::arrived.
__device__ __forceinline__ void reject(const gravel_t& g, const unit& message, message_fault fault, uint64_t from) {
  const uint64_t w0 = message.word[0];
  report_error(g, fault, op_of(w0), g.my_pe, op_of(w0) == op::am ? handler_of(w0) : offset_of(w0), 0, from);
}

/// Not inlined: one copy serves all sizes, and the compiler is done in seconds.
template <class Handlers>
__device__ __noinline__ void resolve_one(const gravel_t& g, const unit* message, uint32_t units, uint64_t from) {
  const message_fault fault = apply_message<Handlers>(g, sink_kind::device, message, units);
  if (fault != message_fault::fine) reject(g, *message, fault, from);
}

/// The commonest messages, an addition to a 64-bit word and a put of one, without a call. False: it is another one, or faulty.
__device__ __forceinline__ bool resolve_simple(const gravel_t& g, const unit& m) {
  constexpr uint8_t type = static_cast<uint8_t>(value_type::u64);
  constexpr uint64_t add = make_word0(op::add, type, 0), put = make_word0(op::put, type, 0);
  const uint64_t offset = offset_of(m.word[0]), what = m.word[0] & 0xffff;
  if ((what != add && what != put) || offset > g.heap_bytes - 8 || offset % 8) return false;
  auto* at = reinterpret_cast<uint64_t*>(g.heap + offset);
  if (what == add) add_scattered(at, m.word[1]);
  else put_in_place(at, m.word[1]);
  return true;
}
template <class Handlers>
__device__ __forceinline__ void resolve_unit(const gravel_t& g, const unit& m, uint64_t from) {
  if (!resolve_simple(g, m)) resolve_one<Handlers>(g, &m, 1, from);
}

/// Applies a segment of one-unit messages; several loads are under way before the first is used. TEAM: threads that
/// work on it together, a block or a warp.
template <class Handlers, uint32_t TEAM, uint32_t BATCH>
__device__ __forceinline__ void resolve_small(const gravel_t& g, const unit* at, uint32_t messages, uint64_t from) {
  for (uint32_t first = threadIdx.x % TEAM; first < messages; first += BATCH * TEAM) {
    unit held[BATCH];
#pragma unroll
    for (uint32_t b = 0; b < BATCH; ++b)
      if (first + b * TEAM < messages) held[b] = load_unit(at + first + b * TEAM);
#pragma unroll
    for (uint32_t b = 0; b < BATCH; ++b)
      if (first + b * TEAM < messages) resolve_unit<Handlers>(g, held[b], from);
  }
}

template <class Handlers, uint32_t TEAM>
__device__ __forceinline__ void resolve_large(const gravel_t& g, const unit* at, uint32_t messages, uint32_t units, uint64_t from) {
  for (uint32_t i = threadIdx.x % TEAM; i < messages; i += TEAM) {
    unit held[max_small_units];
    if (units > max_small_units) {  // a handler's arguments, which it reads where they lie
      resolve_one<Handlers>(g, at + i * units, units, from);
      continue;
    }
    for (uint32_t u = 0; u < units; ++u) held[u] = load_unit(at + i * units + u);
    resolve_one<Handlers>(g, held, units, from);
  }
}

/// Large active messages of a packet in host memory: the block reads it 16 bytes beside 16 bytes, and the handlers their
/// arguments from shared memory. Thread scope: block, converged.
template <class Handlers>
__device__ __forceinline__ void resolve_staged(const gravel_t& g, const unit* at, uint32_t messages, uint32_t units, uint64_t from) {
  constexpr uint32_t room = resolver_threads;
  __shared__ unit staged[room];
  const uint32_t most = room / units;
  for (uint32_t first = 0; first < messages; first += most) {
    const uint32_t n = messages - first < most ? messages - first : most;
    for (uint32_t u = threadIdx.x; u < n * units; u += resolver_threads) store_unit(staged + u, load_unit(at + first * units + u));
    __syncthreads();
    if (threadIdx.x < n) resolve_one<Handlers>(g, staged + threadIdx.x * units, units, from);
    __syncthreads();
  }
}

/// Thread scope: block, converged. All threads return the same.
__device__ __noinline__ inline message_fault resolve_bulk(const gravel_t& g, const unit* at, const segment& row) {
  if (row.messages != 1 || row.units <= max_small_units) return message_fault::bad_size;
  const unit head[2] = {load_unit(at), load_unit(at + 1)};
  const message_fault fault = check_message(head, row.units, g.heap_bytes, g.n_pes, g.n_cells);
  if (fault != message_fault::fine) return fault;
  if (op_of(head[0].word[0]) == op::get_bulk)  // each warp sends pieces of its own
    return answer_get_bulk(g, copy_team::whole_warp(), head, threadIdx.x / 32, resolver_threads / 32);
  finish_bulk(g, copy_team::block_of<resolver_threads>(), at);
  return message_fault::fine;
}

/// What a block reads of a packet before it knows what is there: few bytes, since a multiprocessor reads 5 GB/s over PCIe. In
/// shared memory there is room for the whole table.
constexpr uint32_t early_table_units = 8, early_payload_units = 32;
constexpr uint32_t resolver_table_bytes = packet_payload_offset + early_payload_units * sizeof(unit);

template <class Handlers>
__device__ __forceinline__ void resolve_packet(const gravel_t& g, const landing& ring, uint32_t channel, uint64_t sequence,
                                               char* table) {
  constexpr uint32_t payload_at = packet_payload_offset / sizeof(unit);
  const packet_header* remote = ring.packet(channel, sequence);
  const auto copy = [&](uint32_t i) { store_unit(reinterpret_cast<unit*>(table) + i, load_unit(reinterpret_cast<const unit*>(remote) + i)); };
  const packet_header* header = reinterpret_cast<const packet_header*>(table);
  if (threadIdx.x < early_payload_units) copy(payload_at + threadIdx.x);
  else if (threadIdx.x < early_payload_units + early_table_units) copy(threadIdx.x - early_payload_units);
  __syncthreads();
  if (header->n_segments > (early_table_units - sizeof(packet_header) / sizeof(unit)) * (sizeof(unit) / sizeof(segment))) {
    if (threadIdx.x >= early_table_units && threadIdx.x < payload_at) copy(threadIdx.x);
    __syncthreads();
  }
  const packet_fault damage = check_packet(header, ring.packet_size, ring.expectation(sequence));
  if (damage != packet_fault::fine) {
    if (threadIdx.x == 0) report_error(g, message_fault::corrupt_packet, op::none, g.my_pe, static_cast<uint64_t>(damage), 0);
    return;
  }
  const uint64_t from = uint64_t{header->source_node} + 1;
  const unit* at = payload_of(remote);
  for (uint32_t s = 0; s < header->n_segments; ++s) {
    const segment row = segments_of(header)[s];
    const unit first = s == 0 ? *payload_of(header) : load_unit(at);
    if (is_bulk(op_of(first.word[0]))) {
      if (const message_fault fault = resolve_bulk(g, at, row); fault != message_fault::fine) {
        if (threadIdx.x == 0) reject(g, first, fault, from);
        return;
      }
    } else if (row.units == 1 && s == 0 && row.messages <= early_payload_units) {
      if (threadIdx.x < row.messages) resolve_unit<Handlers>(g, load_unit(payload_of(header) + threadIdx.x), from);
    } else if (row.units == 1) {
      resolve_small<Handlers, resolver_threads, 4>(g, at, row.messages, from);
    } else if (row.units <= max_small_units) {
      resolve_large<Handlers, resolver_threads>(g, at, row.messages, row.units, from);
    } else if (row.units <= max_am_units) {
      resolve_staged<Handlers>(g, at, row.messages, row.units, from);
    } else if (threadIdx.x == 0) {
      reject(g, first, message_fault::bad_size, from);
    }
    at += uint32_t{row.messages} * row.units;
  }
}

/// Passes on a chunk that waits in this PE's own ring for room in a peer's. False: there is none yet. Thread scope: warp.
__device__ __noinline__ inline bool pass_on(const gravel_t& g, uint32_t pe, const unit* from, uint32_t messages, uint32_t units) {
  const uint32_t lane = threadIdx.x % 32;
  const peer_link& link = g.peers[pe];
  uint64_t ticket = 0;
  bool has_room = false;
  if (lane == 0) has_room = outbox_of_warp().claim(link, &ticket);
  if (!__shfl_sync(~0u, has_room, 0)) return false;
  unit* const to = peer_ring::payload(link.ring.chunk(__shfl_sync(~0u, ticket, 0)));
  for (uint32_t i = lane; i < messages * units; i += 32) store_unit(to + i, load_unit(from + i));
  __syncwarp();
  if (lane == 0) {
    link.ring.publish(ticket, messages, units, pe);
    ring_bell_now_and_then(link);
  }
  return true;
}

/// A chunk of a ring. Its messages are checked one by one like all others. Thread scope: warp. False: it is to be passed on, and
/// stays where it is.
template <class Handlers>
__device__ __forceinline__ bool resolve_chunk(const gravel_t& g, uint32_t room, bool from_self, chunk_header* chunk) {
  constexpr uint32_t batch = 8;
  constexpr uint64_t from = device_error::from_peer;
  const uint32_t lane = threadIdx.x % 32;
  const unit* const at = peer_ring::payload(chunk);
  // Read together with the header, before that says how many there are: one latency instead of two.
  unit held[batch];
#pragma unroll
  for (uint32_t b = 0; b < batch; ++b)
    if (b * 32 < room) held[b] = load_unit(at + b * 32 + lane);
  const uint32_t messages = chunk->messages, units = chunk->units, pe = chunk->pe;
  const bool passes = from_self && pe < g.n_pes && pe != g.my_pe && ring_to(g, sink_of(pe, sink_kind::device));
  if (units == 0 || units > max_am_units || messages > room / units || (pe != g.my_pe && !passes)) {
    if (lane == 0) report_error(g, message_fault::corrupt_packet, op::none, g.my_pe, static_cast<uint64_t>(packet_fault::bad_total), 0);
  } else if (passes) {
    return pass_on(g, pe, at, messages, units);
  } else if (units == 1) {
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b)
      if (b * 32 + lane < messages) resolve_unit<Handlers>(g, held[b], from);
    if (messages > batch * 32) resolve_small<Handlers, 32, batch>(g, at + batch * 32, messages - batch * 32, from);
  } else {
    resolve_large<Handlers, 32>(g, at, messages, units, from);
  }
  return true;
}

/// What a warp knows of the rings: lane i looks after ring i % width, and there waits for a ticket of its own. Whoever has applied
/// its ticket draws the next of all lanes of this PE. So what one warp does for long (a handler with much to send) keeps the few
/// tickets from being applied that it has drawn, and no others.
struct ring_watch {
  peer_ring ring{};
  uint64_t* drawn = nullptr;  ///< of `ring`
  ring_place at{ring_place::none, ring_place::none};
  uint32_t width = 1, depth = 1;

  __device__ __forceinline__ ring_watch(const peer_rings& peers, uint32_t warp) {
    const uint32_t lane = threadIdx.x % 32;
    while (width < peers.n) width *= 2;
    depth = 32 / width < 4 ? 32 / width : 4;
    const uint32_t source = lane % width;
    if (source >= peers.n || lane >= width * depth) return;
    ring = peers.of_source[source];
    if (!ring.slots) return;
    drawn = &peers.drawn[source];
    at = peers.places[warp * 32 + lane];
    if (at.ticket == ring_place::none) at.ticket = draw();
  }
  __device__ __forceinline__ uint64_t draw() const { return fetch_add<scope::device>(drawn, uint64_t{1}); }
  /// Lanes whose ticket has arrived.
  __device__ __forceinline__ uint32_t look() const { return __ballot_sync(~0u, ring.slots && ring.arrived(at.ticket)); }
  /// To be called while it is applied, so that nobody waits for the answer.
  __device__ __forceinline__ void draw_next() {
    if (at.next == ring_place::none) at.next = draw();
  }
  __device__ __forceinline__ void go_on() { at = {at.next, ring_place::none}; }
};

/// Serves the rings until block 0 says stop. Thread scope: each warp for itself.
template <class Handlers>
__device__ __forceinline__ void serve_rings(const gravel_t& g, const peer_rings& peers, resolver_state* state) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t me = (blockIdx.x - (gridDim.x - peers.blocks)) * (resolver_threads / 32) + threadIdx.x / 32;
  ring_watch watch(peers, me);
  const bool is_own = lane % watch.width == peers.own;  // this lane's ring is the own one
  uint32_t rounds = 0;
  relax wait;
  for (;;) {
    const uint32_t arrived = watch.look();
    if (arrived == 0) {
      if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(g, lane);
      if (load_acquire<scope::device>(&state->stop)) break;
      wait();
      continue;
    }
    wait.reset();
    __syncwarp();  // what one lane has acquired, all may read
    if (arrived >> lane & 1) watch.draw_next();
    if (lane == 0) fetch_add<scope::device>(&state->working, 1u);
    uint32_t applied = arrived;  // less what stays where it is
    for (uint32_t rest = arrived; rest; rest &= rest - 1) {
      const int chosen = __ffs(static_cast<int>(rest)) - 1;
      const auto chunk = reinterpret_cast<uint64_t>(watch.ring.slots ? watch.ring.chunk(watch.at.ticket) : nullptr);
      if (!resolve_chunk<Handlers>(g, __shfl_sync(~0u, watch.ring.chunk_units, chosen), __shfl_sync(~0u, is_own, chosen),
                                   reinterpret_cast<chunk_header*>(__shfl_sync(~0u, chunk, chosen))))
        applied &= ~(1u << chosen);
      __syncwarp();
    }
    // What handlers sent has its tickets before any of these chunks is marked as done. It leaves when nothing more has come, so
    // that chunks are full while there is much to do; and in any case soon.
    constexpr uint32_t hold_for_rounds = 8;
    if (rounds % hold_for_rounds == 0 && !outbox_of_warp().is_empty()) outbox_of_warp().flush(g, lane);
    // One fence for all of them: it waits for every atomic operation under way.
    if (applied >> lane & 1) {
      watch.ring.mark_done(watch.at.ticket);
      watch.go_on();
    }
    __syncwarp();
    const uint32_t own = __ballot_sync(~0u, is_own) & applied;
    if (lane == 0) {
      if (own) fetch_add_release<scope::device>(&g.peers[g.my_pe].line->applied, static_cast<uint64_t>(__popc(own)));
      fetch_add<scope::device>(&state->working, ~0u);
      if (rounds % 16 == 0) store_relaxed<scope::device>(&state->last_chunk, globaltimer_ns());
    }
    if (++rounds % 64 == 0 && load_acquire<scope::device>(&state->stop)) break;
    if (applied == 0) __nanosleep(1000);  // the peer for whose room all of this waits shall not have to compete with us
  }
  if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(g, lane);
  peers.places[me * 32 + lane] = watch.at;
  // What arrives after this look rings the bell after the host has started this kernel, and so starts another.
  if (watch.look() && lane == 0) store_relaxed<scope::device>(&state->left_over, 1u);
}

/// Acknowledges the host's hold, or, without one, ends the kernel when it is time. Thread scope: one lane of the kernel.
__device__ __forceinline__ void decide(resolver_state* state, resolver_mailbox* mailbox, const peer_rings& peers,
                                       const resolver_limits& limits, uint64_t born, uint64_t last_work, bool working) {
  if (const uint64_t hold = load_acquire(&mailbox->hold)) {
    if (load_acquire<scope::device>(&state->resident) == gridDim.x && load_relaxed(&mailbox->hold_seen) != hold)
      store_release(&mailbox->hold_seen, hold);  // [H1]
    return;
  }
  const uint64_t now = globaltimer_ns();
  const uint64_t last_chunk = peers.n ? load_relaxed<scope::device>(&state->last_chunk) : 0;
  const uint64_t last = last_chunk > last_work ? last_chunk : last_work;
  if (peers.n && !working) working = load_relaxed<scope::device>(&state->working) != 0;
  if (now - born > limits.quantum_ns || (!working && now > last + limits.idle_ns)) store_release<scope::device>(&state->stop, 1u);
}

/// Serves the landing ring, a packet at a time. Thread scope: block. Block 0 also decides when the kernel ends.
template <class Handlers>
__device__ __forceinline__ void serve_landing(const gravel_t& g, const landing& ring, const peer_rings& peers,
                                              resolver_state* state, resolver_mailbox* mailbox, resolver_limits limits) {
  __shared__ alignas(16) char table[resolver_table_bytes];
  __shared__ claimed_packet packet;
  __shared__ uint32_t stop;
  const uint64_t born = globaltimer_ns();
  uint64_t last_work = born;
  for (;;) {
    if (threadIdx.x < 32) {
      claimed_packet found = claim_packet(ring, state);
      if (found.channel < 0) found = look_for_packets(ring, state);
      if (threadIdx.x == 0) {
        packet = found;
        stop = load_acquire<scope::device>(&state->stop);
        if (found.channel >= 0) fetch_add<scope::device>(&state->taken, uint64_t{1});
      }
    }
    __syncthreads();
    const claimed_packet mine = packet;
    const bool some = mine.channel >= 0, leave = stop != 0;
    if (some) {
      resolve_packet<Handlers>(g, ring, static_cast<uint32_t>(mine.channel), mine.sequence, table);
      __syncwarp();
      if (peers.owed && !outbox_of_warp().is_empty()) outbox_of_warp().flush(g, threadIdx.x % 32);
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) {
        ring.mark_done(static_cast<uint32_t>(mine.channel), mine.sequence);
        fetch_add_release<scope::device>(&state->finished, uint64_t{1});
        last_work = globaltimer_ns();
      }
    }
    __syncthreads();
    if (leave) break;
    // Behind the packet, which need not wait until the host's word has been read.
    if (blockIdx.x == 0 && threadIdx.x == 0) decide(state, mailbox, peers, limits, born, last_work, some);
    if (!some) {
      if (peers.owed && !outbox_of_warp().is_empty()) outbox_of_warp().flush(g, threadIdx.x % 32);
      __nanosleep(100);
    }
  }
}

template <class Handlers>
__global__ void __launch_bounds__(resolver_threads, 1)
    resolver(gravel_t g, landing ring, peer_rings peers, resolver_state* state, resolver_mailbox* mailbox,
             resolver_limits limits) {
  if (threadIdx.x == 0) fetch_add<scope::device>(&state->resident, 1u);
  if (peers.owed) outbox_of_warp().begin(peers.owed + blockIdx.x * (resolver_threads / 32) + threadIdx.x / 32, threadIdx.x % 32);
  __syncwarp();
  if (blockIdx.x < gridDim.x - peers.blocks) serve_landing<Handlers>(g, ring, peers, state, mailbox, limits);
  else serve_rings<Handlers>(g, peers, state);
  __syncwarp();
  if (peers.owed && outbox_of_warp().end(threadIdx.x % 32)) store_relaxed<scope::device>(&state->left_over, 1u);
  __syncthreads();
  // The last block to leave says how far the kernel came; what arrived since makes the host start another.
  if (threadIdx.x == 0) {
    __threadfence();
    if (fetch_add_release<scope::device>(&state->leaving, 1u) != gridDim.x - 1) return;
    __threadfence();
    // Handlers in a warp that left late may have sent something to one that had left.
    const ring_line* const own = peers.own < peers.n ? g.peers[g.my_pe].line : nullptr;
    const bool sent = own && load_relaxed<scope::device>(&own->tickets) != load_relaxed<scope::device>(&own->applied);
    store_relaxed(&mailbox->left_over, uint64_t{sent || load_relaxed<scope::device>(&state->left_over)});
    store_release(&mailbox->taken, load_acquire<scope::device>(&state->finished));
  }
}

#endif  // GRAVEL_CUDA

}  // namespace gravel
