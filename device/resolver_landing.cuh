// How blocks of the resolver find packets in the landing ring, which lies in host memory, claim them, and apply them.
//
// Problem. A read of host memory takes more than a microsecond, and reads of one word do not overlap.
// Solution. One block polls at a time, and records for all blocks which packets have arrived (stream_state::arrived).
// Any block then claims one of them.
#pragma once
#include "device/resolver_apply.cuh"
#include "lib/base/landing.hpp"

namespace gravel::detail {

#if GRAVEL_CUDA

/// Claims packet `sequence` of a stream; false: another block has. Thread scope: lane.
__device__ __forceinline__ bool claim(stream_state& stream, uint64_t sequence) {
  return compare_swap_acquire<scope::device>(&stream.next, sequence, sequence + 1);
}

/// A packet that a block has claimed.
struct claimed_packet {
  int stream = -1;  ///< -1: none
  uint64_t sequence = 0;
};

/// Polls host memory for packets, at most one of each stream. Claims one of them, and records the others for all
/// blocks. If there are many streams it reads the count of arrivals first, so an idle resolver reads one word. Thread
/// scope: warp.
__device__ __forceinline__ claimed_packet poll_once(const landing& ring, resolver_state* state) {
  constexpr uint32_t few_streams = 32;
  const uint32_t lane = threadIdx.x & 31;
  claimed_packet mine;
  bool some = true;
  if (ring.streams > few_streams) {
    if (lane == 0) some = load_acquire(ring.arrivals) != load_relaxed<scope::device>(&state->taken);  // [L1]
    some = __shfl_sync(~0u, some, 0);
  }
  for (uint32_t base = 0; some && base < ring.streams; base += 32) {
    const uint32_t stream = base + lane;
    uint64_t sequence = 0;
    bool arrived = false, claimed = false;
    if (stream < ring.streams) {
      sequence = load_relaxed<scope::device>(&state->stream[stream].arrived);
      arrived = ring.arrived(stream, sequence);
    }
    for (uint32_t rest = __ballot_sync(~0u, arrived); rest && mine.stream < 0; rest &= rest - 1) {
      const int chosen = __ffs(static_cast<int>(rest)) - 1;
      if (static_cast<int>(lane) == chosen) claimed = claim(state->stream[stream], sequence);
      if (__shfl_sync(~0u, claimed, chosen))
        mine = {static_cast<int>(base) + chosen, __shfl_sync(~0u, sequence, chosen)};
    }
    // If this took longer than a turn, another block may have polled meanwhile and have seen more. A packet that is
    // claimed needs no release: no other block reads it.
    if (claimed) raise_relaxed(&state->stream[stream].arrived, sequence + 1);
    else if (arrived) raise_to(&state->stream[stream].arrived, sequence + 1);
  }
  return mine;
}

/// Polls for a while, if it is this block's turn. Only one block polls at a time: reads of one word in host memory do
/// not overlap, so eight blocks that poll at once would wait three times as long. Thread scope: warp.
__device__ __forceinline__ claimed_packet poll_packets(const landing& ring, resolver_state* state) {
  constexpr uint64_t longest_ns = 20'000, while_ns = 10'000;
  const uint32_t lane = threadIdx.x & 31;
  claimed_packet found;
  if (!__shfl_sync(~0u, lane == 0 && take_turn(&state->next_turn, longest_ns), 0)) return found;
  const uint64_t begin = globaltimer_ns();
  do found = poll_once(ring, state);
  while (__shfl_sync(~0u, found.stream < 0 && globaltimer_ns() - begin < while_ns, 0));
  if (lane == 0) pass_turn(&state->next_turn, 0);
  return found;
}

/// Claims a packet that is known to have arrived. Thread scope: warp.
__device__ __forceinline__ claimed_packet claim_packet(const landing& ring, resolver_state* state) {
  const uint32_t lane = threadIdx.x & 31;
  for (uint32_t base = 0; base < ring.streams; base += 32) {
    // Blocks begin at different streams, so that they do not race for the same packet.
    const uint32_t stream = (base + lane + blockIdx.x) % ring.streams;
    const bool mine = base + lane < ring.streams;
    uint64_t next = 0;
    bool arrived = false;
    if (mine) {
      next = load_relaxed<scope::device>(&state->stream[stream].next);
      arrived = next < load_acquire<scope::device>(&state->stream[stream].arrived);
    }
    for (uint32_t some = __ballot_sync(~0u, arrived); some; some &= some - 1) {
      const int chosen = __ffs(static_cast<int>(some)) - 1;
      bool claimed = false;
      if (static_cast<int>(lane) == chosen) claimed = claim(state->stream[stream], next);
      if (__shfl_sync(~0u, claimed, chosen))
        return {__shfl_sync(~0u, static_cast<int>(stream), chosen), __shfl_sync(~0u, next, chosen)};
    }
  }
  return {};
}

/// Units that a block reads of a packet before it knows the packet's size. They are few, since reads over PCIe delay
/// each other.
constexpr uint32_t early_table_units = 8, early_payload_units = 32;

/// Reads the units from `first` to `end` of a packet's payload. Many loads are under way at once, since each takes
/// microseconds. Thread scope: block.
__device__ __forceinline__ void read_payload(unit* to, const unit* payload, uint32_t first, uint32_t end) {
  constexpr uint32_t batch = 8;
  GRAVEL_NO_UNROLL
  for (uint32_t base = first + threadIdx.x; base < end; base += batch * resolver_threads) {
    unit held[batch];
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < batch; ++b)
      if (base + b * resolver_threads < end) held[b] = load_unit(payload + base + b * resolver_threads);
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < batch; ++b)
      if (base + b * resolver_threads < end) store_unit(to + base + b * resolver_threads, held[b]);
  }
}

