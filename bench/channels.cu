// Channels and task graphs on one GPU (paper 002, figures 15 and 18, table 5, recast): batches dispatched a second against kernels that the
// host launches; fib and queens by the size of channels, their width, the levels in shared memory and the number of blocks, each beside the
// version by hand. Every run is verified.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/perf/report.hpp"
#include "examples/channels/fib_tasks.cuh"
#include "examples/channels/fib_threads.cuh"
#include "examples/channels/queens_tasks.cuh"
#include "examples/channels/queens_threads.cuh"
#include "examples/program.hpp"
#include "examples/together.hpp"
#include "gravel.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

using namespace gravel;

constexpr const char* program_name = "channels";

/// Passes itself on: nothing but dispatch.
struct relay {
  static constexpr const char* name = "relay";
  static constexpr uint32_t spawns = 1;
  uint32_t left;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (left == 0) return here.add(to, 1);
    here.spawn(relay{left - 1, to});
  }
};
__global__ void nothing(uint64_t* at) {
  if (threadIdx.x == 32) *at = 1;
}

struct timed {
  double seconds;  ///< median
  uint64_t wrong;
};
/// `prepare` is not timed. `work` returns what is to be `expected`.
template <class V, class Prepare, class Work>
timed time_of(int repeat, V expected, Prepare&& prepare, Work&& work) {
  std::vector<double> seconds;
  uint64_t wrong = 0;
  for (int i = 0; i <= repeat; ++i) {  // the first one warms up
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    wrong += work() != expected;
    if (i) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], wrong};
}

struct bench_options {
  uint32_t n = 40;
  board queens{17, 11};
  uint32_t relays = 32736, hops = 255, launches = 20000;
  std::vector<uint32_t> blocks{1, 8, 16, 32, 64, 128};
  uint32_t warps_of_block = GRAVEL_CUDA ? 11 : 1;
  int repeat = 3;
  std::string json;

  void make_short() {
    n = 16;
    queens = {7, 3};
    relays = 64, hops = 15, launches = 50;
    blocks = {1, 2};
    repeat = 1;
  }
};

uint32_t fibonacci(uint32_t n) {
  uint32_t a = 0, b = 1;
  for (uint32_t i = 0; i < n; ++i) b = std::exchange(a, b) + b;
  return a;
}

const char* name_of(gravel_dispatch by) {
  return by == gravel_dispatch::workers ? "workers" : by == gravel_dispatch::schedulers ? "schedulers" : "host, in rounds";
}

void dispatch_rate(const bench_options& o, perf::report& r) {
  r.title("dispatch", "batches a second: tasks that only pass themselves on, against kernels of one warp");
  for (gravel_dispatch by : {gravel_dispatch::workers, gravel_dispatch::schedulers, gravel_dispatch::host}) {
    gravel_task_options how;
    how.max_depth = o.hops;
    how.capacity = std::max(o.relays, 32u);
    how.local_levels = 0;
    how.dispatch = by;
    gravel_task_graph<gravel_no_constants, relay> graph({}, how);
    const std::vector<relay> all(o.relays, relay{o.hops, graph.result<uint64_t>()});
    const auto prepare = [&] {
      graph.set_value(graph.result<uint64_t>(), 0);
      graph.push(all);
    };
    const timed t = time_of(o.repeat, uint64_t{o.relays}, prepare, [&] {
      graph.run();
      return graph.value(graph.result<uint64_t>());
    });
    r.row({{"dispatcher", "dispatcher", std::string(name_of(by))},
           {"batches_per_s", "batches/s", static_cast<double>(graph.counts().batches) / t.seconds},
           {"tasks_per_s", "tasks/s", static_cast<double>(graph.counts().tasks) / t.seconds}},
          {uint64_t{o.relays}, t.wrong});
  }
  auto* word = gravel_malloc<uint64_t>(8);
  const timed t = time_of(
      o.repeat, 0, [] {},
      [&] {
        for (uint32_t i = 0; i < o.launches; ++i) gravel_launch(nothing, 1, 32, word);
        gravel_synchronize();
        return 0;
      });
  gravel_free(word);
  r.row({{"dispatcher", "dispatcher", std::string("kernels of the host")},
         {"batches_per_s", "batches/s", o.launches / t.seconds},
         {"tasks_per_s", "tasks/s", 32.0 * o.launches / t.seconds}},
        {o.launches, t.wrong});
}

/// One row for each way to run `work`, which returns whether the result was right.
template <class Graph, class Run, class... Constants>
void row_of(const bench_options& o, perf::report& r, const char* what, const gravel_task_options& how,
            decltype(std::declval<Run>()(std::declval<Graph&>())) expected, Run run, const Constants&... constants) {
  Graph graph(constants..., how);
  const timed t = time_of(
      o.repeat, expected, [] {}, [&] { return run(graph); });
  const auto& c = graph.counts();
  const double local_share = c.tasks ? static_cast<double>(c.local_tasks) / static_cast<double>(c.tasks) : 0;
  const perf::verified checked{c.tasks, t.wrong};
  r.row({{"what", "what", std::string(what)},
         {"capacity", "capacity", uint64_t{how.capacity}},
         {"width", "width", uint64_t{how.width}},
         {"local_levels", "local", uint64_t{graph.local_levels()}},
         {"blocks", "blocks", uint64_t{how.blocks}},
         {"ms", "ms", t.seconds * 1e3},
         {"million_tasks_per_s", "M tasks/s", static_cast<double>(c.tasks) / t.seconds / 1e6},
         {"batches", "batches", c.batches},
         {"refusals", "refusals", c.refusals},
         {"local_share", "local share", local_share}},
        checked);
}

