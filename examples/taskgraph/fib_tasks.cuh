// fib(n) by naive recursion, as a task graph: two calls, and a continuation that adds their results ("Fine-grain Task
// Aggregation and Coordination on GPUs", ISCA 2014, figures 8 and 11).
#pragma once
#include <gravel/taskgraph.cuh>

namespace fib_tasks {

struct sum {
  static constexpr const char* name = "sum";
  static constexpr uint32_t inputs = 2;
  using value = uint32_t;
  gravel_return<uint32_t> to;

  template <class Here>
  __device__ void operator()(Here& here, const uint32_t (&x)[2]) const {
    here.reply(to, x[0] + x[1]);
  }
};

struct fib {
  static constexpr const char* name = "fib";
  static constexpr uint32_t spawns = 2;
  using continuations = gravel_types<sum>;
  uint32_t n;
  gravel_return<uint32_t> to;

  __device__ uint32_t level() const { return n < 2 ? 0 : n - 1; }
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (n < 2) return here.reply(to, n);
    const auto both = here.wait_for(sum{to});
    here.spawn(fib{n - 1, both[0]});
    here.spawn(fib{n - 2, both[1]});
  }
};

using graph = gravel_task_graph<gravel_no_constants, fib, sum>;

inline uint32_t run(graph& t, uint32_t n) {
  t.push(fib{n, t.result<uint32_t>()});
  t.run();
  return t.value(t.result<uint32_t>());
}

}  // namespace fib_tasks
