// fib(n) by naive recursion, where each call is a task and each addition a join: it measures little but the cost of a
// task ("Fine-grain Task Aggregation and Coordination on GPUs", ISCA 2014, section 7.1). The program runs it as a task
// graph on channels (fib_tasks.cuh), and by hand with persistent threads (bench/rivals/fib_threads.cuh).
#include <optional>

#include "bench/rivals/fib_threads.cuh"
#include "examples/taskgraph/fib_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;

constexpr const char* program_name = "fib";

uint32_t serial(uint32_t n) {
  uint32_t a = 0, b = 1;
  for (uint32_t i = 0; i < n; ++i) b = std::exchange(a, b) + b;
  return a;
}

struct fib_options : task_graph_program_options {
  uint32_t n = GRAVEL_CUDA ? 40 : 22;

  fib_options() {
    graph.max_depth = 47;
    graph.capacity = 32737;
  }
  void add_options(command_line& line) {
    line.add_option("--n", n, "Which").range(0, 47).capture_default_str();
    add_common_options(line);
  }
};

bool run(const fib_options& o, fact_list& facts) {
  facts = {{"program", program_name}, {"backend", gravel_backend()}, {"n", uint64_t{o.n}}};
  bool right = true;
  if (gravel_my_pe() == 0) std::printf("fib(%u), %s backend\n", o.n, gravel_backend());
  all_succeed(program_name, [&] {
    if (o.has("tasks")) {
      fib_tasks::graph graph({}, o.graph);
      right &= run_and_report(o, "tasks", serial(o.n), facts, [&] { return fib_tasks::run(graph, o.n); });
      report_counts(graph, facts);
    }
    if (o.has("threads")) {
      fib_threads::program by_hand(o.n);
      right &=
          run_and_report(o, "threads", serial(o.n), facts, [&] { return by_hand.run(o.blocks_by_hand(), o.threads); });
    }
  });
  return end_of_run(right, facts);
}

int main(int argc, char** argv) {
  return run_application({program_name, "Fibonacci numbers by naive recursion, each call a task."}, argc, argv,
                         fib_options{}, run);
}
