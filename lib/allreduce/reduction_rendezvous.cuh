// Calls of a reduction, and the rendezvous of the blocks of one slice. Thread scope of all functions here: block.
#pragma once
#include "device/watched_wait.cuh"
#include "lib/allreduce/reducer_memory.cuh"
#include "lib/base/mix.hpp"

namespace gravel::detail {

constexpr int no_root = -1;

/// The part of this block in one call.
struct reduction_part {
  uint32_t slice;
  uint32_t what;   ///< reduction_call::word
  uint64_t call;   ///< number of the call
  uint64_t count;  ///< elements of the whole arrays, for error messages
};

/// Waits until PE `of` is in this call, and checks that it makes the same call. ACQUIRE: the caller goes on to read
/// what that PE wrote before its header. Thread scope: lane.
template <bool ACQUIRE = true>
GRAVEL_DEVICE void await_header(const gravel_reducer_handle& r, const reduction_part& p, uint32_t of) {
  const uint64_t* const word = r.memory.header(p.slice, p.call, of);
  uint64_t seen;
  for (watched_wait wait; (seen = load_relaxed(word)) >> 32 != (p.call & 0xffffffff);)
    wait.closely(r.g, [&] { return wait_subject{.what = awaited::reduction, .pe = of, .wanted = p.call}; });
  if constexpr (ACQUIRE) seen = load_acquire(word);  // [A1]
  if (static_cast<uint32_t>(seen) != p.what)
    report_error(r.g, message_fault::other_reduction, op::none, of, (seen & 0xffffffff) << 32 | p.what, p.count);
}

/// Returns whether for_others() gives the calling lane a PE.
GRAVEL_DEVICE bool visits_others(const reducer_memory& m) { return blockDim.x - 1 - threadIdx.x < m.n_pes; }
/// Calls visit(pe) for every other PE, each by a lane of its own if there are enough lanes: the block's last lanes,
/// since the first ones have more to do.
template <class F>
GRAVEL_DEVICE void for_others(const reducer_memory& m, const F& visit) {
  for (uint32_t i = blockDim.x - 1 - threadIdx.x; i < m.n_pes; i += blockDim.x)
    if (i != m.my_pe) visit(i);
}

/// Writes this PE's word at PE `pe`. `word` is its symmetric address. By messages it arrives after what was sent
/// before.
GRAVEL_DEVICE void notify_pe(const gravel_reducer_handle& r, uint64_t* word, uint64_t value, uint32_t pe) {
  if (r.memory.directly) return store_release(r.memory.at(r.g, word, pe), value);
  gravel_put(r.g, word, value, static_cast<int>(pe));
  gravel_flush(r.g);
}

/// Waits until all PEs are in this call. The block's threads see what the other PEs' blocks wrote before it, and they
/// see what this block's threads wrote.
GRAVEL_DEVICE void sync_at_begin(const gravel_reducer_handle& r, const reduction_part& p) {
  const reducer_memory& m = r.memory;
  __syncthreads();
  for_others(m, [&](uint32_t pe) {
    notify_pe(r, m.header(p.slice, p.call, m.my_pe), p.call << 32 | p.what, pe);
  });  // [A1] release
  for_others(m, [&](uint32_t pe) { await_header(r, p, pe); });
  __syncthreads();
}

/// Waits until all PEs have reached `number`: twice the number of a call, plus 1 at its end.
GRAVEL_DEVICE void sync_at(const gravel_reducer_handle& r, uint32_t slice, uint64_t number) {
  const reducer_memory& m = r.memory;
  __syncthreads();
  for_others(m, [&](uint32_t pe) { notify_pe(r, m.done(slice, m.my_pe), number, pe); });  // [A2] release
  for_others(m, [&](uint32_t pe) {
    for (watched_wait wait; load_relaxed(m.done(slice, pe)) < number;)
      wait.closely(r.g, [&] { return wait_subject{.what = awaited::reduction, .pe = pe, .wanted = number / 2}; });
    thread_fence();  // [A2] acquire
  });
  __syncthreads();
}

/// Returns the number after which the block's next call counts on, when call `call` has ended: mostly `call`. Flags are
/// the low halves of the numbers of calls. Once in 2^32 calls, a flag could be mistaken for that of old words: then
/// each PE clears what others wrote here, and all wait for each other. 0 is the flag of cleared words, and of no call.
GRAVEL_DEVICE uint64_t end_call(const gravel_reducer_handle& r, uint32_t slice, uint64_t call) {
  const reducer_memory& m = r.memory;
  if (static_cast<uint32_t>(call + 1) != 0) return call;
  __syncthreads();  // all threads have read their words
  for (uint64_t i = threadIdx.x; i < 2ull * m.n_pes; i += blockDim.x)
    store_relaxed(m.header(slice, 0, 0) + i, uint64_t{0});
  for (uint64_t i = threadIdx.x; i < uint64_t{m.n_pes} * 2 * m.staged_units; i += blockDim.x)
    flagged_words::store(m.staging(slice, 0, 0) + i, {{0, 0}});
  sync_at(r, slice, 2 * (call + 1) + 1);
  return call + 1;
}

}  // namespace gravel::detail
