// Strassen's multiplication, as a task graph: sums of quadrants, seven products, sums of these (paper 002, section 6). Sums go in pieces, and
// every task but one is run by a warp.
#pragma once
#include "examples/channels/strassen_blocks.cuh"
#include "lib/channel/task_graph.cuh"

namespace strassen_tasks {

struct summed {  // all pieces are there
  static constexpr const char* name = "summed";
  static constexpr uint32_t inputs = 0;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    here.give(to);
  }
};

struct sums {  // before the products of a node, or after them
  static constexpr const char* name = "sums";
  static constexpr uint32_t lanes = 32, spawns = 32;
  using continuations = gravel_types<summed>;
  uint32_t level, index, begin, end, after;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const strassen_matrices& all = here.constants();
    const uint32_t n = end - begin;
    if (n <= all.piece) {
      if (after) all.combine(level, index, begin, end);
      else all.divide(level, index, begin, end);
      __syncwarp();
      return here.rank() == 0 ? here.give(to) : void();
    }
    const uint32_t each = ((n + 31) / 32 + all.piece - 1) / all.piece * all.piece, first = begin + here.rank() * each;
    const auto pieces = here.wait_together(summed{to}, (n + each - 1) / each);
    here.spawn_together(first < end, sums{level, index, first, first + each < end ? first + each : end, after, pieces[0]});
  }
};

struct products {  // are there
  static constexpr const char* name = "products";
  static constexpr uint32_t inputs = 0, spawns = 1;
  using children = gravel_types<sums>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    here.spawn(sums{level, index, 0, here.constants().quadrant(level), 1, to});
  }
};

struct multiply;
struct factors {  // are there
  static constexpr const char* name = "factors";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = 7;
  using children = gravel_types<multiply>;
  using continuations = gravel_types<products>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const;
};

struct multiply {
  static constexpr const char* name = "multiply";
  static constexpr uint32_t lanes = 32, spawns = 1;
  using children = gravel_types<sums>;
  using continuations = gravel_types<factors>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const strassen_matrices& all = here.constants();
    if (all.is_leaf(level)) all.multiply(level, index);
    __syncwarp();
    if (here.rank() != 0) return;
    if (all.is_leaf(level)) return here.give(to);
    const auto divided = here.wait_for(factors{level, index, to}, 1);
    here.spawn(sums{level, index, 0, all.quadrant(level), 0, divided[0]});
  }
};

template <class Here>
__device__ void factors::operator()(Here& here) const {
  const auto all = here.wait_together(products{level, index, to}, 7);
  here.spawn_together(here.rank() < 7, multiply{level + 1, index * 7 + here.rank(), all[0]});
}

using graph = gravel_task_graph<strassen_matrices, multiply, factors, products, sums, summed>;

inline void run(graph& t) {
  t.push(multiply{0, 0, t.result<void>()});
  t.run();
}

}  // namespace strassen_tasks
