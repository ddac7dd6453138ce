// Channels and task graphs on one GPU: figures 15, 17 and 18 and table 5 of "Fine-grain Task Aggregation and
// Coordination on GPUs" (ISCA 2014), recast. Elements through one channel, by their layout and by the scope that
// reserves; batches dispatched a second, beside kernels that the host launches; fib and queens by the size of channels,
// their width, the levels in shared memory and the number of blocks, each beside the version by hand. Every run is
// verified. bench/channels_figures makes the paper's figures of this and of the examples.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "bench/perf/report.hpp"
#include "bench/rivals/fib_threads.cuh"
#include "bench/rivals/queens_threads.cuh"
#include "examples/common/program.hpp"
#include "examples/common/together.hpp"
#include "examples/taskgraph/fib_tasks.cuh"
#include "examples/taskgraph/queens_tasks.cuh"
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"

using namespace app;
using namespace gravel_bench;
using namespace gravel::detail;

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

/// The elements of the channel of the layouts.
struct packet {
  uint32_t word[8];
};
/// Who reserves together.
enum class reserver : uint32_t { warp, block, lane };
/// The lanes of a group each put one element into the channel, and the group takes as many, `rounds` times. With a
/// `block` the block reserves. The elements lie in the channel's columns, or, if `stride` is not 0, as records so many
/// words apart. *in and *out: sums of what was put and taken. If `rounds` is 0: takes until nothing is left.
template <class Group>
__device__ void pass(const Group& group, channel_block* block, const channel<packet>& c, uint32_t* records,
                     uint32_t stride, uint32_t rounds, uint64_t* in, uint64_t* out) {
  const uint32_t lane = threadIdx.x % 32;
  uint64_t put = 0, taken = 0;
  for (uint32_t round = 0; rounds == 0 ? group.from_leader(c.waiting()) != 0 : round < rounds; ++round) {
    channel_reservation r;
    if (block) r = block->reserve(c, 1);
    else r = c.reserve(group, rounds == 0 ? 0 : 1);
    if (r.granted && r.total != 0) {
      packet p;
      for (uint32_t w = 0; w < 8; ++w) put += p.word[w] = (blockIdx.x + round) * 64 + lane + w;
      if (stride == 0) c.write(r.mine, p);
      else
        for (uint32_t w = 0; w < 8; ++w) records[c.space.row(r.mine) * stride + w] = p.word[w];
    }
    if (block) block->commit(c, r);
    else c.commit(group, r);
    const channel_batch b = c.take(group, group.size());
    if (group.rank() < b.count) {
      const uint64_t ticket = b.first + group.rank();
      packet p;
      if (stride == 0) p = c.read(ticket);
      else
        for (uint32_t w = 0; w < 8; ++w) p.word[w] = records[c.space.row(ticket) * stride + w];
      for (uint32_t w = 0; w < 8; ++w) taken += p.word[w];
    }
    c.free(group, b);
    group.sync();
  }
  fetch_add<scope::device>(in, put);
  fetch_add<scope::device>(out, taken);
}
/// Each warp, each block or each lane alone does so.
__global__ void pass_through(channel<packet> c, uint32_t* records, uint32_t stride, reserver by, uint32_t rounds,
                             uint64_t* in, uint64_t* out) {
  __shared__ channel_block block;
  if (by == reserver::lane) pass(lone_lane{}, nullptr, c, records, stride, rounds, in, out);
  else pass(lane_group::of(~0u), by == reserver::block ? &block : nullptr, c, records, stride, rounds, in, out);
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
  board queens{17, 12};
  uint32_t relays = 32736, hops = 255, launches = 20000;
  uint32_t rounds = 200;
  std::vector<std::string> parts{"layout", "dispatch", "fib", "queens"};
  std::vector<uint32_t> blocks{1, 8, 16, 32, 64, 128};
  uint32_t warps_of_block = GRAVEL_CUDA ? 11 : 1;
  int repeat = 3;
  std::string json;

  bool has(const char* part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
  void make_short() {
    n = 16;
    queens = {7, 3};
    relays = 64;
    hops = 15;
    launches = 50;
    rounds = 20;
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
  if (by == gravel_dispatch::workers) return "workers";
  return by == gravel_dispatch::schedulers ? "schedulers" : "host, in rounds";
}

void layouts(const bench_options& o, perf::report& r) {
  r.title("layout",
          "elements of 32 bytes through one channel, in and out, by their layout and by the scope that reserves");
  const uint32_t blocks = GRAVEL_CUDA ? blocks_to_fill_device() : 2, threads = GRAVEL_CUDA ? 256 : 64,
                 capacity = blocks * threads * 4;
  struct way {
    const char* name;
    uint32_t stride;
    reserver by;
  };
  auto& device = current_backend();
  const uint64_t channel_bytes = channel<packet>::bytes(capacity);
  auto* const memory = static_cast<char*>(device.allocate(channel_bytes, "a channel"));
  auto* const records = static_cast<uint32_t*>(
      device.allocate(uint64_t{slots<>::chunks_for(capacity)} * chunk_tickets * 128, "records of a channel"));
  auto* const sums = gravel_malloc<uint64_t>(16);
  for (const way& w :
       {way{"columns, a warp at once", 0, reserver::warp}, way{"columns, a block at once", 0, reserver::block},
        way{"records, a warp at once", 8, reserver::warp},
        way{"records on a line each, a warp at once", 32, reserver::warp},
        way{"columns, each lane alone", 0, reserver::lane}}) {
    const channel<packet> c = channel<packet>::in(memory, capacity);
    const auto prepare = [&] {
      device.zero(memory, channel_bytes);
      gravel_copy(&c.state().room, &capacity, sizeof(capacity));
      const uint64_t zero[2] = {};
      gravel_copy(sums, zero, sizeof(zero));
    };
    const timed t = time_of(o.repeat, true, prepare, [&] {
      // Lanes alone ask 32 times as often.
      const uint32_t rounds = w.by == reserver::lane ? std::max(o.rounds / 32, 1u) : o.rounds;
      gravel_launch(pass_through, blocks, threads, c, records, w.stride, w.by, rounds, sums, sums + 1);
      gravel_synchronize();
      return true;
    });
    uint64_t elements = 0;  // some find no room, and take only
    gravel_copy(&elements, &c.state().tail, sizeof(elements));
    gravel_launch(pass_through, 1, 32, c, records, w.stride, reserver::warp, 0u, sums, sums + 1);
    gravel_synchronize();
    uint64_t both[2];
    gravel_copy(both, sums, sizeof(both));
    r.row({{"layout", "layout", std::string(w.name)},
           {"million_elements_per_s", "M elements/s", static_cast<double>(elements) / t.seconds / 1e6}},
          {elements, both[0] != both[1]});
  }
  gravel_free(sums);
  device.release(records);
  device.release(memory);
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
      gravel_synchronize();
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
         {"local_share", "local share", local_share},
         {"tasks_per_batch", "tasks/batch",
          c.batches ? static_cast<double>(c.tasks) / static_cast<double>(c.batches) : 0}},
        checked);
}

