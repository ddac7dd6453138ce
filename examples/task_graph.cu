// A task graph: the Fibonacci numbers by recursion, where every call is a task and the addition waits for two of them.
#include <cstdio>

#include <gravel/gravel.cuh>
#include <gravel/taskgraph.cuh>

struct sum {  // a continuation: it runs when its two inputs have come
  static constexpr const char* name = "sum";
  static constexpr uint32_t inputs = 2;
  using value = uint32_t;
  gravel_return<uint32_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint32_t (&x)[2]) const {
    here.reply(to, x[0] + x[1]);
  }
};

struct fibonacci {  // a task
  static constexpr const char* name = "fibonacci";
  static constexpr uint32_t spawns = 2;  // at most
  using continuations = gravel_types<sum>;
  uint32_t n;
  gravel_return<uint32_t> to;                                      // where its result goes
  __device__ uint32_t level() const { return n < 2 ? 0 : n - 1; }  // lower in the tasks that it spawns
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (n < 2) return here.reply(to, n);
    const auto both = here.wait_for(sum{to});
    here.spawn(fibonacci{n - 1, both[0]});
    here.spawn(fibonacci{n - 2, both[1]});
  }
};

int main() {
  gravel_init<>();
  uint32_t result = 0;
  {
    // Memory is bounded: 993 tasks and 993 frames at each of 20 depths.
    gravel_task_graph<gravel_no_constants, fibonacci, sum> graph({}, {.max_depth = 20, .capacity = 993, .frames = 993});
    graph.push(fibonacci{20, graph.result<uint32_t>()});
    graph.run();  // until no task is left
    result = graph.value(graph.result<uint32_t>());
  }
  if (gravel_my_pe() == 0) std::printf("fibonacci(20) = %u\n", result);
  gravel_finalize();
  return result == 6765 ? 0 : 1;
}
