// Collectives of kernels: barriers, broadcast and reductions.
//
// All threads of one block of each PE call, all PEs make the same calls in the same order, and only one block of a PE
// calls at a time. gravel_barrier is for all threads of a whole grid instead. The kernel is started with gravel_launch,
// since it waits for the other PEs.
//
// Protocol. Each PE puts its contribution into every PE's scratch memory, into its own place there. Then the blocks
// have a rendezvous, a dissemination barrier: each block quiets, then in round k notifies the PE 2^k further on that
// it, and all PEs that it has heard of, have arrived. After it, all contributions are there. Each PE combines them in
// the order of the PEs.
//
// What all calls of this file have in common:
// @param g handle that the kernel was given
// @param to [count] results, in memory that the block shares (shared or global); may be `from`
// @param from [count] contributions of this PE, in memory that the block shares
// @param count number of elements, the same at all PEs
// @scope block: all threads of one block of each PE, converged; one block of a PE at a time; kernels of gravel_launch
// @completion on return: all PEs have called, and results are there
// @errors PEs that call different collectives, threads that are missing or differ, a call from the host or a handler:
//   the job ends with a message that names both calls
// @source OpenSHMEM 1.5, collectives; NVSHMEM: nvshmemx_*_block
#pragma once
#include "device/copy_team.cuh"
#include "device/team_check.cuh"
#include "device/wait.cuh"
#include "device/watched_wait.cuh"
#include "lib/base/block_scratch.hpp"

namespace gravel::detail {

namespace inner {

/// Rendezvous of the blocks of all PEs. What the block has sent is applied before it notifies the others. Thread scope:
/// thread 0 of the block.
GRAVEL_DEVICE_APART void rendezvous(gravel_t g, other_call what) {
  gravel_quiet(g);
  block_scratch* const mine = g.scratch;
  const uint64_t epoch = mine->epoch + 1;
  mine->epoch = epoch;
  uint32_t k = 0;
  for (uint32_t distance = 1; distance < g.n_pes; distance *= 2, ++k) {
    const auto to = static_cast<int>((g.my_pe + distance) % g.n_pes);
    const uint64_t word = epoch << 8 | static_cast<uint64_t>(what);
    if (char* const heap = peer_heap(g, to)) {
      store_release(reinterpret_cast<uint64_t*>(heap + (reinterpret_cast<char*>(&mine->flag[k]) - g.heap)), word);
    } else {
      gravel_max(g, &mine->flag[k], word, to);  // a notification that is late does not undo the next one
      gravel_flush(g);
    }
    uint64_t seen;
    const uint32_t other = (g.my_pe + g.n_pes - distance) % g.n_pes;
    for (watched_wait wait; (seen = poll_word(g, &mine->flag[k])) >> 8 < epoch;)
      wait.closely(g, [&] { return wait_subject{.what = awaited::collective, .pe = other}; });
    if (seen >> 8 == epoch && static_cast<other_call>(seen & 0xff) != what)
      report_error(g, message_fault::other_collective, op::none, other, static_cast<uint64_t>(what), seen & 0xff);
  }
}

GRAVEL_DEVICE void sync_as_block(const gravel_t& g, other_call what) {
  thread_fence();  // what each thread did in this PE's own memory and in peers'
  __syncthreads();
  if (copy_team::block(g).is_leader()) rendezvous(g, what);
  __syncthreads();
}

/// Rendezvous of the blocks of a cooperative grid. The leader of the last block that arrives calls `last` for all of
/// them, before any of them continues. Only the last block resets the count: no block arrives again before
/// `grid_barriers` has changed, and each block has read that word before it arrived. Thread scope: all blocks.
template <class F>
GRAVEL_DEVICE void join_blocks(const gravel_t& g, F last) {
  thread_fence();  // what each thread did in this PE's own memory and in peers'
  __syncthreads();
  if (copy_team::block(g).is_leader()) {
    block_scratch* const mine = g.scratch;
    const uint64_t before = load_relaxed<scope::device>(&mine->grid_barriers),
                   blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
    if (fetch_add_acq_rel<scope::device>(&mine->arrived, uint64_t{1}) + 1 == blocks) {  // [M1]
      store_relaxed<scope::device>(&mine->arrived, uint64_t{0});
      last();
      store_release<scope::device>(&mine->grid_barriers, before + 1);  // [M2]
    } else {
      for (watched_wait wait; load_acquire<scope::device>(&mine->grid_barriers) == before;)  // [M2]
        wait.closely(g, [] { return wait_subject{.what = awaited::grid}; });
    }
  }
  __syncthreads();
}
/// Rendezvous of the grids of all PEs: the last block of each grid takes part in that of the PEs.
GRAVEL_DEVICE void sync_as_grid(const gravel_t& g, other_call what) {
  join_blocks(g, [&g, what] { rendezvous(g, what); });
}

/// Puts a word into the scratch memory of `pe`.
GRAVEL_DEVICE_APART void put_word(gravel_t g, uint64_t* at, uint64_t value, int pe) { gravel_put(g, at, value, pe); }

template <class T>
GRAVEL_DEVICE T combined(other_call what, T a, T b) {
  if (what == other_call::min_all_block) return b < a ? b : a;
  if (what == other_call::max_all_block) return a < b ? b : a;
  return a + b;
}

/// Reduces up to block_scratch::values elements.
template <class T>
GRAVEL_DEVICE void reduce_piece(const gravel_t& g, other_call what, T* to, const T* from, uint32_t count) {
  const copy_team team = copy_team::block(g);
  const uint64_t epoch = g.scratch->epoch + 1;
  for (uint32_t i = team.rank(); i < count * g.n_pes; i += team.size())
    put_word(g, g.scratch->slot(epoch, g.my_pe, g.n_pes) + i % count, to_word(from[i % count]),
             static_cast<int>(i / count));
  sync_as_block(g, what);
  for (uint32_t i = team.rank(); i < count; i += team.size()) {
    T result{};
    for (uint32_t pe = 0; pe < g.n_pes; ++pe) {
      const T value = from_word<T>(poll_word(g, g.scratch->slot(epoch, pe, g.n_pes) + i));
      result = pe == 0 ? value : combined(what, result, value);
    }
    to[i] = result;
  }
}

template <class T>
GRAVEL_DEVICE void reduce_as_block(const gravel_t& g, other_call what, team_call call, T* to, const T* from,
                                   uint32_t count) {
  static_assert(is_addable<T>, "reductions take integers of 4 and 8 bytes, float and double");
  if (forbidden_outside_kernel(g, what) || !enter_block(g, call, to, count)) return;
  __syncthreads();  // the block has written `from`
  for (uint32_t done = 0; done < count; done += block_scratch::values)
    reduce_piece(g, what, to + done, from + done,
                 count - done < block_scratch::values ? count - done : block_scratch::values);
  __syncthreads();  // the block may read `to`
}

}  // namespace inner
}  // namespace gravel::detail

