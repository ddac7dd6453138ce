// Task graphs of all PEs together (lib/taskgraph/shared_graph.cuh): PE 0 begins, and idle PEs import tasks of others.
// The program runs fib and queens as on one PE, and random trees, and compares each result with a known one.
#include <algorithm>

#include <gravel/taskgraph.cuh>
#include "examples/common/mix.hpp"
#include "examples/taskgraph/fib_tasks.cuh"
#include "examples/taskgraph/queens_tasks.cuh"
#include "examples/taskgraph/task_graph_program.hpp"

using namespace app;

constexpr const char* program_name = "across";

// ---- trees whose shape is a function of a number: node `id` with `fuel` has up to three children

GRAVEL_BOTH uint32_t children_of(uint32_t id, uint32_t fuel) {
  return fuel == 0 ? 0 : static_cast<uint32_t>(mix(id) >> 40) % 4;
}
GRAVEL_BOTH uint32_t child_of(uint32_t id, uint32_t i) { return static_cast<uint32_t>(mix(id * 4ull + i + 1)); }
uint64_t nodes_below(uint32_t id, uint32_t fuel) {
  uint64_t sum = 1;
  for (uint32_t i = 0; i < children_of(id, fuel); ++i) sum += nodes_below(child_of(id, i), fuel - 1);
  return sum;
}

struct tree_sum {
  static constexpr const char* name = "tree sum";
  static constexpr uint32_t inputs = 2;
  using value = uint64_t;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[2]) const {
    here.add(to, x[0] + x[1] + 1);
  }
};
struct tree_node {
  static constexpr const char* name = "tree node";
  static constexpr uint32_t spawns = 3;
  using continuations = gravel_types<tree_sum>;
  uint32_t id, fuel;
  gravel_return<uint64_t> to;
  __device__ uint32_t level() const { return fuel; }
  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t n = children_of(id, fuel);
    if (n == 0) return here.add(to, 1);
    const auto all = here.wait_for(tree_sum{to}, n);
    for (uint32_t i = 0; i < n; ++i) here.spawn(tree_node{child_of(id, i), fuel - 1, all[i % 2]});
  }
};

using fib_graph = gravel_shared_task_graph<gravel_no_constants, fib_tasks::fib, fib_tasks::sum>;
using queens_graph = gravel_shared_task_graph<board, queens_tasks::queens, queens_tasks::tally>;
using tree_graph = gravel_shared_task_graph<gravel_no_constants, tree_node, tree_sum>;

struct across_options : task_graph_program_options {
  std::string what = "fib", from = "first";
  uint32_t n = 0, serial_rows = GRAVEL_CUDA ? 12 : 3, trees = 40;
  gravel_shared_options shared;

  across_options() {
    graph.max_depth = 47;
    graph.capacity = GRAVEL_CUDA ? 32737 : 993;
    graph.frames = GRAVEL_CUDA ? 0 : 993;
  }
  void add_options(command_line& line) {
    line.add_option("what", what, "fib, queens or trees").one_of({"fib", "queens", "trees"}).capture_default_str();
    line.add_option("--n", n, "Of fib, of queens (up to 17), or the most levels of a tree; 0: by what").range(0u, 47u);
    line.add_option("--serial-rows", serial_rows, "Last rows of queens that one warp counts")
        .range(0u, 17u)
        .capture_default_str();
    line.add_option("--trees", trees, "How many").range(1u, 1u << 20).capture_default_str();
    line.add_option("--from", from, "Where they begin: at the first PE, or dealt to all")
        .one_of({"first", "all"})
        .capture_default_str();
    line.add_option("--imported-tasks", shared.imported_tasks, "Tasks of other PEs that may be at a PE")
        .capture_default_str();
    add_common_options(line);
  }
  void check(const command_line& line) {
    if (n == 0) {
      n = 12;
      if (what == "fib") n = GRAVEL_CUDA ? 40 : 18;
      if (what == "queens") n = GRAVEL_CUDA ? 17 : 8;
    }
    if (what == "queens" && n > 17) fail_text("--n: up to 17 queens");
    if (what != "queens") return;
    // As in `queens`: tasks that count the last rows are the deepest. They need no room for what they might spawn.
    if (line.count("--max-depth") == 0) graph.max_depth = n - std::min(n, serial_rows);
    // The more tasks wait here, the fewer of them go to other PEs.
    if (line.count("--capacity") == 0 && GRAVEL_CUDA) graph.capacity = 8161;
  }
};

