// The kernels of a task graph.
#pragma once
#include "lib/taskgraph/graph_worker.cuh"

namespace gravel::detail {

/// Bytes of dynamic shared memory of each warp: its counts, and its store of tasks.
template <class View>
GRAVEL_BOTH uint32_t worker_bytes(uint32_t local_levels) {
  return sizeof(work_counts<uint32_t>) + (local_levels ? View::store::bytes(local_levels) : 0);
}
template <class View>
GRAVEL_DEVICE work_counts<uint32_t>* counts_of(const View& view, uint32_t warp) {
  char* const own = reinterpret_cast<char*>(gravel_dynamic_shared()) + warp * worker_bytes<View>(view.local_levels);
  return reinterpret_cast<work_counts<uint32_t>*>(own);
}
/// The worker of the calling warp. `block`: in shared memory. Thread scope: block.
template <bool SCHEDULED, class View>
GRAVEL_DEVICE task_worker<View, SCHEDULED> worker_of_warp(const View& view, block_poller* block) {
  if (threadIdx.x == 0) *block = {};
  __syncthreads();
  auto* const counts = counts_of(view, threadIdx.x / 32);
  return {view, {reinterpret_cast<uint32_t*>(counts + 1), view.local_levels}, counts, block, lane_group::of(~0u)};
}

/// Adds the counts of the block's workers to those of the graph; one lane for each kind of count. All blocks end at
/// about the same time, and the kernel ends with the last addition: so there is one addition for a block, not one for a
/// warp. Thread scope: block.
template <class View>
GRAVEL_DEVICE void report_counts(const View& view) {
  constexpr uint32_t kinds = sizeof(work_counts<uint32_t>) / sizeof(uint32_t);
  __syncthreads();
  const uint32_t kind = threadIdx.x;
  if (kind >= kinds) return;
  uint64_t sum = 0;
  for (uint32_t warp = 0; warp < blockDim.x / 32; ++warp)
    sum += reinterpret_cast<const uint32_t*>(counts_of(view, warp))[kind];
  if (sum) fetch_add<scope::device>(reinterpret_cast<uint64_t*>(&view.words->counts) + kind, sum);
}

/// Workers that serve themselves. `batches`: how many each worker takes; ~0: until the graph has ended.
template <class View>
__global__ void run_tasks(const __grid_constant__ View view, uint32_t batches) {
  __shared__ block_poller block;
  worker_of_warp<false>(view, &block).work(batches);
  report_counts(view);
}
/// Workers and schedulers, until the graph has ended.
template <class View>
__global__ void run_scheduled_tasks(const __grid_constant__ View view) {
  __shared__ block_poller block;
  worker_of_warp<true>(view, &block).work_scheduled();
  report_counts(view);
}

/// Sets the words of a run before it begins, except `live`, which counts what has been pushed already. Thread scope:
/// one lane.
template <class View>
GRAVEL_DEVICE void reset_words(const View& view, uint64_t held) {
  graph_words& words = *view.words;
  words.held = held;
  words.fault = words.arrived = words.idle_blocks = 0;
  words.counts = {};
}

template <class View>
__global__ void begin_run(const View view, uint64_t held) {
  if (threadIdx.x == 0) reset_words(view, held);
}

/// One block: pushes `n` tasks at depth 0, `step` at a time, with at most one for each thread. The tasks are those from
/// `from` on, or, if n is 1, `only`. *pushed: how many found room. `before_run`: it also does what begin_run does.
template <class View, class T>
__global__ void push_tasks(const View view, const T only, const T* from, uint32_t n, uint32_t step, bool before_run,
                           uint32_t* pushed) {
  if (before_run && threadIdx.x == 0) reset_words(view, 0);
  __shared__ channel_block block;
  const auto to = view.template channel_of<T>(0);
  uint32_t done = 0;
  for (; done < n; done += step) {
    const bool mine = threadIdx.x < step && done + threadIdx.x < n;
    const channel_reservation r = block.reserve(to, mine);
    if (!r.granted) break;
    if (mine) to.write(r.mine, n == 1 ? only : from[done + threadIdx.x]);
    if (threadIdx.x == 0) fetch_add<scope::device>(&view.words->live, graph_words::arrival + r.total);
    block.commit(to, r);
  }
  if (threadIdx.x == 0) *pushed = done < n ? done : n;
}

template <class T, class View>
GRAVEL_DEVICE void open_type(const View& view, uint32_t depth) {
  view.template channel_of<T>(depth).state().room = view.template capacity_of<T>();
  if constexpr (task_facts<T>::is_continuation)
    view.template frames_of<T>(depth).space.state->room = view.frame_capacity;
}
/// Sets the room of the channels and frames of one depth to all that they have. Thread scope: lane.
template <class View, class... T>
GRAVEL_DEVICE void open_depth(const View& view, gravel_types<T...>*, uint32_t depth) {
  (open_type<T>(view, depth), ...);
}
/// Sets the room of all channels and frames, after their memory was zeroed.
template <class View>
__global__ void open_channels(const View view) {
  if (threadIdx.x == 0) view.idle.state().room = view.idle.space.capacity;
  for (uint32_t depth = threadIdx.x; depth < view.depths; depth += blockDim.x)
    open_depth(view, static_cast<typename View::types*>(nullptr), depth);
}

}  // namespace gravel::detail
