// Fused rounds: many rounds in one kernel of a few blocks.
//
// Problem. On a road network a round has some thousand vertices, and there are tens of thousands of rounds. A kernel
// for each round takes longer to start than to run.
// Solution. Each of a few blocks keeps its part of the list in shared memory. After each round all blocks report their
// sizes to each other in device memory.
//
// Protocol.
//   block                                                every other block
//   atomics and stores of its round
//   its report: epoch, size, flags       [W1] release    sees the reports of all blocks with that epoch   [W1] acquire
//
// All blocks see the same reports, and so decide alike: continue, divide the list anew, advance the limit, or leave.
//
// Invariants. A block may be one rendezvous ahead of a block that has not read its report yet, but not two. So each
// block has two reports, used in turn. Epochs continue from one launch to the next.
//
// Model: test/models/worklist_rendezvous.pml.
#pragma once
#include "lib/worklist/expand.cuh"

namespace gravel::detail {

/// Small on the CPU backend, so that small graphs reach every case.
constexpr uint32_t fused_threads = GRAVEL_CUDA ? 512 : 32, local_entries = GRAVEL_CUDA ? 4096 : 48,
                   worth_dividing = GRAVEL_CUDA ? 64 : 8;

struct block_rendezvous {
  static constexpr uint32_t leave = 1u << 31, size_mask = leave - 1;
  uint32_t total, most, before, least;
  bool leaves;
};

struct fused_memory {
  uint32_t entries[2][local_entries];
  uint32_t size[2];
  uint32_t leaves, least;
  block_rendezvous all;
};

/// Prefetches words that the expansion of the next list will read into the L2 cache, for some edges of each vertex:
/// while one warp waits for other blocks, the other warps wait for memory. Thread scope: all but the first warp of a
/// block.
template <class Program>
GRAVEL_DEVICE void fetch_ahead([[maybe_unused]] const worklist_view<Program>& w,
                               [[maybe_unused]] const fused_memory& mine, [[maybe_unused]] uint32_t turn) {
#if GRAVEL_ON_GPU
  const uint32_t size = mine.size[turn] < local_entries ? mine.size[turn] : local_entries;
  for (uint32_t i = threadIdx.x - 32; i < size; i += blockDim.x - 32) {
    const uint32_t v = mine.entries[turn][i];
    const uint64_t begin = w.graph.offsets[v], end = w.graph.offsets[v + 1];
#pragma unroll
    for (uint32_t j = 0; j < edges_at_once; ++j)
      if (begin + j < end)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(&w.program.vertices.words[w.graph.targets[begin + j]]));
  }
#endif
}

/// Reports this block's size and flags to all blocks, and waits for their reports. `epoch` counts rendezvous. Thread
/// scope: block.
template <class Program>
GRAVEL_DEVICE block_rendezvous rendezvous_of_blocks(const worklist_view<Program>& w, fused_memory& mine, uint32_t epoch,
                                                    uint32_t turn) {
  __syncthreads();
  const uint32_t lane = threadIdx.x;
  if (lane >= 32) fetch_ahead(w, mine, turn);
  if (lane < 32) {
    block_report* const of_blocks = w.reports[epoch % 2];
    if (lane == 0) {
      const uint32_t size = mine.size[turn] < local_entries ? mine.size[turn] : local_entries;
      store_relaxed<scope::device>(&of_blocks[blockIdx.x].least, uint64_t{mine.least});
      store_release<scope::device>(
          &of_blocks[blockIdx.x].size,
          uint64_t{epoch} << 32 | size | (mine.leaves ? block_rendezvous::leave : 0u));  // [W1]
    }
    uint64_t theirs = 0, least = ~0u;
    if (lane < gridDim.x) {
      for (relax wait; (theirs = load_acquire<scope::device>(&of_blocks[lane].size)) >> 32 != epoch;
           wait.closely()) {  // [W1]
      }
      least = load_relaxed<scope::device>(&of_blocks[lane].least);
    }
    __syncwarp();
    const auto size = static_cast<uint32_t>(theirs) & block_rendezvous::size_mask;
    block_rendezvous m;
    m.total = __reduce_add_sync(~0u, size);
    m.most = __reduce_max_sync(~0u, size);
    m.before = __reduce_add_sync(~0u, lane < blockIdx.x ? size : 0u);
    m.least = __reduce_min_sync(~0u, static_cast<uint32_t>(least));
    m.leaves = __ballot_sync(~0u, (theirs & block_rendezvous::leave) != 0) != 0;
    if (lane == 0) mine.all = m;
  }
  __syncthreads();
  return mine.all;
}

/// The lists of a block of the fused kernel. Near vertices go into its shared memory. If that is full, they go into the
/// list in device memory, and all blocks leave. Thread scope of all calls: warp, converged.
template <class Program>
struct local_lists {
  const worklist_view<Program>& w;
  fused_memory& mine;
  uint32_t turn, spill_turn, far_turn, limit;

