// The same by hand: warps that stay, a queue of placements, one sum. The queue is as long as there may be placements
// above the last rows.
#pragma once
#include <algorithm>

#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include "bench/rivals/warp_queue.cuh"
#include "examples/taskgraph/queens_rows.hpp"

namespace queens_threads {

struct counter {
  board b;
  uint64_t* found;
  uint32_t* overflow;
  warp_queue<placement> queue;

  GRAVEL_DEVICE void operator()(const placement& at) const {
    const gravel::detail::lane_group warp = gravel::detail::lane_group::of(~0u);
    const uint32_t free = at.free(b);
    if (at.left(b) <= b.serial_rows) {
      const uint64_t found_here = count_together(b, at);
      if (warp.is_leader()) gravel::fetch_add<gravel::scope::device>(found, found_here);
    } else if (free != 0) {
      const uint32_t n = placement::count(free), first = warp.from_leader(warp.is_leader() ? queue.places(n) : 0);
      if (first + n <= queue.capacity) {
        if (free >> warp.lane() & 1) queue.put(first + warp.rank_in(free), at.with(1u << warp.lane()));
      } else if (warp.is_leader()) {
        gravel::store_relaxed<gravel::scope::device>(overflow, 1u);
        gravel::fetch_add<gravel::scope::device>(queue.pending, 0u - n);
      }
    }
  }
};

__global__ void work(counter c) { c.queue.serve(c); }

class program {
 public:
  /// Placements up to the row at which warps count, at most n * (n - 1) * ...; `most` bounds the memory.
  explicit program(const board& b, uint64_t most = uint64_t{1} << 25)
      : board_(b), words_(uint64_t{4}), queue_(std::min(placements(b), most)) {}

  uint64_t run(unsigned blocks, unsigned threads) {
    uint64_t words[4] = {};
    gravel_copy(words_.data(), words, sizeof(words));
    const counter c{board_, words_.data(), reinterpret_cast<uint32_t*>(words_.data() + 2), queue_.begin({})};
    gravel::launch_alone(work, {.grid = blocks, .block = threads}, c);
    gravel_synchronize();
    gravel_copy(words, words_.data(), sizeof(words));
    if (words[2]) gravel::detail::fail_text("the queue of the version by hand is too short; take more serial rows");
    return words[0];
  }

 private:
  static uint64_t placements(const board& b) {
    uint64_t sum = 1, row = 1;
    for (uint32_t i = 0; i + b.serial_rows < b.n && sum < uint64_t{1} << 40; ++i) sum += row *= b.n - i;
    return sum;
  }

  board board_;
  gravel::device_array<uint64_t> words_;
  warp_queue_memory<placement> queue_;
};

}  // namespace queens_threads
