// The number of ways to place n queens on a board of n x n: an irregular tree whose last rows a warp counts
// ("Fine-grain Task Aggregation and Coordination on GPUs", ISCA 2014, section 7.1). The program runs it as a task graph
// on channels (queens_tasks.cuh), and by hand with persistent threads (bench/rivals/queens_threads.cuh).
#include <algorithm>

#include "bench/rivals/queens_threads.cuh"
#include "examples/taskgraph/queens_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;

constexpr const char* program_name = "queens";

struct queens_options : task_graph_program_options {
  board squares{GRAVEL_CUDA ? 17u : 8u, GRAVEL_CUDA ? 12u : 4u};

  queens_options() { graph.capacity = 8161; }
  void add_options(command_line& line) {
    line.add_option("--n", squares.n, "Rows and columns").range(1u, most_columns).capture_default_str();
    line.add_option("--serial-rows", squares.serial_rows, "Last rows that one warp counts")
        .range(0u, most_columns)
        .capture_default_str();
    add_common_options(line);
  }
  void check(const command_line& line) {
    // Tasks that count the last rows are the deepest. They spawn nothing, so they need no room for children.
    if (line.count("--max-depth") == 0) graph.max_depth = squares.n - std::min(squares.n, squares.serial_rows);
  }
};

bool run(const queens_options& o, fact_list& facts) {
  // Known; those of small boards are counted again here.
  constexpr uint64_t solutions[most_columns + 1] = {
      1,    1,     0,     0,      2,       10,       4,        40,        92,         352,        724,
      2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624, 4968057848, 39029188884};
  const uint64_t expected = o.squares.n <= 11 ? count_below(o.squares, {}) : solutions[o.squares.n];
  facts = {{"program", program_name},
           {"backend", gravel_backend()},
           {"n", uint64_t{o.squares.n}},
           {"serial_rows", uint64_t{o.squares.serial_rows}}};
  bool right = expected == solutions[o.squares.n];
  if (gravel_my_pe() == 0)
    std::printf("%u queens, the last %u rows by one warp, %s backend\n", o.squares.n, o.squares.serial_rows,
                gravel_backend());
  all_succeed(program_name, [&] {
    if (o.has("tasks")) {
      queens_tasks::graph graph(o.squares, o.graph);
      right &= run_and_report(o, "tasks", expected, facts, [&] { return queens_tasks::run(graph); });
      report_counts(graph, facts);
    }
    if (o.has("threads")) {
      queens_threads::program by_hand(o.squares);
      right &=
          run_and_report(o, "threads", expected, facts, [&] { return by_hand.run(o.blocks_by_hand(), o.threads); });
    }
  });
  return end_of_run(right, facts);
}

int main(int argc, char** argv) {
  return run_application({program_name, "Placements of n queens."}, argc, argv, queens_options{}, run);
}
