// The same by hand: threads that stay, a queue of placements in device memory, a counter for the end, one sum. The queue is as long as
// there may be placements above the last rows.
#pragma once
#include <algorithm>

#include "examples/channels/queens_rows.hpp"
#include "examples/device_array.hpp"
#include "gravel.cuh"
#include "host/launch_alone.cuh"
#include "lib/base/relax.hpp"

namespace queens_threads {

struct queue {
  placement* items;
  uint32_t* ready;
  uint32_t *head, *tail, *pending, *overflow;
  uint64_t* found;
  uint32_t capacity;
};

__global__ void work(queue q, board b) {
  using namespace gravel;
  uint32_t ticket = fetch_add<scope::device>(q.head, 1u);
  uint64_t found = 0;
  for (relax idle;;) {
    if (ticket < q.capacity && load_acquire<scope::device>(&q.ready[ticket])) {
      const placement at = q.items[ticket];
      uint32_t free = at.free(b);
      if (at.left(b) <= b.serial_rows || free == 0) {
        found += count_below(b, at);
      } else {
        const uint32_t n = placement::count(free);
        fetch_add<scope::device>(q.pending, n);
        const uint32_t first = fetch_add<scope::device>(q.tail, n);
        for (uint32_t child = first; free != 0; free &= free - 1, ++child) {
          if (child >= q.capacity) {
            store_relaxed<scope::device>(q.overflow, 1u);
            fetch_add<scope::device>(q.pending, ~0u);
            continue;
          }
          q.items[child] = at.with(free & (0 - free));
          store_release<scope::device>(&q.ready[child], 1u);
        }
      }
      fetch_add_release<scope::device>(q.pending, ~0u);
      ticket = fetch_add<scope::device>(q.head, 1u);
      idle.reset();
    } else if (load_acquire<scope::device>(q.pending) == 0) {
      break;
    } else {
      idle();
    }
  }
  if (found) fetch_add<scope::device>(q.found, found);
}

class program {
 public:
  /// Placements up to the row at which lanes count, at most n * (n - 1) * ...; `most` bounds the memory.
  explicit program(const board& b, uint64_t most = uint64_t{1} << 27)
      : board_(b), capacity_(static_cast<uint32_t>(std::min(placements(b), most))), memory_(uint64_t{capacity_} * 4 + 160) {}

  uint64_t run(unsigned blocks, unsigned threads) {
    uint32_t* const at = memory_.data();
    const queue q{reinterpret_cast<placement*>(at + 160),
                  at + 160 + uint64_t{capacity_} * 3,
                  at,
                  at + 32,
                  at + 64,
                  at + 96,
                  reinterpret_cast<uint64_t*>(at + 128),
                  capacity_};
    gravel::current_backend().zero(at, (uint64_t{capacity_} * 4 + 160) * 4);
    const placement root;
    const uint32_t one = 1;
    gravel_copy(q.items, &root, sizeof(root));
    gravel_copy(q.ready, &one, 4);
    gravel_copy(q.tail, &one, 4);
    gravel_copy(q.pending, &one, 4);
    gravel::launch_alone(work, {.grid = blocks, .block = threads}, q, board_);
    gravel_synchronize();
    uint32_t overflow = 0;
    uint64_t found = 0;
    gravel_copy(&overflow, q.overflow, 4);
    if (overflow) gravel::fail_text("the queue of the version by hand is too short; take more serial rows");
    gravel_copy(&found, q.found, 8);
    return found;
  }

 private:
  static uint64_t placements(const board& b) {
    uint64_t sum = 1, row = 1;
    for (uint32_t i = 0; i + b.serial_rows < b.n && sum < uint64_t{1} << 40; ++i) sum += row *= b.n - i;
    return sum;
  }

  board board_;
  uint32_t capacity_;
  gravel::device_array<uint32_t> memory_;
};

}  // namespace queens_threads
