// Strassen's multiplication, as a task graph: sums of quadrants, seven products, sums of these ("Fine-grain Task
// Aggregation and Coordination on GPUs", ISCA 2014, section 6). A sum consists of parts, each of which notifies the
// continuation that waits for all of them. A warp runs each task.
#pragma once
#include <gravel/taskgraph.cuh>
#include "examples/taskgraph/strassen_blocks.cuh"

namespace strassen_tasks {

enum what : uint32_t { multiplying, dividing, combining };
struct part {  // what a warp does at once: the product of a leaf, or a part of the sums before the products of a node,
               // or after them
  static constexpr const char* name = "part";
  static constexpr uint32_t lanes = 32;
  static constexpr bool comes_last = true;
  uint32_t what, level, index, number;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const strassen_matrices& all = here.constants();
    const uint32_t begin = all.part_begin(level, number), end = all.part_begin(level, number + 1);
    if (what == multiplying) all.multiply(level, index);
    else if (what == dividing) all.divide(level, index, begin, end);
    else all.combine(level, index, begin, end);
    here.reply_together(to);
  }
};

struct products {  // are there
  static constexpr const char* name = "products";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = most_parts;
  using children = gravel_types<part>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    here.spawn_each(here.constants().parts(level), [&](uint32_t i) { return part{combining, level, index, i, to}; });
  }
};

struct multiply;
struct factors {  // are there
  static constexpr const char* name = "factors";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = 7;
  using children = gravel_types<multiply, part>;
  using continuations = gravel_types<products>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const;
};

struct multiply {  // what is no leaf
  static constexpr const char* name = "multiply";
  static constexpr uint32_t lanes = 32, spawns = most_parts;
  using children = gravel_types<part>;
  using continuations = gravel_types<factors>;
  uint32_t level, index;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t n = here.constants().parts(level);
    here.fork(factors{level, index, to}, n, n, [&](uint32_t i, auto divided) {
      return part{dividing, level, index, i, divided[0]};
    });
  }
};

template <class Here>
__device__ void factors::operator()(Here& here) const {
  const uint32_t below = level + 1, first = index * 7;
  const products all{level, index, to};
  if (here.constants().is_leaf(below))
    here.fork(all, 7, 7, [&](uint32_t i, auto them) { return part{multiplying, below, first + i, 0, them[0]}; });
  else
    here.fork(all, 7 * here.constants().parts(below), 7, [&](uint32_t i, auto them) {
      return multiply{below, first + i, them[0]};
    });
}

using graph = gravel_task_graph<strassen_matrices, multiply, factors, products, part>;

inline void run(graph& t, bool is_leaf) {
  if (is_leaf) t.push(part{multiplying, 0, 0, 0, t.result<void>()});
  else t.push(multiply{0, 0, t.result<void>()});
  t.run();
}

}  // namespace strassen_tasks
