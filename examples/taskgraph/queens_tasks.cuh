// Queens on a board of n x n, as a task graph: a task for each placement of some rows, and a continuation that adds up
// the results of the rows below. A warp runs each task, and counts the last rows as a whole.
#pragma once
#include <gravel/taskgraph.cuh>
#include "examples/taskgraph/queens_rows.hpp"

namespace queens_tasks {

struct tally {
  static constexpr const char* name = "tally";
  static constexpr uint32_t inputs = 1;
  using value = uint64_t;
  gravel_return<uint64_t> to;

  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&found)[1]) const {
    here.add(to, found[0]);
  }
};

struct queens {
  static constexpr const char* name = "queens";
  static constexpr uint32_t lanes = 32, spawns = most_columns;
  using continuations = gravel_types<tally>;
  placement rows;
  gravel_return<uint64_t> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const board& b = here.constants();
    const uint32_t free = rows.free(b), bit = 1u << here.rank();
    if (rows.left(b) <= b.serial_rows || free == 0) {
      const uint64_t found = count_together(b, rows);
      if (here.rank() == 0) here.add(to, found);
    } else {
      const auto all = here.wait_together(tally{to}, placement::count(free));
      here.spawn_together((free & bit) != 0, queens{rows.with(bit), all[0]});
    }
  }
};

using graph = gravel_task_graph<board, queens, tally>;

inline uint64_t run(graph& t) {
  t.set_value(t.result<uint64_t>(), 0);
  t.push(queens{{}, t.result<uint64_t>()});
  t.run();
  return t.value(t.result<uint64_t>());
}

}  // namespace queens_tasks