/// Waits until everything that the block has sent before is applied, and the blocks of all PEs have arrived.
GRAVEL_DEVICE void gravel_barrier_block(const gravel_t& g) {
  using namespace gravel::detail;
  if (!forbidden_outside_kernel(g, other_call::barrier_block) && enter_block(g, team_call::barrier_block))
    inner::sync_as_block(g, other_call::barrier_block);
}

/// Waits until everything that the grid has sent before is applied, and the grids of all PEs have arrived. Grids may
/// differ from PE to PE. In a plain launch of several blocks, some could wait for blocks that cannot start: such a call
/// ends the job with a message.
/// @scope grid: all threads of all blocks of a cooperative launch (gravel_launch_config::cooperative), or of one block
GRAVEL_DEVICE void gravel_barrier(const gravel_t& g) {
  using namespace gravel::detail;
  if (!forbidden_outside_kernel(g, other_call::barrier) && !forbidden_in_plain_grid(g, other_call::barrier) &&
      enter_block(g, team_call::barrier))
    inner::sync_as_grid(g, other_call::barrier);
}

/// Copies values[0 .. count) of PE `root` to all PEs. T: as of gravel_put. It is meant for few values: they are put one
/// by one.
/// @param values [count] in memory that the block shares (shared or global)
/// @param root the PE whose values all PEs get
template <class T>
GRAVEL_DEVICE void gravel_broadcast_block(const gravel_t& g, T* values, uint32_t count, int root) {
  using namespace gravel::detail;
  static_assert(is_value<T>, "gravel_broadcast_block takes what gravel_put does");
  if (forbidden_outside_kernel(g, other_call::broadcast_block) ||
      !enter_block(g, team_call::broadcast_block, values, count, root))
    return;
  const copy_team team = copy_team::block(g);
  if (static_cast<uint32_t>(root) >= g.n_pes) {
    if (team.is_leader()) report_error(g, message_fault::bad_root, op::none, g.my_pe, static_cast<uint32_t>(root), 0);
    return;
  }
  __syncthreads();
  for (uint32_t done = 0; done < count; done += block_scratch::values) {
    const uint32_t now = count - done < block_scratch::values ? count - done : block_scratch::values;
    uint64_t* const slot = g.scratch->slot(g.scratch->epoch + 1, static_cast<uint32_t>(root), g.n_pes);
    if (static_cast<uint32_t>(root) == g.my_pe)
      for (uint32_t i = team.rank(); i < now * g.n_pes; i += team.size())
        inner::put_word(g, slot + i % now, to_word(values[done + i % now]), static_cast<int>(i / now));
    inner::sync_as_block(g, other_call::broadcast_block);
    if (static_cast<uint32_t>(root) != g.my_pe)
      for (uint32_t i = team.rank(); i < now; i += team.size()) values[done + i] = from_word<T>(poll_word(g, slot + i));
  }
  __syncthreads();
}

/// to[0 .. count) = the sum, minimum or maximum over all PEs, element by element, of from[0 .. count). `to` may be
/// `from`. Both lie in memory that the block shares. T: integers of 4 and 8 bytes, float, double. The result is the
/// same, bit for bit, at all PEs.
#define GRAVEL_REDUCTION(name, call)                                                                                 \
  template <class T>                                                                                                 \
  GRAVEL_DEVICE void name(const gravel_t& g, T* to, const T* from, uint32_t count) {                                 \
    gravel::detail::inner::reduce_as_block(g, gravel::detail::other_call::call, gravel::detail::team_call::call, to, \
                                           from, count);                                                             \
  }
/// Sums over all PEs, element by element. T: integers of 4 and 8 bytes, float, double. The result is the same, bit for
/// bit, at all PEs.
GRAVEL_REDUCTION(gravel_sum_all_block, sum_all_block)
/// Minima over all PEs, element by element. T: as of gravel_sum_all_block.
GRAVEL_REDUCTION(gravel_min_all_block, min_all_block)
/// Maxima over all PEs, element by element. T: as of gravel_sum_all_block.
GRAVEL_REDUCTION(gravel_max_all_block, max_all_block)
#undef GRAVEL_REDUCTION
