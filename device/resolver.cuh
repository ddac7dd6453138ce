// The resolver kernel: applies the packets that arrive at a GPU, and runs device handlers, many at once.
//
// Its life is bounded. Block 0 decides: it ends the kernel when nothing has arrived for a while, or when its quantum is
// over, unless the host says `hold`: kernels of gravel_launch are running, which may wait for what only the resolver
// can do, and once it gave up its SMs it might never get them back. The host therefore starts such a kernel only after
// block 0 has acknowledged the hold ([H1]), which it does when all blocks of the resolver are resident.
#pragma once
#include "device/apply.cuh"
#include "device/bulk.cuh"

namespace gravel {

/// Pinned host words between the receiver thread and the resolver kernel; one writer each.
struct resolver_mailbox {
  alignas(64) uint64_t hold;        ///< host: number of the hold that is in force; 0: none
  alignas(64) uint64_t hold_seen;   ///< resolver: last hold acknowledged [H1]
  alignas(64) uint64_t taken;       ///< resolver: packets applied when the last kernel ended
};

/// In device memory; survives from one resolver kernel to the next.
struct resolver_state {
  uint64_t taken;      ///< packets claimed by blocks
  uint64_t finished;   ///< packets applied
  uint32_t resident;   ///< blocks of this kernel that have started; the host clears these three before each launch
  uint32_t leaving;    ///< blocks that have left
  uint32_t stop;       ///< block 0 has decided to end
  uint32_t spare;
  uint64_t next[];     ///< by channel: sequence to claim next
};

struct resolver_limits {
  uint64_t quantum_ns, idle_ns;
};

#if GRAVEL_CUDA

constexpr int resolver_threads = 256;

__device__ __forceinline__ uint64_t globaltimer_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Warp 0 looks for an arrived packet, 32 channels at a time, and claims one. Returns its channel, or -1.
__device__ __forceinline__ int claim_packet(const landing& ring, resolver_state* state, uint64_t* sequence) {
  const uint32_t lane = threadIdx.x & 31;
  for (uint32_t base = 0; base < ring.channels; base += 32) {
    // Blocks begin at different channels, so that they do not race for the same packet.
    const uint32_t channel = (base + lane + blockIdx.x) % ring.channels;
    const bool mine = base + lane < ring.channels;
    uint64_t next = 0;
    bool arrived = false;
    if (mine) {
      next = load_acquire<scope::device>(&state->next[channel]);
      arrived = ring.arrived(channel, next);
    }
    for (uint32_t some = __ballot_sync(~0u, arrived); some; some &= some - 1) {
      const int chosen = __ffs(static_cast<int>(some)) - 1;
      bool claimed = false;
      if (static_cast<int>(lane) == chosen) claimed = compare_swap_acquire<scope::device>(&state->next[channel], next, next + 1);
      if (__shfl_sync(~0u, claimed, chosen)) {
        *sequence = __shfl_sync(~0u, next, chosen);
        return __shfl_sync(~0u, static_cast<int>(channel), chosen);
      }
    }
  }
  return -1;
}

/// Not inlined: one copy serves all sizes, and the compiler is done in seconds.
template <class Handlers>
__device__ __noinline__ void resolve_one(const gravel_t& g, const unit* message, uint32_t units) {
  const message_fault fault = apply_message<Handlers>(g, sink_kind::device, message, units);
  if (fault != message_fault::fine)
    report_error(g, fault, op_of(message->word[0]), g.my_pe, offset_of(message->word[0]), 0);
}

/// The commonest message, an addition to a 64-bit word, without a call. False: it is another one, or a faulty one.
__device__ __forceinline__ bool resolve_add(const gravel_t& g, const unit& m) {
  constexpr uint64_t wanted = make_word0(op::add, static_cast<uint8_t>(value_type::u64), 0);
  const uint64_t offset = offset_of(m.word[0]);
  if ((m.word[0] & 0xffff) != wanted || offset > g.heap_bytes - 8 || offset % 8) return false;
  atomicAdd(reinterpret_cast<unsigned long long*>(g.heap + offset), static_cast<unsigned long long>(m.word[1]));
  return true;
}

/// Applies a segment of one-unit messages; several loads over PCIe are under way before the first is used.
template <class Handlers>
__device__ __forceinline__ void resolve_small(const gravel_t& g, const unit* at, uint32_t messages) {
  constexpr uint32_t batch = 4;
  for (uint32_t first = threadIdx.x; first < messages; first += batch * resolver_threads) {
    unit held[batch];
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b)
      if (first + b * resolver_threads < messages) held[b] = load_unit(at + first + b * resolver_threads);
#pragma unroll
    for (uint32_t b = 0; b < batch; ++b)
      if (first + b * resolver_threads < messages && !resolve_add(g, held[b])) resolve_one<Handlers>(g, &held[b], 1);
  }
}

