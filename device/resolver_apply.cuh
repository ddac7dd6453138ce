// How lanes of the resolver apply rows: several messages at once, each checked by itself.
#pragma once
#include "device/apply.cuh"
#include "device/bulk.cuh"
#include "device/resolver_state.cuh"

namespace gravel {

/// `from`: device_error::arrived.
__device__ __forceinline__ void reject(const gravel_t& g, const unit& message, message_fault fault, uint64_t from) {
  const uint64_t w0 = message.word[0];
  report_error(g, fault, op_of(w0), g.my_pe, op_of(w0) == op::am ? handler_of(w0) : offset_of(w0), 0, from);
}

/// Not inlined: one copy serves all sizes, and the compiler is done in seconds.
template <class Handlers>
__device__ GRAVEL_NOINLINE void resolve_one(const gravel_t& g, const unit* message, uint32_t units, uint64_t from) {
#if GRAVEL_CUDA
  const message_fault fault = apply_message<Handlers>(g, sink_kind::device, message, units);
#else
  const message_fault fault = apply_on_host<Handlers>(g, sink_kind::device, message, units);
#endif
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

/// Applies a row of one-unit messages; several loads are under way before the first is used. TEAM: threads that
/// work on it together, a block or a warp.
template <class Handlers, uint32_t TEAM, uint32_t BATCH>
__device__ __forceinline__ void resolve_small(const gravel_t& g, const unit* at, uint32_t messages, uint64_t from) {
  for (uint32_t first = threadIdx.x % TEAM; first < messages; first += BATCH * TEAM) {
    unit held[BATCH];
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < BATCH; ++b)
      if (first + b * TEAM < messages) held[b] = load_unit(at + first + b * TEAM);
    GRAVEL_UNROLL
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

#if GRAVEL_CUDA
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
__device__ __noinline__ inline message_fault resolve_bulk(const gravel_t& g, const unit* at, const message_row& row) {
  if (row.messages != 1 || row.units <= max_small_units) return message_fault::bad_size;
  const unit head[2] = {load_unit(at), load_unit(at + 1)};
  const message_fault fault = check_message(head, row.units, g.heap_bytes, g.n_pes, g.n_cells);
  if (fault != message_fault::fine) return fault;
  if (op_of(head[0].word[0]) == op::get_bulk)  // each warp sends pieces of its own
    return answer_get_bulk(g, copy_team::whole_warp(), head, threadIdx.x / 32, resolver_threads / 32);
  finish_bulk(g, copy_team::block_of<resolver_threads>(), at);
  return message_fault::fine;
}
#endif

}  // namespace gravel
