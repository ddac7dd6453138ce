// Merge sort with parallel merges, as a task graph: four quarters, two merges of two quarters, one merge of both halves
// ("Fine-grain Task Aggregation and Coordination on GPUs", ISCA 2014, section 6, after Cilk's). A merge consists of
// pieces, each of which notifies the continuation that waits for all of them. A warp runs each task.
#pragma once
#include <gravel/taskgraph.cuh>
#include "examples/taskgraph/sort_runs.cuh"

namespace sort_tasks {

struct piece {  // number `number` of the merge of [at, at + na) with the nb keys behind it
  static constexpr const char* name = "piece";
  static constexpr uint32_t lanes = 32;
  uint32_t at, na, nb, number, from_b;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const sort_keys& keys = here.constants();
    const uint32_t *const from = (from_b ? keys.b : keys.a) + at, n = na + nb, pieces = keys.pieces(n);
    const uint32_t each = (n + pieces - 1) / pieces, begin = number * each < n ? number * each : n;
    merge_piece(from, na, from + na, nb, (from_b ? keys.a : keys.b) + at, begin, n - begin < each ? n : begin + each);
    here.reply_together(to);
  }
};

struct halves {  // are sorted
  static constexpr const char* name = "halves";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = most_pieces;
  using children = gravel_types<piece>;
  uint32_t at, n;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t half = 2 * ((n + 3) / 4);
    here.spawn_each(here.constants().pieces(n), [&](uint32_t i) { return piece{at, half, n - half, i, 1, to}; });
  }
};

struct quarters {  // are sorted
  static constexpr const char* name = "quarters";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = 2 * most_pieces;
  using children = gravel_types<piece>;
  using continuations = gravel_types<halves>;
  uint32_t at, n;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t quarter = (n + 3) / 4, half = 2 * quarter, first = here.constants().pieces(half);
    const uint32_t all = first + here.constants().pieces(n - half);
    here.fork(halves{at, n, to}, all, all, [&](uint32_t i, auto both) {
      return i < first ? piece{at, quarter, quarter, i, 0, both[0]}
                       : piece{at + half, quarter, n - half - quarter, i - first, 0, both[0]};
    });
  }
};

struct sort {
  static constexpr const char* name = "sort";
  static constexpr uint32_t lanes = 32, spawns = 4;
  using continuations = gravel_types<quarters>;
  uint32_t at, n;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    if (n <= sorted_at_once) {
      sort_at_once(here.constants().a + at, n);
      return here.reply_together(to);
    }
    const uint32_t quarter = (n + 3) / 4, last = n - 3 * quarter;
    const uint32_t results = 3 * here.constants().results(quarter) + here.constants().results(last);
    here.fork(quarters{at, n, to}, results, 4, [&](uint32_t i, auto all) {
      return sort{at + i * quarter, i < 3 ? quarter : last, all[0]};
    });
  }
};

using graph = gravel_task_graph<sort_keys, sort, quarters, halves, piece>;

inline void run(graph& t, uint32_t n) {
  t.push(sort{0, n, t.result<void>()});
  t.run();
}

}  // namespace sort_tasks
