// The same by hand: warps that stay, a queue of products and of pieces of sums, a counter for each node of the
// recursion. Whoever finishes the last part of a step begins the next one.
#pragma once
#include <optional>

#include <gravel/launch_alone.cuh>
#include "bench/rivals/warp_queue.cuh"
#include "examples/taskgraph/strassen_blocks.cuh"

namespace strassen_threads {

enum step : uint32_t { multiplying, dividing, combining };
struct item {
  uint32_t level, index, what, begin;
};

struct multiplier {
  strassen_matrices all;
  uint32_t* missing;  ///< of each node above the leaves, level by level
  warp_queue<item> queue;

  GRAVEL_BOTH static uint32_t nodes_above(uint32_t level) {
    uint32_t nodes = 0, of_level = 1;
    for (uint32_t i = 0; i < level; ++i, of_level *= 7) nodes += of_level;
    return nodes;
  }

  /// All parts of the node's next step.
  GRAVEL_DEVICE void begin(uint32_t level, uint32_t index, uint32_t what) const {
    const uint32_t lane = threadIdx.x % 32,
                   n = what == multiplying ? 7 : (all.quadrant(level) + all.piece - 1) / all.piece;
    if (lane == 0) gravel::store_relaxed<gravel::scope::device>(&missing[nodes_above(level) + index], n);
    const uint32_t first = __shfl_sync(~0u, lane == 0 ? queue.places(n) : 0, 0);
    __syncwarp();
    for (uint32_t i = lane; i < n; i += 32)
      queue.put(first + i, what == multiplying ? item{level + 1, index * 7 + i, what, 0}
                                               : item{level, index, what, i * all.piece});
  }
  /// Was it the last part of the node's step?
  GRAVEL_DEVICE bool last_of(uint32_t level, uint32_t index) const {
    __syncwarp();
    uint32_t left = 0;
    if (threadIdx.x % 32 == 0)
      left = gravel::detail::fetch_add_acq_rel<gravel::scope::device>(&missing[nodes_above(level) + index], ~0u);
    left = __shfl_sync(~0u, left, 0);
    __syncwarp();
    return left == 1;
  }

  GRAVEL_DEVICE void operator()(const item& it) const {
    if (it.what == multiplying) {
      if (!all.is_leaf(it.level)) return begin(it.level, it.index, dividing);
      all.multiply(it.level, it.index);
    } else {
      const uint32_t size = all.quadrant(it.level), end = it.begin + all.piece < size ? it.begin + all.piece : size;
      if (it.what == dividing) all.divide(it.level, it.index, it.begin, end);
      else all.combine(it.level, it.index, it.begin, end);
      if (!last_of(it.level, it.index)) return;
      if (it.what == dividing) return begin(it.level, it.index, multiplying);
    }
    if (it.level > 0 && last_of(it.level - 1, it.index / 7)) begin(it.level - 1, it.index / 7, combining);
  }
};

__global__ void work(multiplier m) { m.queue.serve(m); }

class program {
 public:
  explicit program(const strassen_matrices& all) : all_(all) {
    uint64_t nodes = 1, items = 1;
    uint32_t level = 0;
    for (; !all.is_leaf(level); ++level, nodes *= 7)
      items += nodes * (7 + 2 * ((all.quadrant(level) + all.piece - 1) / all.piece));
    missing_.emplace(uint64_t{multiplier::nodes_above(level)} + 1);
    queue_.emplace(items);
  }

  void run(unsigned blocks, unsigned threads) {
    gravel::launch_alone(work, {.grid = blocks, .block = threads},
                         multiplier{all_, missing_->data(), queue_->begin({0, 0, multiplying, 0})});
    gravel_synchronize();
  }

 private:
  strassen_matrices all_;
  std::optional<gravel::device_array<uint32_t>> missing_;
  std::optional<warp_queue_memory<item>> queue_;
};

}  // namespace strassen_threads
