// The same by hand: warps that stay, a queue of what is to be sorted and of pieces that are to be merged, a counter for
// each node of the recursion. Node i has the quarters 4 i + 1 to 4 i + 4. Whoever finishes the last part of a step
// begins the next one.
#pragma once
#include <optional>

#include <gravel/launch_alone.cuh>
#include "bench/rivals/warp_queue.cuh"
#include "examples/taskgraph/sort_runs.cuh"

namespace sort_threads {

enum step : uint32_t { sorting, merging_quarters, merging_halves };
struct item {
  uint32_t node, what, begin, end;
};
struct node {
  uint32_t at, n, missing;
};

GRAVEL_BOTH uint32_t pieces_of(uint32_t n, uint32_t piece) { return (n + piece - 1) / piece; }

struct sorter {
  sort_keys keys;
  node* nodes;
  warp_queue<item> queue;

  GRAVEL_DEVICE void divide(uint32_t number) const {
    const node self = nodes[number];
    const uint32_t lane = threadIdx.x % 32, quarter = (self.n + 3) / 4;
    if (lane == 0) nodes[number].missing = 4;
    const uint32_t first = __shfl_sync(~0u, lane == 0 ? queue.places(4) : 0, 0);
    __syncwarp();
    if (lane >= 4) return;
    nodes[4 * number + 1 + lane] = {self.at + lane * quarter, lane == 3 ? self.n - 3 * quarter : quarter, 0};
    queue.put(first + lane, {4 * number + 1 + lane, sorting, 0, 0});
  }
  /// Pieces of the node's merge, or of its two merges.
  GRAVEL_DEVICE void begin_merge(uint32_t number, uint32_t what) const {
    const uint32_t lane = threadIdx.x % 32, n = nodes[number].n, half = what == merging_halves ? n : 2 * ((n + 3) / 4);
    const uint32_t before = pieces_of(half, keys.piece), all = before + pieces_of(n - half, keys.piece);
    if (lane == 0) gravel::store_relaxed<gravel::scope::device>(&nodes[number].missing, all);
    const uint32_t first = __shfl_sync(~0u, lane == 0 ? queue.places(all) : 0, 0);
    __syncwarp();
    for (uint32_t i = lane; i < all; i += 32) {
      const uint32_t begin = i < before ? i * keys.piece : half + (i - before) * keys.piece,
                     end = i < before ? half : n;
      queue.put(first + i, {number, what, begin, begin + keys.piece < end ? begin + keys.piece : end});
    }
  }
  GRAVEL_DEVICE void merge(const item& it) const {
    const node self = nodes[it.node];
    const uint32_t quarter = (self.n + 3) / 4, half = 2 * quarter;
    if (it.what == merging_halves)
      return merge_piece(keys.b + self.at, half, keys.b + self.at + half, self.n - half, keys.a + self.at, it.begin,
                         it.end);
    const bool second = it.begin >= half;
    const uint32_t *const from = keys.a + self.at + (second ? half : 0), length = second ? self.n - half : half,
                          offset = second ? half : 0;
    merge_piece(from, quarter, from + quarter, length - quarter, keys.b + self.at + offset, it.begin - offset,
                it.end - offset);
  }
  /// Was it the last part of its step?
  GRAVEL_DEVICE bool last_of(uint32_t number) const {
    __syncwarp();
    uint32_t left = 0;
    if (threadIdx.x % 32 == 0)
      left = gravel::detail::fetch_add_acq_rel<gravel::scope::device>(&nodes[number].missing, ~0u);
    left = __shfl_sync(~0u, left, 0);
    __syncwarp();
    return left == 1;
  }

  GRAVEL_DEVICE void operator()(const item& it) const {
    if (it.what == sorting) {
      const node self = nodes[it.node];
      if (self.n > sorted_at_once) return divide(it.node);
      sort_at_once(keys.a + self.at, self.n);
    } else {
      merge(it);
      if (!last_of(it.node)) return;
      if (it.what == merging_quarters) return begin_merge(it.node, merging_halves);
    }
    if (it.node == 0) return;
    const uint32_t parent = (it.node - 1) / 4;
    if (last_of(parent)) begin_merge(parent, merging_quarters);
  }
};

__global__ void work(sorter s) { s.queue.serve(s); }

/// Items, and the largest number of a node, of what is below one of n keys.
inline void count(uint32_t n, uint32_t piece, uint64_t number, uint64_t* items, uint64_t* last) {
  const uint32_t quarter = (n + 3) / 4;
  *items += 1;
  *last = number > *last ? number : *last;
  if (n <= sorted_at_once) return;
  *items += pieces_of(2 * quarter, piece) + pieces_of(n - 2 * quarter, piece) + pieces_of(n, piece);
  for (uint32_t i = 0; i < 4; ++i) count(i == 3 ? n - 3 * quarter : quarter, piece, 4 * number + 1 + i, items, last);
}

class program {
 public:
  program(const sort_keys& keys, uint32_t n) : keys_(keys), n_(n) {
    uint64_t items = 0, last = 0;
    count(n, keys.piece, 0, &items, &last);
    nodes_.emplace(last + 1);
    queue_.emplace(items);
  }

  void run(unsigned blocks, unsigned threads) {
    const node root{0, n_, 0};
    gravel_copy(nodes_->data(), &root, sizeof(root));
    gravel::launch_alone(work, {.grid = blocks, .block = threads},
                         sorter{keys_, nodes_->data(), queue_->begin({0, sorting, 0, 0})});
    gravel_synchronize();
  }

 private:
  sort_keys keys_;
  uint32_t n_;
  std::optional<gravel::device_array<node>> nodes_;
  std::optional<warp_queue_memory<item>> queue_;
};

}  // namespace sort_threads
