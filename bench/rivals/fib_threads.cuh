// The same by hand: threads that stay, a queue of calls in device memory, counters for the joins. Calls up to `cut` are
// made on a stack of the lane's own. The queue is as long as there are calls above that.
#pragma once
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/launch_alone.cuh>
#include "lib/base/relax.hpp"

namespace fib_threads {

struct queue {
  uint32_t *n, *parent, *result, *missing;  ///< of each call
  uint32_t* ready;
  uint32_t *head, *tail, *pending;
  uint32_t capacity;
};

constexpr uint32_t cut = 12, none = ~0u;

/// With a join for each call, as if all were tasks.
GRAVEL_DEVICE uint32_t on_stack(uint32_t n) {
  uint32_t call[cut + 1], first[cut + 1], depth = 0;
  uint64_t has_first = 0;
  for (;;) {
    while (n >= 2) {
      call[depth] = n;
      has_first &= ~(uint64_t{1} << depth);
      ++depth;
      --n;
    }
    uint32_t result = n;
    for (;;) {
      if (depth == 0) return result;
      --depth;
      if (!(has_first >> depth & 1)) break;
      result += first[depth];
    }
    first[depth] = result;
    has_first |= uint64_t{1} << depth;
    n = call[depth] - 2;
    ++depth;
  }
}

__global__ void work(queue q) {
  using namespace gravel::detail;
  uint32_t ticket = fetch_add<scope::device>(q.head, 1u);
  for (relax idle;;) {
    if (ticket < q.capacity && load_acquire<scope::device>(&q.ready[ticket])) {
      const uint32_t n = q.n[ticket];
      if (n > cut) {
        const uint32_t child = fetch_add<scope::device>(q.tail, 2u);
        fetch_add<scope::device>(q.pending, 2u);
        q.result[ticket] = 0;
        q.missing[ticket] = 2;
        for (uint32_t i = 0; i < 2; ++i) {
          q.n[child + i] = n - 1 - i;
          q.parent[child + i] = ticket;
          store_release<scope::device>(&q.ready[child + i], 1u);
        }
      } else {
        uint32_t result = on_stack(n);
        for (uint32_t call = ticket;;) {
          const uint32_t parent = q.parent[call];
          if (parent == none) {
            q.result[call] = result;
            break;
          }
          fetch_add<scope::device>(&q.result[parent], result);
          if (fetch_add_acq_rel<scope::device>(&q.missing[parent], ~0u) != 1) break;
          result = load_relaxed<scope::device>(&q.result[parent]);
          call = parent;
        }
      }
      fetch_add_release<scope::device>(q.pending, ~0u);
      ticket = fetch_add<scope::device>(q.head, 1u);
      idle.reset();
    } else if (load_acquire<scope::device>(q.pending) == 0) {
      return;
    } else {
      idle();
    }
  }
}

/// Calls of fib(n) that go through the queue.
inline uint64_t calls_above_cut(uint32_t n) {
  std::vector<uint64_t> calls(n + 1, 1);
  for (uint32_t i = cut + 1; i <= n; ++i) calls[i] = 1 + calls[i - 1] + calls[i - 2];
  return calls[n];
}

class program {
 public:
  explicit program(uint32_t n) : n_(n), capacity_(calls_above_cut(n)), memory_(5 * capacity_ + 96) {}

  uint32_t run(unsigned blocks, unsigned threads) {
    uint32_t* const at = memory_.data();
    const auto c = static_cast<uint32_t>(capacity_);
    const queue q{at + 96, at + 96 + c, at + 96 + 2 * c, at + 96 + 3 * c, at + 96 + 4 * c, at, at + 32, at + 64, c};
    gravel::detail::current_backend().zero(at, (5 * capacity_ + 96) * 4);
    const uint32_t one = 1, root[] = {n_, none};
    gravel_copy(q.n, &root[0], 4);
    gravel_copy(q.parent, &root[1], 4);
    gravel_copy(q.ready, &one, 4);
    gravel_copy(q.tail, &one, 4);
    gravel_copy(q.pending, &one, 4);
    gravel::launch_alone(work, {.grid = blocks, .block = threads}, q);
    gravel_synchronize();
    uint32_t result = 0;
    gravel_copy(&result, q.result, 4);
    return result;
  }

 private:
  uint32_t n_;
  uint64_t capacity_;
  gravel::device_array<uint32_t> memory_;
};

}  // namespace fib_threads
