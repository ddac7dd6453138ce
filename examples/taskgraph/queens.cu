// How many ways there are to place n queens on a board of n x n: an irregular tree whose last rows a warp counts (paper
// 002, section 7.1). As a task graph on channels (queens_tasks.cuh), and by hand with threads that stay
// (queens_threads.cuh).
#include <algorithm>

#include "bench/rivals/queens_threads.cuh"
#include "examples/taskgraph/queens_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;
using namespace gravel::detail;

constexpr const char* program_name = "queens";

int main(int argc, char** argv) {
  // Known; those of small boards are counted again here.
  constexpr uint64_t solutions[most_columns + 1] = {
      1,    1,     0,     0,      2,       10,       4,        40,        92,         352,        724,
      2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624, 4968057848, 39029188884};
  board b{GRAVEL_CUDA ? 17u : 8u, GRAVEL_CUDA ? 12u : 4u};
  channel_program_options o;
  o.graph.capacity = 8161;
  command_line app("Placements of n queens.", program_name);
  app.add_option("--n", b.n, "Rows and columns").range(1u, most_columns).capture_default_str();
  app.add_option("--serial-rows", b.serial_rows, "Last rows that one warp counts")
      .range(0u, most_columns)
      .capture_default_str();
  o.add_to(app);
  parse_or_exit(app, argc, argv, [&] {
    if (!o.json.empty()) need_writable(o.json);
    // Those that count the last rows are the deepest: they spawn nothing, and no room need be promised for what they
    // might.
    if (app.count("--max-depth") == 0) o.graph.max_depth = b.n - std::min(b.n, b.serial_rows);
  });

  gravel_init<>();
  const uint64_t expected = b.n <= 11 ? count_below(b, {}) : solutions[b.n];
  fact_list facts{{"program", program_name},
                  {"backend", gravel_backend()},
                  {"n", uint64_t{b.n}},
                  {"serial_rows", uint64_t{b.serial_rows}}};
  bool right = expected == solutions[b.n];
  if (gravel_my_pe() == 0)
    std::printf("%u queens, the last %u rows by one warp, %s backend\n", b.n, b.serial_rows, gravel_backend());
  all_succeed(program_name, [&] {
    if (o.has("tasks")) {
      queens_tasks::graph graph(b, o.graph);
      right &= run_and_report(o, "tasks", expected, facts, [&] { return queens_tasks::run(graph); });
      report_counts(graph, facts);
    }
    if (o.has("threads")) {
      queens_threads::program by_hand(b);
      right &=
          run_and_report(o, "threads", expected, facts, [&] { return by_hand.run(o.blocks_by_hand(), o.threads); });
    }
  });
  return end_of_program(program_name, o, right, facts);
}
