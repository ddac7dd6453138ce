// gravel_put_bulk: any number of bytes, by a whole block. Cut into messages that fit a block slot and a packet.
#pragma once
#include <memory>

#include "device/put.cuh"

/// Copies `bytes` bytes from `source` (any memory this device can read) to the symmetric address `dest` at `pe`.
/// Thread scope: block; all threads of the block call it with the same arguments. Non-blocking: complete after
/// gravel_quiet. `source` may be reused on return. A host thread calls it alone, with memory of the host or of its GPU.
GRAVEL_BOTH void gravel_put_bulk(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe);

namespace gravel {

/// Lanes that copy together: a block's, or one host thread.
struct copy_team {
  uint32_t rank, size;
  bool in_block;
  GRAVEL_BOTH static copy_team of(const gravel_t& g) {
#if GRAVEL_ON_GPU
    return {threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), blockDim.x * blockDim.y * blockDim.z, true};
#elif GRAVEL_CUDA
    (void)g;
    return {0, 1, false};
#else
    if (g.from != sender::kernel) return {0, 1, false};
    return {threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), blockDim.x * blockDim.y * blockDim.z, true};
#endif
  }
  GRAVEL_BOTH void sync() const {
#if GRAVEL_ON_GPU
    __syncthreads();
#elif !GRAVEL_CUDA
    if (in_block) __syncthreads();
#endif
  }
};

/// Team copy; 16 bytes at a time where both sides are aligned.
GRAVEL_BOTH void copy_bytes(const copy_team& team, char* to, const char* from, uint64_t bytes) {
  const bool aligned = ((reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) & 15) == 0;
  const uint64_t units = aligned ? bytes / 16 : 0;
  if (aligned)
    for (uint64_t i = team.rank; i < units; i += team.size)
      store_unit(reinterpret_cast<unit*>(to) + i, load_unit(reinterpret_cast<const unit*>(from) + i));
  for (uint64_t i = units * 16 + team.rank; i < bytes; i += team.size) to[i] = from[i];
}

}  // namespace gravel

GRAVEL_BOTH void gravel_put_bulk(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe) {
  using namespace gravel;
  check_handle(g, op::put_bulk);
  const copy_team team = copy_team::of(g);
  const uint64_t offset = static_cast<uint64_t>(static_cast<char*>(dest) - g.heap);
  const bool bad_pe = static_cast<uint32_t>(pe) >= g.n_pes;
  if (bytes == 0) return;
  if (bad_pe || offset >= g.heap_bytes || bytes > g.heap_bytes - offset) {
    if (team.rank == 0)
      report_error(g, bad_pe ? message_fault::bad_pe : message_fault::outside_heap, op::put_bulk,
                   static_cast<uint32_t>(pe), offset, bytes);
    return;
  }
  const char* from = static_cast<const char*>(source);
  char* const heap = is_self(g, pe) ? g.heap : peer_heap(g, pe);
  if (heap) {
    copy_bytes(team, heap + offset, from, bytes);
    team.sync();  // before that, `source` may not be reused
    return;
  }
  const queue& q = g.block.state ? g.block : g.direct;
  const uint64_t chunk = uint64_t{(q.shape.payload_units < g.bulk_units ? q.shape.payload_units : g.bulk_units) - 1} * 16;
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  __shared__ uint64_t shared_ticket;
#else
  // A host thread sends a GPU's memory from a copy, made before the slot is claimed: from there on nothing may fail.
  const std::unique_ptr<char[]> held(is_device_memory(source) ? new char[bytes < chunk ? bytes : chunk] : nullptr);
#endif
  for (uint64_t done = 0; done < bytes; done += chunk) {
    const uint64_t now = bytes - done < chunk ? bytes - done : chunk;
    const char* piece = from + done;
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
    if (held) {
      copy_from_device(held.get(), piece, now);
      piece = held.get();
    }
#endif
    uint64_t ticket = 0;
    if (team.rank == 0) ticket = q.claim();
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (team.in_block) {
      if (team.rank == 0) shared_ticket = ticket;
      team.sync();
      ticket = shared_ticket;
    }
#endif
    slot_header* slot = q.slot(ticket);
    unit* to = q.payload(slot);
    if (team.rank == 0) {
      store_unit(to, {{make_word0(op::put_bulk, 0, offset + done), now}});
      q.runs(slot)[0] = {sink_of(static_cast<uint32_t>(pe), sink_kind::device), 1, static_cast<uint16_t>(bulk_units(now))};
    }
    copy_bytes(team, reinterpret_cast<char*>(to + 1), piece, now);
    team.sync();
    if (team.rank == 0) q.publish(ticket, slot, 1, bulk_units(now));
  }
}