template <class Graph, class Expected, class Run, class... Constants>
void sweep(const bench_options& o, perf::report& r, const gravel_task_options& usual, uint32_t least, Expected expected, Run run,
           const Constants&... constants) {
  const auto row = [&](const char* what, const gravel_task_options& how) { row_of<Graph>(o, r, what, how, expected, run, constants...); };
  row("usual", usual);
  auto how = usual;
  how.local_levels = how.local_levels ? 0 : ~0u;
  row(how.local_levels ? "with shared memory" : "without shared memory", how);
  for (gravel_dispatch by : {gravel_dispatch::schedulers, gravel_dispatch::host}) {
    how = usual;
    how.dispatch = by;
    row(name_of(by), how);
  }
  for (uint32_t capacity : {least, 2 * least, 4065u, 65505u}) {
    how = usual;
    how.capacity = std::max(capacity, least);
    how.frames = std::max(capacity, 32u);
    row("by capacity", how);
  }
  for (uint32_t width : {1u, 128u, 1024u, 8192u}) {
    how = usual;
    how.width = width;
    row("by width", how);
  }
  for (uint32_t blocks : o.blocks) {
    how = usual;
    how.blocks = blocks;
    how.warps = o.warps_of_block;
    row("by blocks", how);
  }
}

void by_hand(const bench_options& o, perf::report& r, const std::function<bool()>& run, unsigned blocks) {
  const timed t = time_of(
      o.repeat, true, [] {}, run);
  r.row({{"what", "what", std::string("by hand")}, {"blocks", "blocks", uint64_t{blocks}}, {"ms", "ms", t.seconds * 1e3}}, {1, t.wrong});
}

int main(int argc, char** argv) {
  bench_options o;
  if (!GRAVEL_CUDA) o.make_short();
  CLI::App app("Channels and task graphs on one GPU.", program_name);
  app.add_flag_callback(
      "--short", [&] { o.make_short(); }, "Little of everything, whatever the other options say");
  app.add_option("--n", o.n, "Of fib")->check(CLI::Range(2, 47))->capture_default_str();
  app.add_option("--queens", o.queens.n, "Rows and columns")->check(CLI::Range(1u, 17u))->capture_default_str();
  app.add_option("--serial-rows", o.queens.serial_rows, "Last rows of queens that one lane counts")
      ->check(CLI::Range(0u, 17u))
      ->capture_default_str();
  app.add_option("--relays", o.relays, "Tasks that pass themselves on")->check(CLI::Range(1, 1 << 22))->capture_default_str();
  app.add_option("--hops", o.hops, "How often they do")->check(CLI::Range(1, 4095))->capture_default_str();
  app.add_option("--launches", o.launches, "Kernels that are launched for comparison")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--blocks", o.blocks, "Numbers of blocks, each large enough for a multiprocessor")->delimiter(',')->capture_default_str();
  app.add_option("--warps-of-block", o.warps_of_block, "Workers of such a block")->check(CLI::Range(1, 32))->capture_default_str();
  app.add_option("--repeat", o.repeat, "Runs, of which the median is told")->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());

  dispatch_rate(o, r);

  gravel_task_options usual;
  usual.max_depth = 47;
  usual.capacity = usual.frames = 32737;
  r.title("fib", "fib(" + std::to_string(o.n) + "), a join for each addition");
  sweep<fib_tasks::graph>(
      o, r, usual, 64, fibonacci(o.n), [&](fib_tasks::graph& g) { return fib_tasks::run(g, o.n); }, gravel_no_constants{});
  {
    fib_threads::program program(o.n);
    const unsigned blocks = blocks_to_fill_device(), threads = GRAVEL_CUDA ? 256 : 32;
    by_hand(
        o, r, [&] { return program.run(blocks, threads) == fibonacci(o.n); }, blocks);
  }

  constexpr uint64_t solutions[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104};
  usual.max_depth = o.queens.n - std::min(o.queens.n, o.queens.serial_rows);
  usual.capacity = usual.frames = 65505;
  usual.local_levels = 0;
  r.title("queens", std::to_string(o.queens.n) + " queens, the last " + std::to_string(o.queens.serial_rows) + " rows by one lane");
  sweep<queens_tasks::graph>(
      o, r, usual, 32 * most_columns, solutions[o.queens.n], [&](queens_tasks::graph& g) { return queens_tasks::run(g); }, o.queens);
  {
    queens_threads::program program(o.queens);
    const unsigned blocks = blocks_to_fill_device(), threads = GRAVEL_CUDA ? 256 : 32;
    by_hand(
        o, r, [&] { return program.run(blocks, threads) == solutions[o.queens.n]; }, blocks);
  }
  r.finish();
  return finish(program_name, gravel_min_all(uint64_t{r.right()}) != 0);
}