template <class Graph, class Expected, class Run, class... Constants>
void sweep(const bench_options& o, perf::report& r, const gravel_task_options& usual, uint32_t least, Expected expected,
           Run run, const Constants&... constants) {
  const auto row = [&](const char* what, const gravel_task_options& how) {
    row_of<Graph>(o, r, what, how, expected, run, constants...);
  };
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
  r.row(
      {{"what", "what", std::string("by hand")}, {"blocks", "blocks", uint64_t{blocks}}, {"ms", "ms", t.seconds * 1e3}},
      {1, t.wrong});
}

int main(int argc, char** argv) {
  bench_options o;
  if (!GRAVEL_CUDA) o.make_short();
  command_line app("Channels and task graphs on one GPU.", program_name);
  app.add_flag(
      "--short", [&] { o.make_short(); }, "Little of everything, whatever the other options say");
  app.add_option("--n", o.n, "Of fib").range(2, 47).capture_default_str();
  app.add_option("--queens", o.queens.n, "Rows and columns").range(1u, 17u).capture_default_str();
  app.add_option("--serial-rows", o.queens.serial_rows, "Last rows of queens that one warp counts")
      .range(0u, 17u)
      .capture_default_str();
  app.add_option("--relays", o.relays, "Tasks that pass themselves on").range(1, 1 << 22).capture_default_str();
  app.add_option("--hops", o.hops, "How often they do").range(1, 4095).capture_default_str();
  app.add_option("--launches", o.launches, "Kernels that are launched for comparison")
      .range(1, 1 << 24)
      .capture_default_str();
  app.add_option("--blocks", o.blocks, "Numbers of blocks, each large enough for a multiprocessor")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--warps-of-block", o.warps_of_block, "Workers of such a block").range(1, 32).capture_default_str();
  app.add_option("--rounds", o.rounds, "Elements of each lane that go through the channel of the layouts")
      .range(1, 1 << 24)
      .capture_default_str();
  app.add_option("--parts", o.parts, "Of layout, dispatch, fib, queens")
      .delimiter(',')
      .one_of({"layout", "dispatch", "fib", "queens"});
  app.add_option("--repeat", o.repeat, "Number of runs; the median is printed").range(1, 100).capture_default_str();
  app.add_option("--json", o.json, "File for the results");
  parse_or_exit(app, argc, argv, [&] {
    if (!o.json.empty()) need_writable(o.json);
  });
  gravel_init<>();
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  perf::report r(gravel_my_pe() == 0, command, o.json);
  r.fact("hardware", current_backend().describe());

  if (o.has("layout")) layouts(o, r);
  if (o.has("dispatch")) dispatch_rate(o, r);

  gravel_task_options usual;
  usual.max_depth = 47;
  usual.capacity = 32737;
  if (o.has("fib")) {
    r.title("fib", "fib(" + std::to_string(o.n) + "), a join for each addition");
    sweep<fib_tasks::graph>(
        o, r, usual, 64, fibonacci(o.n), [&](fib_tasks::graph& g) { return fib_tasks::run(g, o.n); },
        gravel_no_constants{});
    fib_threads::program program(o.n);
    const unsigned blocks = blocks_to_fill_device(), threads = GRAVEL_CUDA ? 256 : 32;
    by_hand(
        o, r, [&] { return program.run(blocks, threads) == fibonacci(o.n); }, blocks);
  }

  constexpr uint64_t solutions[] = {1,   1,   0,    0,     2,     10,     4,       40,       92,
                                    352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104};
  usual.max_depth = o.queens.n - std::min(o.queens.n, o.queens.serial_rows);
  usual.capacity = 8161;
  if (o.has("queens")) {
    r.title("queens", std::to_string(o.queens.n) + " queens, the last " + std::to_string(o.queens.serial_rows) +
                          " rows by one warp");
    sweep<queens_tasks::graph>(
        o, r, usual, most_columns, solutions[o.queens.n], [&](queens_tasks::graph& g) { return queens_tasks::run(g); },
        o.queens);
    queens_threads::program program(o.queens);
    const unsigned blocks = blocks_to_fill_device(), threads = GRAVEL_CUDA ? 256 : 32;
    by_hand(
        o, r, [&] { return program.run(blocks, threads) == solutions[o.queens.n]; }, blocks);
  }
  r.finish();
  return finish(program_name, gravel_min_all(uint64_t{r.right()}) != 0);
}