/// `roots` begin where they are to begin; the results of all PEs together must be `expected`.
template <class V, class Graph, class Root>
bool run_across(const across_options& o, Graph& graph, const std::vector<Root>& roots, uint64_t expected,
                fact_list& facts) {
  const auto me = static_cast<size_t>(gravel_my_pe()), n_pes = static_cast<size_t>(gravel_n_pes());
  const auto result = graph.template result<V>();
  const bool right = run_and_report(o, "tasks", expected, facts, [&] {
    std::vector<Root> mine;
    for (size_t i = 0; i < roots.size(); ++i)
      if (o.from == "first" ? me == 0 : i % n_pes == me) {
        mine.push_back(roots[i]);
        mine.back().to = result;
      }
    graph.set_value(result, 0);
    graph.push(mine);
    graph.run();
    return gravel_sum_all(uint64_t{graph.value(result)});
  });
  report_counts(graph, facts);
  const uint64_t sent = gravel_sum_all(graph.shared().sent), taken = gravel_sum_all(graph.shared().taken),
                 requested = gravel_sum_all(graph.shared().requested), at_once = gravel_max_all(graph.shared().most),
                 busy = gravel_sum_all(uint64_t{graph.counts().tasks != 0});
  const uint64_t least = gravel_min_all(graph.counts().tasks), most = gravel_max_all(graph.counts().tasks);
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  if (me == 0)
    std::printf(
        "tasks that travelled %llu, up to %llu at once, requested for %llu times, PEs that had some %llu, each between "
        "%llu and %llu\n",
        number(sent), number(at_once), number(requested), number(busy), number(least), number(most));
  facts.insert(facts.end(), {{"travelled", sent},
                             {"requested", requested},
                             {"pes_with_tasks", busy},
                             {"least_tasks", least},
                             {"most_tasks", most}});
  return right && sent == taken;
}

bool run_what(const across_options& o, fact_list& facts) {
  if (o.what == "fib") {
    uint32_t f0 = 0, f1 = 1;
    for (uint32_t i = 0; i < o.n; ++i) f1 = std::exchange(f0, f1) + f1;
    fib_graph graph({}, o.graph, o.shared);
    return run_across<uint32_t>(o, graph, std::vector<fib_tasks::fib>{{o.n, {}}}, f0, facts);
  }
  if (o.what == "queens") {
    const board b{o.n, o.serial_rows};
    constexpr uint64_t solutions[] = {1,   1,   0,    0,     2,     10,     4,       40,       92,
                                      352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104};
    queens_graph graph(b, o.graph, o.shared);
    return run_across<uint64_t>(o, graph, std::vector<queens_tasks::queens>{{{}, {}}}, solutions[o.n], facts);
  }
  std::vector<tree_node> roots;
  uint64_t expected = 0;
  for (uint32_t i = 0; i < o.trees; ++i) {
    roots.push_back({i, o.n, {}});
    expected += nodes_below(i, o.n);
  }
  tree_graph graph({}, o.graph, o.shared);
  return run_across<uint64_t>(o, graph, roots, expected, facts);
}

bool run(const across_options& o, fact_list& facts) {
  facts = {{"program", program_name},
           {"backend", gravel_backend()},
           {"what", o.what},
           {"n", uint64_t{o.n}},
           {"pes", static_cast<uint64_t>(gravel_n_pes())}};
  if (gravel_my_pe() == 0)
    std::printf("%s(%u) across %d PEs, %s backend\n", o.what.c_str(), o.n, gravel_n_pes(), gravel_backend());
  bool right = false;
  try {
    right = run_what(o, facts);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: PE %d: %s\n", program_name, gravel_my_pe(), e.what());
  }
  return end_of_run(right, facts);
}

int main(int argc, char** argv) {
  return run_application(
      {program_name, "Task graphs of all PEs together: whoever has nothing to do gets tasks of others."}, argc, argv,
      across_options{}, run);
}
