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

/// An update at word `index` of the heap.
GRAVEL_DEVICE void update_word(const gravel_t& g, const row_kind& kind, uint32_t index, uint64_t value, uint64_t from) {
  const auto type = static_cast<value_type>(kind.type);
  const uint32_t bytes = bytes_of(type);
  const uint64_t offset = uint64_t{index} * bytes;
  const op o = kind.operation == op::inc ? op::add : kind.operation;
  if (lies_in_heap(offset, bytes, g.heap_bytes)) apply_update(o, type, g.heap + offset, value);
  else report_error(g, message_fault::outside_heap, o, g.my_pe, offset, bytes, from);
}

/// Increments of 64-bit words, the commonest messages: four of them, of which the first is number `first` of `n`.
GRAVEL_DEVICE void increment_words(const gravel_t& g, const unit& four, uint32_t first, uint32_t n, uint64_t from) {
  const uint64_t words = g.heap_bytes / 8;
  GRAVEL_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const auto index = static_cast<uint32_t>(four.word[i / 2] >> i % 2 * 32);
    if (first + i >= n) break;
    if (index < words) add_scattered(reinterpret_cast<uint64_t*>(g.heap) + index, uint64_t{1});
    else report_error(g, message_fault::outside_heap, op::add, g.my_pe, uint64_t{index} * 8, 8, from);
  }
}

/// A compact row of puts or updates. Several messages are under way before the first is used. Not inlined: one copy for all kinds.
/// Thread scope: TEAM threads, a block or a warp, each by itself.
template <uint32_t TEAM>
__device__ GRAVEL_NOINLINE void resolve_updates(const gravel_t& g, const message_row& row, const unit* at, uint64_t from) {
  constexpr uint32_t batch = 4;
  const uint32_t rank = threadIdx.x % TEAM;
  const uint32_t* const words = words_at(at);
  if (row.kind.operation == op::inc) {
    const uint64_t one = one_of(static_cast<value_type>(row.kind.type));
    for (uint32_t first = rank * 4; first < row.messages; first += TEAM * 4) {
      uint32_t index[4];
      load_message(words + first, index);
      for (uint32_t i = 0; i < 4; ++i)
        if (first + i < row.messages) update_word(g, row.kind, index[i], one, from);
    }
    return;
  }
  const uint32_t stride = row.kind.words;
  for (uint32_t first = rank; first < row.messages; first += batch * TEAM) {
    uint32_t index[batch] = {};
    uint64_t value[batch] = {};
    GRAVEL_UNROLL
    for (uint32_t b = 0; b < batch; ++b) {
      const uint32_t* const m = words + (first + b * TEAM) * stride;
      if (first + b * TEAM >= row.messages) continue;
      index[b] = m[0];
      value[b] = stride == 2 ? m[1] : m[1] | uint64_t{m[2]} << 32;
    }
    for (uint32_t b = 0; b < batch; ++b)
      if (first + b * TEAM < row.messages) update_word(g, row.kind, index[b], value[b], from);
  }
}

/// A compact row. Thread scope: TEAM threads, each by itself.
template <class Handlers, uint32_t TEAM>
__device__ __forceinline__ void resolve_compact(const gravel_t& g, const message_row& row, const unit* at, uint64_t from) {
  if (row.kind.operation != op::am) return resolve_updates<TEAM>(g, row, at, from);
#if GRAVEL_CUDA
  const bool known = Handlers::dispatch_row(g, row.kind, words_at(at), threadIdx.x % TEAM, TEAM, row.messages);
#else
  const bool known = dispatch_row_on_host<Handlers>(g, row.kind, words_at(at), threadIdx.x % TEAM, TEAM, row.messages);
#endif
  if (!known && threadIdx.x % TEAM == 0) report_error(g, message_fault::bad_handler, op::am, g.my_pe, row.kind.handler, 0, from);
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
  if (row.messages != 1) return message_fault::bad_size;
  const unit head[2] = {load_unit(at), load_unit(at + 1)};
  const message_fault fault = check_message(head, row.kind.units(), g.heap_bytes, g.n_pes, g.n_cells);
  if (fault != message_fault::fine) return fault;
  if (op_of(head[0].word[0]) == op::get_bulk)  // each warp sends pieces of its own
    return answer_get_bulk(g, copy_team::whole_warp(), head, threadIdx.x / 32, resolver_threads / 32);
  finish_bulk(g, copy_team::block_of<resolver_threads>(), at);
  return message_fault::fine;
}
#endif

}  // namespace gravel