  GRAVEL_DEVICE listing offer(uint32_t v, typename worklist_view<Program>::value x) const {
    return w.program.vertices.offer(v, x, w.is_ghost(v) ? ~0u : limit);
  }

  GRAVEL_DEVICE void near(bool have, uint32_t v) const {
    const unsigned having = __ballot_sync(~0u, have), lane = threadIdx.x % 32;
    if (having == 0) return;
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd_block(&mine.size[turn], static_cast<uint32_t>(__popc(having)));
    at = __shfl_sync(~0u, at, 0) + static_cast<uint32_t>(__popc(having & ((1u << lane) - 1)));
    const bool fits = at < local_entries;
    if (have && fits) mine.entries[turn][at] = v;
    if (__ballot_sync(~0u, have && !fits) == 0) return;
    if (have && !fits) store_relaxed<scope::block>(&mine.leaves, 1u);
    append(w.near[spill_turn], &w.words->near_size[spill_turn], have && !fits, v);
  }
  GRAVEL_DEVICE void far(bool have, uint32_t v) const {
    append(w.far[far_turn], &w.words->far_size[far_turn], have, v);
  }
  GRAVEL_DEVICE void remote(bool have, uint32_t v) const { append(w.remote, &w.words->remote_size, have, v); }
};

/// Parameters of the kernel.
struct fused_limits {
  uint32_t most_entries;  ///< with more entries the kernel ends: the whole grid expands them faster
  uint32_t most_rounds;
  bool advances;  ///< advance the limit when no vertex is near; false if other PEs may have some
  bool has_hubs;  ///< the graph has hubs
};

/// Distributes the `size` entries of `list` among the blocks. Thread scope: block.
GRAVEL_DEVICE void take_share(fused_memory& mine, uint32_t turn, const uint32_t* list, uint32_t size) {
  __syncthreads();
  const uint32_t here = size / gridDim.x + (blockIdx.x < size % gridDim.x);
  for (uint32_t i = threadIdx.x; i < here; i += blockDim.x) mine.entries[turn][i] = list[i * gridDim.x + blockIdx.x];
  if (threadIdx.x == 0) mine.size[turn] = here;
  __syncthreads();
}

/// Sets `leaves` if this block's list has a hub: then all blocks leave before they expand it. A rendezvous must follow.
/// Thread scope: block.
template <class Program>
GRAVEL_DEVICE void scan_for_hubs(const worklist_view<Program>& w, fused_memory& mine, uint32_t turn) {
  __syncthreads();
  const uint32_t size = mine.size[turn] < local_entries ? mine.size[turn] : local_entries;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    const uint32_t v = mine.entries[turn][i];
    if (w.graph.offsets[v + 1] - w.graph.offsets[v] >= hub_edges) store_relaxed<scope::block>(&mine.leaves, 1u);
  }
}

/// Expands this block's part of the round, without hubs. Thread scope: block.
template <class Program>
GRAVEL_DEVICE void expand_local(const local_lists<Program>& lists, uint32_t from_turn, work_done& done) {
  const worklist_view<Program>& w = lists.w;
  const uint32_t size = lists.mine.size[from_turn], lane = threadIdx.x % 32;
  for (uint32_t of_warp = threadIdx.x / 32 * 32; of_warp < size; of_warp += blockDim.x) {
    uint64_t begin = 0, end = 0;
    typename worklist_view<Program>::value from{};
    if (of_warp + lane < size) {
      const uint32_t v = lists.mine.entries[from_turn][of_warp + lane];
      begin = w.graph.offsets[v];
      end = w.graph.offsets[v + 1];
      if (w.program.vertices.take(v, &from)) {
        from = w.program.begin(v, from, end - begin);
        ++done.expanded;
        done.edges += end - begin;
      } else {
        end = begin;
      }
    }
    distribute<false>(w, lists, begin, end, from);
  }
}

/// Splits the far list: vertices below `limit` become near, the others go into the other far list, and their least key
/// into the block's report. Thread scope: block, all blocks.
template <class Program>
GRAVEL_DEVICE void scan_far(const local_lists<Program>& lists, uint32_t size) {
  const worklist_view<Program>& w = lists.w;
  if constexpr (worklist_view<Program>::state::is_ordered) {
    const uint32_t* const old = w.far[1 - lists.far_turn];
    const uint32_t lane = threadIdx.x % 32, lanes = gridDim.x * blockDim.x;
    uint32_t least = ~0u;
    for (uint32_t of_warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; of_warp < size; of_warp += lanes) {
      uint32_t v = 0, word = least_keys::initial_word;
      if (of_warp + lane < size) {
        v = old[of_warp + lane];
        word = load_relaxed<scope::device>(&w.program.vertices.words[v]);
      }
      const bool waits = least_keys::waits(word), is_near = least_keys::key_of(word) < lists.limit;
      if (waits && !is_near && least_keys::key_of(word) < least) least = least_keys::key_of(word);
      lists.near(waits && is_near, v);
      lists.far(waits && !is_near, v);
    }
    least = __reduce_min_sync(~0u, least);
    if (lane == 0 && least != ~0u) atomicMin_block(&lists.mine.least, least);
  }
}

