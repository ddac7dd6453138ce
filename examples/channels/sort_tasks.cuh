// Merge sort with parallel merges, as a task graph: four quarters, two merges of two of them, one of both halves (paper 002, section 6,
// after Cilk's). All types but two are run by a warp each, which spawns with all lanes.
#pragma once
#include "examples/channels/sort_runs.cuh"
#include "lib/channel/task_graph.cuh"

namespace sort_tasks {

struct merged {  // in pieces, which are all there
  static constexpr const char* name = "merged";
  static constexpr uint32_t inputs = 0;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    here.give(to);
  }
};

struct merge {  // [at, at + na) with the nb keys behind it: what comes out as number `begin` to `end`
  static constexpr const char* name = "merge";
  static constexpr uint32_t lanes = 32, spawns = 32;
  using continuations = gravel_types<merged>;
  uint32_t at, na, nb, begin, end, from_b;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const sort_keys& keys = here.constants();
    const uint32_t n = end - begin;
    if (n <= keys.piece) {
      const uint32_t* const from = (from_b ? keys.b : keys.a) + at;
      merge_piece(from, na, from + na, nb, (from_b ? keys.a : keys.b) + at, begin, end);
      __syncwarp();
      return here.rank() == 0 ? here.give(to) : void();
    }
    const uint32_t each = ((n + 31) / 32 + keys.piece - 1) / keys.piece * keys.piece, first = begin + here.rank() * each;
    const auto all = here.wait_together(merged{to}, (n + each - 1) / each);
    here.spawn_together(first < end, merge{at, na, nb, first, first + each < end ? first + each : end, from_b, all[0]});
  }
};

struct halves {  // are sorted
  static constexpr const char* name = "halves";
  static constexpr uint32_t inputs = 0, spawns = 1;
  using children = gravel_types<merge>;
  uint32_t at, n;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t half = 2 * ((n + 3) / 4);
    here.spawn(merge{at, half, n - half, 0, n, 1, to});
  }
};

struct quarters {  // are sorted
  static constexpr const char* name = "quarters";
  static constexpr uint32_t inputs = 0, spawns = 2;
  using children = gravel_types<merge>;
  using continuations = gravel_types<halves>;
  uint32_t at, n;
  gravel_return<void> to;

  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t quarter = (n + 3) / 4, rest = n - 2 * quarter;
    const auto both = here.wait_for(halves{at, n, to}, 2);
    here.spawn(merge{at, quarter, quarter, 0, 2 * quarter, 0, both[0]});
    here.spawn(merge{at + 2 * quarter, quarter, rest - quarter, 0, rest, 0, both[0]});
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
      __syncwarp();
      return here.rank() == 0 ? here.give(to) : void();
    }
    const uint32_t quarter = (n + 3) / 4, first = here.rank() * quarter;
    const auto all = here.wait_together(quarters{at, n, to}, 4);
    here.spawn_together(here.rank() < 4, sort{at + first, here.rank() == 3 ? n - first : quarter, all[0]});
  }
};

using graph = gravel_task_graph<sort_keys, sort, quarters, halves, merge, merged>;

inline void run(graph& t, uint32_t n) {
  t.push(sort{0, n, t.result<void>()});
  t.run();
}

}  // namespace sort_tasks
