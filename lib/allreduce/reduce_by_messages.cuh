// Reduction by messages, for PEs that do not all reach each other's memory. Each block's part is cut into rounds, and
// each round into as many pieces as there are PEs. A put with signal sends a piece to the PE that reduces it, and
// another one sends the result to all PEs.
//
// A round is a call with a number of its own. Staging is not doubled: a PE in the next round has seen the result of
// this round from the PE to which it sends its next contribution.
#pragma once
#include "lib/allreduce/reduction_rendezvous.cuh"
#include "lib/base/element.hpp"

namespace gravel::detail {

/// Elements [first, first + count), which travel together.
struct piece {
  uint64_t first, count;
  GRAVEL_BOTH static piece of(uint64_t from, uint64_t end, uint64_t each, uint64_t number) {
    const uint64_t first = from + number * each;
    const uint64_t left = end - first < each ? end - first : each;
    return first >= end ? piece{end, 0} : piece{first, left};
  }
};

/// Bytes of a piece: it must fit one message, and staging.
GRAVEL_BOTH uint64_t piece_bytes(const gravel_reducer_handle& r) {
  const uint64_t message = uint64_t{most_bulk_units(r.g, r.g.block.state ? r.g.block : r.g.direct) - 2} * sizeof(unit),
                 staged = 2ull * r.memory.staged_units * sizeof(unit);
  return message < staged ? message : staged;
}

/// Reduces one round of the block. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE void reduce_pieces(const gravel_reducer_handle& r, const reduction_part& p, T* to, const T* from,
                                 uint64_t begin, uint64_t end, uint64_t each, int root) {
  const reducer_memory& m = r.memory;
  const auto staged = [&](uint32_t pe) { return reinterpret_cast<T*>(m.staging(p.slice, 0, pe)); };
  for (uint32_t i = 1; i < m.n_pes; ++i) {
    const uint32_t pe = (m.my_pe + i) % m.n_pes;
    const piece its = piece::of(begin, end, each, pe);
    gravel_put_signal(r.g, staged(m.my_pe), from + its.first, its.count * sizeof(T), m.header(p.slice, p.call, m.my_pe),
                      p.call << 32 | p.what, GRAVEL_SIGNAL_SET,
                      static_cast<int>(pe));  // [A1] release
  }
  if (threadIdx.x == 0) gravel_flush(r.g);
  for_others(m, [&](uint32_t pe) { await_header(r, p, pe); });
  __syncthreads();
  const piece mine = piece::of(begin, end, each, m.my_pe);
  const bool keeps = root == no_root || static_cast<uint32_t>(root) == m.my_pe;
  for (uint64_t i = threadIdx.x; i < mine.count; i += blockDim.x) {
    combination<HOW, T, T> all;
    const auto element_of = [&](uint32_t pe) { return pe == m.my_pe ? from[mine.first + i] : staged(pe)[i]; };
    all.begin(element_of(0));
    for (uint32_t q = 1; q < m.n_pes; ++q) all.add(element_of(q));
    staged(m.my_pe)[i] = all.result();
    if (keeps) to[mine.first + i] = all.result();
  }
  __syncthreads();
  for (uint32_t i = 1; i < m.n_pes; ++i) {
    const uint32_t pe = (m.my_pe + i) % m.n_pes;
    const bool gets_it = root == no_root || static_cast<uint32_t>(root) == pe;
    gravel_put_signal(r.g, to + mine.first, staged(m.my_pe), gets_it ? mine.count * sizeof(T) : 0,
                      m.done(p.slice, m.my_pe), 2 * p.call + 1, GRAVEL_SIGNAL_SET,
                      static_cast<int>(pe));  // [A2] release
  }
  if (threadIdx.x == 0) gravel_flush(r.g);
  for_others(m, [&](uint32_t pe) {
    for (watched_wait wait; load_acquire(m.done(p.slice, pe)) < 2 * p.call + 1;)  // [A2]
      wait.attentively(r.g, [&] { return wait_subject{.what = awaited::reduction, .pe = pe, .wanted = p.call}; });
  });
  __syncthreads();
}

/// Reduces elements [begin, end). Returns the number of the last call. It is not inlined:
/// its registers would be spilled by the short ways. Thread scope: block.
template <gravel_reduction HOW, class T>
GRAVEL_DEVICE_APART uint64_t reduce_by_messages(const gravel_reducer_handle& r, reduction_part p, T* to, const T* from,
                                                uint64_t begin, uint64_t end, int root) {
  const uint64_t each = piece_bytes(r) / sizeof(T), at_once = each * r.memory.n_pes;
  for (;; p.call = end_call(r, p.slice, p.call) + 1) {
    reduce_pieces<HOW>(r, p, to, from, begin, end - begin < at_once ? end : begin + at_once, each, root);
    if (end - begin <= at_once) return p.call;
    begin += at_once;
  }
}

}  // namespace gravel::detail