/// The fused kernel. It ends when the list grows too long, when a block must leave, or when the list is empty and the
/// limit cannot be advanced. A cooperative launch of up to most_rendezvous_blocks blocks of fused_threads. What is left
/// lies in the near list that was not current before; its size is the sum of both entries of near_size.
template <class Program>
__global__ void __launch_bounds__(fused_threads)
    run_rounds(const __grid_constant__ worklist_view<Program> w, fused_limits how) {
  __shared__ fused_memory mine;
  worklist_words& words = *w.words;
  const uint32_t near_turn = words.near_turn;
  uint32_t turn = 0, limit = words.limit, epoch = words.epoch, far_turn = words.far_turn, rounds = 0;
  if (threadIdx.x == 0) {
    mine.size[1] = 0;
    mine.leaves = 0;
    mine.least = ~0u;
  }
  take_share(mine, turn, w.near[near_turn], words.near_size[near_turn]);
  if (how.has_hubs) scan_for_hubs(w, mine, turn);
  block_rendezvous all = rendezvous_of_blocks(w, mine, ++epoch, turn);
  work_done done;
  while (!all.leaves && all.total <= how.most_entries && rounds < how.most_rounds) {
    if (all.total == 0) {
      if constexpr (!worklist_view<Program>::state::is_ordered) break;
      else {
        const uint32_t waiting = load_relaxed<scope::device>(&words.far_size[far_turn]);
        if (!how.advances || waiting == 0) break;
        const uint32_t from = all.least != ~0u && all.least > limit ? all.least : limit;
        limit = w.program.limit_after(from);
        if (limit <= from) limit = from + 1;
        if (threadIdx.x == 0) mine.least = ~0u;
        __syncthreads();
        far_turn = 1 - far_turn;
        scan_far(local_lists<Program>{w, mine, turn, 1 - near_turn, far_turn, limit}, waiting);
        if (how.has_hubs) scan_for_hubs(w, mine, turn);
        all = rendezvous_of_blocks(w, mine, ++epoch, turn);
        if (blockIdx.x == 0 && threadIdx.x == 0) store_relaxed<scope::device>(&words.far_size[1 - far_turn], 0u);
        // A second rendezvous: the other list may be filled only when all blocks have read its size.
        if (all.total == 0) all = rendezvous_of_blocks(w, mine, ++epoch, turn);
        continue;
      }
    }
    if (all.most > worth_dividing && all.most > all.total / gridDim.x * 2) {
      // Divides the list anew, by way of the list with which this kernel began.
      for (uint32_t i = threadIdx.x; i < mine.size[turn]; i += blockDim.x)
        w.near[near_turn][all.before + i] = mine.entries[turn][i];
      rendezvous_of_blocks(w, mine, ++epoch, turn);
      take_share(mine, turn, w.near[near_turn], all.total);
    }
    expand_local(local_lists<Program>{w, mine, 1 - turn, 1 - near_turn, far_turn, limit}, turn, done);
    __syncthreads();
    if (threadIdx.x == 0) {
      mine.size[turn] = 0;
      mine.least = ~0u;
    }
    turn = 1 - turn;
    ++rounds;
    if (how.has_hubs) scan_for_hubs(w, mine, turn);
    all = rendezvous_of_blocks(w, mine, ++epoch, turn);
  }
  const uint32_t passed_on =
      load_relaxed<scope::device>(&words.near_size[1 - near_turn]);  // entries that found no room in shared memory
  const uint32_t here = mine.size[turn] < local_entries ? mine.size[turn] : local_entries;
  for (uint32_t i = threadIdx.x; i < here; i += blockDim.x)
    w.near[1 - near_turn][passed_on + all.before + i] = mine.entries[turn][i];
  done.add_to(w.words);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    words.near_size[near_turn] = all.total;  // turn_over_fused adds it
    words.limit = limit;
    words.epoch = epoch;
    words.far_turn = far_turn;
    words.rounds += rounds;
  }
}

/// Runs after run_rounds. One thread.
template <class Program>
__global__ void turn_over_fused(const __grid_constant__ worklist_view<Program> w) {
  worklist_words& words = *w.words;
  words.near_size[1 - words.near_turn] += words.near_size[words.near_turn];
  words.near_size[words.near_turn] = 0;
  words.near_turn = 1 - words.near_turn;
}

}  // namespace gravel::detail