template <class Handlers>
__device__ __forceinline__ void resolve_large(const gravel_t& g, const unit* at, uint32_t messages, uint32_t units) {
  for (uint32_t i = threadIdx.x; i < messages; i += resolver_threads) {
    unit held[max_message_units];
    for (uint32_t u = 0; u < units; ++u) held[u] = load_unit(at + i * units + u);
    resolve_one<Handlers>(g, held, units);
  }
}

template <class Handlers>
__device__ __forceinline__ void resolve_packet(const gravel_t& g, const landing& ring, uint32_t channel, uint64_t sequence,
                                               char* table) {
  const packet_header* remote = ring.packet(channel, sequence);
  for (uint32_t i = threadIdx.x; i < packet_payload_offset / sizeof(unit); i += resolver_threads)
    store_unit(reinterpret_cast<unit*>(table) + i, load_unit(reinterpret_cast<const unit*>(remote) + i));
  __syncthreads();
  const packet_header* header = reinterpret_cast<const packet_header*>(table);
  if (check_packet(header, ring.packet_size, ring.expectation(sequence)) != packet_fault::fine) {
    if (threadIdx.x == 0) report_error(g, message_fault::corrupt_packet, op::none, g.my_pe, 0, 0);
    return;
  }
  const unit* at = payload_of(remote);
  for (uint32_t s = 0; s < header->n_segments; ++s) {
    const segment row = segments_of(header)[s];
    const unit first = load_unit(at);
    if (op_of(first.word[0]) == op::put_bulk) {
      const message_fault fault = check_message(&first, row.units, g.heap_bytes, g.n_pes, g.n_cells);
      if (fault != message_fault::fine) {
        if (threadIdx.x == 0) report_error(g, fault, op::put_bulk, g.my_pe, offset_of(first.word[0]), 0);
        return;
      }
      copy_bytes({threadIdx.x, resolver_threads, true}, g.heap + offset_of(first.word[0]),
                 reinterpret_cast<const char*>(at + 1), first.word[1]);
    } else if (row.units == 1) {
      resolve_small<Handlers>(g, at, row.messages);
    } else if (row.units <= max_message_units) {
      resolve_large<Handlers>(g, at, row.messages, row.units);
    } else if (threadIdx.x == 0) {
      report_error(g, message_fault::bad_size, op_of(first.word[0]), g.my_pe, 0, 0);
    }
    at += uint32_t{row.messages} * row.units;
  }
}

template <class Handlers>
__global__ void __launch_bounds__(resolver_threads)
    resolver(gravel_t g, landing ring, resolver_state* state, resolver_mailbox* mailbox, resolver_limits limits) {
  __shared__ alignas(16) char table[packet_payload_offset];
  __shared__ int channel;
  __shared__ uint64_t sequence;
  __shared__ uint32_t stop;
  const uint64_t born = globaltimer_ns();
  uint64_t last_work = born;
  if (threadIdx.x == 0) fetch_add<scope::device>(&state->resident, 1u);
  relax wait;
  for (;;) {
    if (threadIdx.x < 32) {
      uint64_t claimed = 0;
      int found = -1;
      // `arrivals` is one word for all channels: an idle resolver reads nothing else over PCIe.
      const bool some = load_acquire<scope::device>(&state->taken) != load_acquire(ring.arrivals);
      if (__any_sync(~0u, some)) found = claim_packet(ring, state, &claimed);
      if (threadIdx.x == 0) {
        channel = found;
        sequence = claimed;
        stop = load_acquire<scope::device>(&state->stop);
        if (found >= 0) fetch_add<scope::device>(&state->taken, uint64_t{1});
        if (blockIdx.x == 0) {
          const uint64_t hold = load_acquire(&mailbox->hold);
          if (hold) {
            if (load_acquire<scope::device>(&state->resident) == gridDim.x && load_relaxed(&mailbox->hold_seen) != hold)
              store_release(&mailbox->hold_seen, hold);  // [H1]
          } else {
            const uint64_t now = globaltimer_ns();
            if (now - born > limits.quantum_ns || (found < 0 && now - last_work > limits.idle_ns)) {
              store_release<scope::device>(&state->stop, 1u);
              stop = 1;
            }
          }
        }
      }
    }
    __syncthreads();
    const int mine = channel;
    const bool leave = stop != 0;
    if (mine >= 0) {
      resolve_packet<Handlers>(g, ring, static_cast<uint32_t>(mine), sequence, table);
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) {
        ring.mark_done(static_cast<uint32_t>(mine), sequence);
        fetch_add_release<scope::device>(&state->finished, uint64_t{1});
        last_work = globaltimer_ns();
      }
      wait.reset();
    }
    __syncthreads();
    if (leave) break;
    if (mine < 0) wait();
  }
  // The last block to leave says how far the kernel came; what arrived since makes the host start another.
  if (threadIdx.x == 0) {
    __threadfence();
    if (fetch_add_release<scope::device>(&state->leaving, 1u) == gridDim.x - 1)
      store_release(&mailbox->taken, load_acquire<scope::device>(&state->finished));
  }
}

#endif  // GRAVEL_CUDA

}  // namespace gravel