template <class Handlers>
__device__ __forceinline__ void resolve_packet(const gravel_t& g, const landing& ring, uint32_t stream,
                                               uint64_t sequence, char* table, uint32_t stage_units) {
  constexpr uint32_t payload_at = packet_payload_offset / sizeof(unit);
  const packet_header* remote = ring.packet(stream, sequence);
  const auto copy = [&](uint32_t i) {
    store_unit(reinterpret_cast<unit*>(table) + i, load_unit(reinterpret_cast<const unit*>(remote) + i));
  };
  const packet_header* header = reinterpret_cast<const packet_header*>(table);
  unit* const stage = stage_of_block();
  if (threadIdx.x < early_payload_units) store_unit(stage + threadIdx.x, load_unit(payload_of(remote) + threadIdx.x));
  else if (threadIdx.x < early_payload_units + early_table_units) copy(threadIdx.x - early_payload_units);
  __syncthreads();
  if (header->n_rows >
      (early_table_units - sizeof(packet_header) / sizeof(unit)) * (sizeof(unit) / sizeof(message_row))) {
    if (threadIdx.x >= early_table_units && threadIdx.x < payload_at) copy(threadIdx.x);
    __syncthreads();
  }
  const packet_fault damage = check_packet(header, ring.packet_size, ring.expectation(sequence));
  if (damage != packet_fault::fine) {
    if (threadIdx.x == 0)
      report_error(g, message_fault::corrupt_packet, op::none, g.my_pe, static_cast<uint64_t>(damage), 0);
    return;
  }
  const uint64_t from = uint64_t{header->source_node} + 1;
  // Messages are applied from shared memory, unless the packet does not fit there (GRAVEL_PACKET_SIZE).
  const bool is_staged = header->n_units <= stage_units;
  if (is_staged && header->n_units > early_payload_units) {
    read_payload(stage, payload_of(remote), early_payload_units, header->n_units);
    __syncthreads();
  }
  const unit* at = is_staged ? stage : payload_of(remote);
  for (uint32_t s = 0; s < header->n_rows; ++s) {
    const message_row row = rows_of(header)[s];
    const uint32_t units = row.kind.units();
    const unit first = load_unit(at);
    if (!row.kind.is_wide()) {
      resolve_compact<Handlers, resolver_threads>(g, row, at, from);
    } else if (units > max_small_units && is_bulk(op_of(first.word[0]))) {
      resolve_bulk(g, at, row, s, from);
    } else if (units == 1) {
      resolve_small<Handlers, resolver_threads, 4>(g, at, row.messages, from);
    } else if (units <= max_am_units) {
      resolve_large<Handlers, resolver_threads>(g, at, row.messages, units, from);
    } else if (threadIdx.x == 0) {
      reject(g, first, message_fault::bad_size, from);
    }
    at += row.units();
  }
}

/// Serves the landing ring, one packet at a time. Block 0 also decides when the kernel ends. Thread scope: block.
template <class Handlers>
__device__ __forceinline__ void serve_landing(const gravel_t& g, const landing& ring, const peer_rings& peers,
                                              resolver_state* state, resolver_control* control,
                                              resolver_limits limits) {
  __shared__ alignas(16) char table[packet_payload_offset];
  __shared__ claimed_packet packet;
  __shared__ uint32_t stop;
  const uint64_t born = globaltimer_ns();
  uint64_t last_work = born;
  for (;;) {
    if (threadIdx.x < 32) {
      claimed_packet found = claim_packet(ring, state);
      if (found.stream < 0) found = poll_packets(ring, state);
      if (threadIdx.x == 0) {
        packet = found;
        stop = load_acquire<scope::device>(&state->stop);
        if (found.stream >= 0) fetch_add<scope::device>(&state->taken, uint64_t{1});
      }
    }
    __syncthreads();
    const claimed_packet mine = packet;
    const bool some = mine.stream >= 0, leave = stop != 0;
    if (some) {
      resolve_packet<Handlers>(g, ring, static_cast<uint32_t>(mine.stream), mine.sequence, table, limits.stage_units);
      __syncwarp();
      if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(threadIdx.x % 32);
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) {
        ring.mark_done(static_cast<uint32_t>(mine.stream), mine.sequence);
        fetch_add_release<scope::device>(&state->finished, uint64_t{1});
        last_work = globaltimer_ns();
      }
    }
    __syncthreads();
    if (leave) break;
    // After the packet, so that the packet does not wait until the host's word has been read.
    if (blockIdx.x == 0 && threadIdx.x == 0) decide(state, control, peers, limits, born, last_work, some);
    if (!some) {
      if (!outbox_of_warp().is_empty()) outbox_of_warp().flush(threadIdx.x % 32);
      __nanosleep(100);
    }
  }
}

#endif  // GRAVEL_CUDA

}  // namespace gravel::detail
