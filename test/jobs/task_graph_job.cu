// Task graphs: random trees against serial counts, with continuations that gather, and that spawn again; the least
// legal sizes; what the host pushes while a graph runs; what tasks do wrong. Channels by themselves, whose producers
// and consumers are kernels and host threads. One source for the CPU backend and for GPUs; each PE for itself. With a
// time limit: most mistakes here would show as a run that does not end. Usage: task_graph_job [TREES [one-kernel]];
// with the second word nothing is pushed while a graph runs, for tools that run one kernel at a time. task_graph_job
// channels: the channels alone.
#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gravel/channel.cuh>
#include <gravel/gravel.cuh>
#include "lib/base/mix.hpp"
#include "lib/taskgraph/task_graph.cuh"
#include "test/support/expect.hpp"

namespace {

// ---- trees whose shape is a function of a number: node `id` with `fuel` has up to three children

GRAVEL_BOTH uint32_t children_of(uint32_t id, uint32_t fuel) {
  return fuel == 0 ? 0 : static_cast<uint32_t>(gravel::detail::mix(id) >> 40) % 4;
}
GRAVEL_BOTH uint32_t child_of(uint32_t id, uint32_t i) {
  return static_cast<uint32_t>(gravel::detail::mix(id * 4ull + i + 1));
}
/// Some are leaves, which are tasks of another type. They are worth more.
GRAVEL_BOTH bool is_leaf(uint32_t id) { return id % 8 == 3; }
/// Fuel that a child gets: mostly one less.
GRAVEL_BOTH uint32_t fuel_of(uint32_t id, uint32_t fuel) { return fuel - 1 - (fuel > 1 && id % 5 == 0); }

uint64_t serial_count(uint32_t id, uint32_t fuel) {
  uint64_t sum = 1;
  for (uint32_t i = 0; i < children_of(id, fuel); ++i) {
    const uint32_t child = child_of(id, i);
    sum += is_leaf(child) ? 10 : serial_count(child, fuel_of(child, fuel));
  }
  return sum;
}

struct world {
  uint64_t* leaves;
  bool full = false;  ///< three children each, and no leaves of another type: the most that was declared
};

/// When the children have been counted.
struct gather {
  static constexpr const char* name = "gather";
  static constexpr uint32_t inputs = 2;
  using value = uint64_t;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[2]) const {
    here.add(to, x[0] + x[1] + 1);
  }
};
struct leaf {
  static constexpr const char* name = "leaf";
  gravel_return<uint64_t> to;
  __device__ uint32_t level() const { return 0; }
  template <class Here>
  __device__ void operator()(Here& here) const {
    gravel::detail::fetch_add<gravel::detail::scope::device>(here.constants().leaves, uint64_t{1});
    here.add(to, 10);
  }
};
template <bool LEVELS>
struct node {
  static constexpr const char* name = "node";
  static constexpr uint32_t spawns = 3;
  using children = gravel_types<node, leaf>;
  using continuations = gravel_types<gather>;
  uint32_t id, fuel;
  gravel_return<uint64_t> to;
  __device__ uint32_t level() const requires LEVELS { return fuel; }
  template <class Here>
  __device__ void operator()(Here& here) const {
    const bool full = here.constants().full;
    uint32_t n = fuel ? 3 : 0;
    if (!full) n = children_of(id, fuel);
    if (n == 0) return here.add(to, 1);
    const auto all = here.wait_for(gather{to}, n);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t child = child_of(id, i);
      if (full) here.spawn(node{child, fuel - 1, all[i % 2]});
      else if (is_leaf(child)) here.spawn(leaf{all[i % 2]});
      else here.spawn(node{child, fuel_of(child, fuel), all[i % 2]});
    }
  }
};

// ---- the same trees, whose children come one after the other: each continuation spawns the next. By 32 lanes, of
// which one spawns.

struct walker;
struct next_child {
  static constexpr const char* name = "next child";
  static constexpr uint32_t inputs = 1, spawns = 1;
  using value = uint64_t;
  using children = gravel_types<walker>;
  using continuations = gravel_types<next_child>;
  uint32_t id, fuel, i;
  uint64_t sum;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[1]) const;
};
struct walker {
  static constexpr const char* name = "walker";
  static constexpr uint32_t spawns = 1, lanes = 32;
  using children = gravel_types<walker>;
  using continuations = gravel_types<next_child>;
  uint32_t id, fuel;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    // All lanes are here.
    if (__ballot_sync(~0u, here.rank() == 5) != 1u << 5 || here.size() != 32) return;
    if (here.rank() != 0) return;
    if (children_of(id, fuel) == 0) return here.reply(to, 1);
    const uint32_t child = child_of(id, 0);
    const auto next = here.wait_for(next_child{id, fuel, 1, 1, to});
    here.spawn(walker{child, is_leaf(child) ? 0 : fuel_of(child, fuel), next[0]});
  }
};
template <class Here>
__device__ void next_child::operator()(Here& here, const uint64_t (&x)[1]) const {
  const uint64_t now = sum + x[0] + (is_leaf(child_of(id, i - 1)) ? 9 : 0);
  if (i == children_of(id, fuel)) return here.reply(to, now);
  const uint32_t child = child_of(id, i);
  const auto next = here.wait_for(next_child{id, fuel, i + 1, now, to});
  here.spawn(walker{child, is_leaf(child) ? 0 : fuel_of(child, fuel), next[0]});
}

// ---- the same trees by tasks of 32 lanes that spawn all children at once; and rows of many parts, behind which the
// next row comes

struct crowd_gather {  // goes on in the warp that brings the last result, and so on upwards
  static constexpr const char* name = "crowd gather";
  static constexpr uint32_t inputs = 3, lanes = 32;
  using value = uint64_t;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[3]) const {
    here.reply_together(to, x[0] + x[1] + x[2] + 1);
  }
};
struct crowd {
  static constexpr const char* name = "crowd";
  static constexpr uint32_t spawns = 3, lanes = 32;
  using continuations = gravel_types<crowd_gather>;
  uint32_t id, fuel;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t n = children_of(id, fuel);
    if (n == 0) return here.reply_together(to, fuel == 0 && is_leaf(id) ? 10 : 1);
    const auto child = [&](uint32_t i, auto all) {
      const uint32_t c = child_of(id, i);
      return crowd{c, is_leaf(c) ? 0 : fuel_of(c, fuel), all[i]};
    };
    if (id % 2) return here.fork(crowd_gather{to}, n, n, child);
    const auto all = here.wait_together(crowd_gather{to}, n);  // again, one after the other
    here.spawn_each(n, [&](uint32_t i) { return child(i, all); });
  }
};

constexpr uint32_t most_parts = 70;
struct part {
  static constexpr const char* name = "part";
  static constexpr uint32_t lanes = 32;
  uint32_t row, number;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    // All of the row before must be there already.
    uint64_t* const sums = here.constants().leaves;
    if (here.rank() == 0 &&
        (row == 0 || gravel::detail::load_relaxed<gravel::detail::scope::device>(&sums[row - 1]) == most_parts))
      gravel::detail::fetch_add<gravel::detail::scope::device>(&sums[row], uint64_t{1});
    here.reply_together(to);
  }
};
struct row_done {
  static constexpr const char* name = "row done";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = most_parts;
  using children = gravel_types<part>;
  using continuations = gravel_types<row_done>;
  uint32_t row, too_many;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (row == fuel_rows) return here.reply_together(to);
    here.fork(row_done{row + 1, too_many, to}, most_parts, most_parts + (row == too_many), [&](uint32_t i, auto next) {
      return part{row, i, next[0]};
    });
  }
  static constexpr uint32_t fuel_rows = 5;
};
struct first_row {
  static constexpr const char* name = "first row";
  static constexpr uint32_t lanes = 32, spawns = 1;
  using children = gravel_types<part>;
  using continuations = gravel_types<row_done>;
  uint32_t too_many;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    const auto next = here.wait_together(row_done{1, too_many, to}, 1);
    here.spawn_each(1, [&](uint32_t i) { return part{0, i, next[0]}; });
  }
};

// ---- many leaves in each of several depths, which a warp runs one after the other

constexpr uint32_t fruits_of_branch = 12, branches_of_branch = 3, branch_height = 4;
struct fruit {
  static constexpr const char* name = "fruit";
  static constexpr uint32_t lanes = 32;
  static constexpr bool comes_last = true;
  uint32_t number;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (here.rank() == 0)
      gravel::detail::fetch_add<gravel::detail::scope::device>(&here.constants().leaves[number], uint64_t{1});
    here.reply_together(to);
  }
};
struct picked {  // the fruits of a branch, and what is above it: as many again
  static constexpr const char* name = "picked";
  static constexpr uint32_t inputs = 0, lanes = 32, spawns = fruits_of_branch;
  using children = gravel_types<fruit>;
  uint32_t number;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    here.spawn_each(fruits_of_branch, [&](uint32_t i) { return fruit{number * fruits_of_branch + i, to}; });
  }
};
struct branch {
  static constexpr const char* name = "branch";
  static constexpr uint32_t lanes = 32, spawns = fruits_of_branch + branches_of_branch;
  using children = gravel_types<branch, fruit>;
  using continuations = gravel_types<picked>;
  uint32_t number, height;
  gravel_return<void> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t more = height ? branches_of_branch : 0;
    const auto all = here.wait_together(picked{number, to}, fruits_of_branch * (1 + more));
    here.spawn_each(fruits_of_branch, [&](uint32_t i) { return fruit{number * fruits_of_branch + i, all[0]}; });
    here.spawn_each(more, [&](uint32_t i) { return branch{number * branches_of_branch + 1 + i, height - 1, all[0]}; });
  }
};

constexpr uint32_t roots = 64;
/// Depths of the trees: more than there are levels in shared memory, or less.
uint32_t fuel = 7;

gravel_task_options sizes(uint32_t local_levels) {
  gravel_task_options o;
  o.max_depth = fuel;
  o.capacity = 993;
  o.frames = 481;
  o.results = roots;
  o.local_levels = local_levels;
  o.blocks = GRAVEL_CUDA ? 0 : 2;
  o.warps = GRAVEL_CUDA ? 4 : 2;
  return o;
}

/// `trees` of them, 64 at a time.
template <class Root, class Graph>
void grow(Graph& graph, const char* what, uint32_t trees, uint32_t first, uint64_t* leaves = nullptr) {
  for (uint32_t at = 0; at < trees; at += roots) {
    std::vector<Root> tasks;
    uint64_t expected_leaves = 0, before = 0, after = 0;
    for (uint32_t i = 0; i < roots; ++i) {
      graph.set_value(graph.template result<uint64_t>(i), 0);
      tasks.push_back({first + at + i, fuel, graph.template result<uint64_t>(i)});
    }
    if (leaves) gravel_copy(&before, leaves, 8);
    graph.push(tasks);
    graph.run();
    if (leaves) gravel_copy(&after, leaves, 8);
    uint64_t found_wrong = 0, total = 0;
    for (uint32_t i = 0; i < roots; ++i) {
      const uint64_t expected = serial_count(first + at + i, fuel),
                     found = graph.value(graph.template result<uint64_t>(i));
      total += expected;
      expect(found == expected, std::string(what) + ": tree " + std::to_string(first + at + i) + " has " +
                                    std::to_string(found) + " instead of " + std::to_string(expected));
      found_wrong += found != expected;
    }
    expected_leaves = after - before;
    const auto& c = graph.counts();
    if (leaves && found_wrong == 0)
      expect(c.tasks == total - 9 * expected_leaves + c.continuations,
             std::string(what) + ": " + std::to_string(c.tasks) + " tasks have run");
    if (found_wrong) return;
  }
}

void trees(uint32_t n) {
  auto* leaves = gravel_malloc<uint64_t>(8);
  for (uint32_t local : {~0u, 3u, 0u}) {
    gravel_task_graph<world, node<true>, leaf, gather> by_level({leaves}, sizes(local));
    grow<node<true>>(by_level, "trees by level", n / 5, local, leaves);
    if (local == 3) continue;
    gravel_task_graph<world, node<false>, leaf, gather> by_depth({leaves}, sizes(local));
    grow<node<false>>(by_depth, "trees by depth", n / 5, 1000 + local, leaves);
    expect((by_level.counts().local_tasks != 0) == (local != 0), "tasks in shared memory");
    expect((by_depth.counts().local_tasks != 0) == (local != 0), "tasks in shared memory, by depth");
  }
  auto deeper = sizes(0);
  deeper.max_depth = 4 * fuel;
  gravel_task_graph<gravel_no_constants, walker, next_child> serial({}, deeper);
  grow<walker>(serial, "children one after the other", n / 10, 77);
  deeper.dispatch = gravel_dispatch::host;
  gravel_task_graph<gravel_no_constants, walker, next_child> rounds({}, deeper);
  grow<walker>(rounds, "the same dispatched by the host", 1, 7);
  auto dispatched = sizes(~0u);
  dispatched.dispatch = gravel_dispatch::host;
  gravel_task_graph<world, node<true>, leaf, gather> by_host({leaves}, dispatched);
  grow<node<true>>(by_host, "trees dispatched by the host", 1, 5, leaves);
  dispatched.dispatch = gravel_dispatch::schedulers;
  for (uint32_t schedulers : {1u, 3u, 100u}) {
    dispatched.schedulers = schedulers;
    dispatched.local_levels = schedulers == 1 ? ~0u : 2;
    gravel_task_graph<world, node<true>, leaf, gather> scheduled({leaves}, dispatched);
    grow<node<true>>(scheduled, "trees dispatched by schedulers", n / 20, schedulers, leaves);
    // One that is the only worker has nobody to hand them to; with a seed the blocks of the CPU backend run one after
    // the other, and it may be done before another one waits.
    if (schedulers == 1 && !std::getenv("GRAVEL_CPU_SEED"))
      expect(scheduled.counts().handed_out != 0, "schedulers hand batches out");
  }
  gravel_free(leaves);
}

void many_at_once(uint32_t n) {
  auto deeper = sizes(0);
  for (gravel_dispatch by : {gravel_dispatch::workers, gravel_dispatch::schedulers, gravel_dispatch::host}) {
    deeper.dispatch = by;
    gravel_task_graph<gravel_no_constants, crowd, crowd_gather> graph({}, deeper);
    grow<crowd>(graph, "children at once", by == gravel_dispatch::workers ? n : 1, 99);
  }
  auto* sums = gravel_malloc<uint64_t>(8 * 5);
  for (uint32_t capacity : {most_parts, 993u}) {
    auto o = sizes(0);
    o.capacity = capacity;
    o.frames = 32;
    o.max_depth = 7;
    gravel_task_graph<world, first_row, row_done, part> rows({sums}, o);
    const std::vector<uint64_t> zeros(5);
    gravel_copy(sums, zeros.data(), 40);
    std::vector<uint64_t> found(5);
    const uint64_t head_start = most_parts - 1;  // the first row has one part
    gravel_copy(&sums[0], &head_start, 8);
    rows.push(first_row{99, rows.result<void>()});
    rows.run();
    gravel_copy(found.data(), sums, 40);
    expect(found == std::vector<uint64_t>(5, most_parts), "rows of parts, one after the other");
    expect(rows.counts().tasks == 2 + 5 + 4 * most_parts,
           "rows of parts: " + std::to_string(rows.counts().tasks) + " tasks");
    rows.push(first_row{2, rows.result<void>()});
    expect_error("task 'row done' spawned 71 tasks; it declares at most 70", [&] { rows.run(); });
    o.capacity = most_parts - 1;
    expect_error("'row done' spawns up to 70, and a batch of 1 needs room for 70",
                 [&] { gravel_task_graph<world, first_row, row_done, part>({sums}, o); });
    o.capacity = capacity;
    o.max_depth = 3;
    gravel_task_graph<world, first_row, row_done, part> shallow({sums}, o);
    shallow.push(first_row{99, shallow.result<void>()});
    expect_error("max_depth is 3", [&] { shallow.run(); });
  }
  gravel_free(sums);
}

/// Each leaf runs exactly once, whichever warp goes on with it, and from whichever channel it comes.
void leaves_of_many_depths(uint32_t times) {
  constexpr uint32_t branches = 1 + 3 + 9 + 27 + 81, n = branches * fruits_of_branch;
  auto* ran = gravel_malloc<uint64_t>(8 * n);
  for (uint32_t capacity : {branch::spawns, 993u})
    for (uint32_t blocks : {1u, 2u, 5u}) {
      auto o = sizes(0);
      o.capacity = capacity;
      o.max_depth = branch_height + 2;
      o.blocks = blocks;
      o.warps = 8;
      gravel_task_graph<world, branch, fruit, picked> graph({ran}, o);
      const std::vector<uint64_t> zeros(n);
      gravel_copy(ran, zeros.data(), 8 * n);
      std::vector<uint64_t> found(n);
      for (uint32_t i = 1; i <= times; ++i) {
        graph.push(branch{0, branch_height, graph.result<void>()});
        graph.run();
        gravel_copy(found.data(), ran, 8 * n);
        expect(found == std::vector<uint64_t>(n, 2 * i), "leaves of many depths, each number twice in a run");
        expect(graph.counts().tasks == branches * (2 * fruits_of_branch + 2), "leaves of many depths: all tasks");
      }
    }
  gravel_free(ran);
}

// ---- sizes

void smallest() {
  auto* leaves = gravel_malloc<uint64_t>(8);
  using graph_type = gravel_task_graph<world, node<true>, leaf, gather>;
  for (uint32_t local : {~0u, 0u}) {
    auto o = sizes(local);
    o.capacity = 96;
    o.frames = 32;
    graph_type graph({leaves}, o);
    grow<node<true>>(graph, "least sizes", 1, 3, leaves);
    o.dispatch = gravel_dispatch::schedulers;
    graph_type scheduled({leaves}, o);
    grow<node<true>>(scheduled, "least sizes, with schedulers", 1, 4, leaves);
    o.capacity = 95;
    expect_error("'node' spawns up to 3, and a batch of 32 needs room for 96", [&] { graph_type({leaves}, o); });
    o.capacity = 96;
    o.frames = 31;
    expect_error("there are 31 frames of 'gather'", [&] { graph_type({leaves}, o); });
  }
  auto o = sizes(0);
  o.max_depth = 4 * fuel;
  o.capacity = o.frames = 32;  // for a batch of continuations; one walker is a batch
  gravel_task_graph<gravel_no_constants, walker, next_child> serial({}, o);
  std::vector<walker> some;
  for (uint32_t i = 0; i < 32; ++i) some.push_back({i, fuel, serial.result<uint64_t>(i)});
  serial.push(some);
  serial.run();
  for (uint32_t i = 0; i < 32; ++i)
    expect(serial.value(serial.result<uint64_t>(i)) == serial_count(i, fuel), "least sizes, one after the other");
  serial.push(some);
  expect_error("33 tasks 'walker' before a run; its channel has room for 32", [&] { serial.push(some[0]); });
  serial.run();
  some.push_back(some[0]);
  expect_error("33 tasks 'walker' before a run; its channel has room for 32", [&] { serial.push(some); });
  serial.run();
  expect(serial.counts().tasks == 0, "what was refused is not pushed in part");
  gravel_free(leaves);
}

/// As many frames as nothing was said of.
void usual_frames() {
  auto* leaves = gravel_malloc<uint64_t>(8);
  auto o = sizes(~0u);
  o.frames = 0;
  gravel_task_graph<world, node<true>, leaf, gather> graph({leaves}, o);
  expect(graph.frames() >= 4065, "usual frames: " + std::to_string(graph.frames()));
  grow<node<true>>(graph, "usual frames", 1, 11, leaves);
  o.blocks = 100;
  o.warps = 10;
  gravel_task_graph<world, node<true>, leaf, gather> by_many({leaves}, o);
  expect(by_many.frames() == 65505,
         "usual frames of 1000 workers: " + std::to_string(by_many.frames()));  // 2 * 1000 * 32, rounded up
  o.frames = 1 << 22;
  expect_error("8 depths of 4194304 frames; together there may be 2^25",
               [&] { gravel_task_graph<world, node<true>, leaf, gather>({leaves}, o); });
  gravel_free(leaves);
}

/// As many children as were declared, everywhere, with little room for one thing or the other.
void full_trees() {
  for (uint32_t local : {~0u, 3u, 0u})
    for (uint32_t capacity : {96u, 993u})
      for (uint32_t frames : {32u, 481u}) {
        auto o = sizes(local);
        o.capacity = capacity;
        o.frames = frames;
        gravel_task_graph<world, node<true>, leaf, gather> graph({nullptr, true}, o);
        std::vector<node<true>> tasks;
        uint64_t expected = 0, found = 0;
        for (uint32_t i = 0; i < roots; ++i) {
          const uint32_t height = 5 + i % 2;
          tasks.push_back({i, height, graph.result<uint64_t>(i)});
          expected += height == 5 ? 364 : 1093;
        }
        graph.push(tasks);
        graph.run();
        for (uint32_t i = 0; i < roots; ++i) found += graph.value(graph.result<uint64_t>(i));
        expect(found == expected,
               "full trees: " + std::to_string(found) + " nodes instead of " + std::to_string(expected));
      }
}

// ---- the host as producer

void host_pushes() {
  auto* leaves = gravel_malloc<uint64_t>(8);
  auto o = sizes(~0u);
  o.capacity = 96;
  gravel_task_graph<world, node<true>, leaf, gather> graph({leaves}, o);
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < roots; ++i) graph.set_value(graph.result<uint64_t>(i), 0);
    graph.start();
    uint64_t expected = 0, found = 0;
    for (uint32_t k = 0; k < 40; ++k) {
      std::vector<node<true>> some;
      for (uint32_t i = 0; i < k % 7 * 8; ++i) {
        some.push_back({k * 100 + i, fuel, graph.result<uint64_t>(i % roots)});
        expected += serial_count(k * 100 + i, fuel);
      }
      graph.push(some);
    }
    graph.wait();
    for (uint32_t i = 0; i < roots; ++i) found += graph.value(graph.result<uint64_t>(i));
    expect(found == expected,
           "pushed by the host: " + std::to_string(found) + " instead of " + std::to_string(expected));
  }
  gravel_free(leaves);
}

// ---- what tasks do wrong

struct never {
  static constexpr const char* name = "never";
  static constexpr uint32_t inputs = 1;
  using value = uint32_t;
  gravel_return<uint32_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint32_t (&x)[1]) const {
    here.reply(to, x[0]);
  }
};
enum wrong : uint32_t { nothing, one_too_many, endless, same_level, two_frames, no_result };
struct culprit {
  static constexpr const char* name = "culprit";
  static constexpr uint32_t spawns = 2;
  using continuations = gravel_types<never>;
  uint32_t what, own_level;
  gravel_return<uint32_t> to;
  __device__ uint32_t level() const { return own_level; }
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (what == nothing) return here.add(to, 1);
    if (what == one_too_many)
      for (uint32_t i = 0; i < 3; ++i) here.spawn(culprit{nothing, 0, to});
    if (what == endless) here.spawn(culprit{endless, own_level ? own_level - 1 : 0, to});
    if (what == same_level) here.spawn(culprit{nothing, own_level, to});
    if (what == two_frames || what == no_result) here.wait_for(never{to});
    if (what == two_frames) here.wait_for(never{to});
  }
};

void errors() {
  for (uint32_t local : {~0u, 0u}) {
    auto o = sizes(local);
    o.max_depth = 5;
    gravel_task_graph<gravel_no_constants, culprit, never> graph({}, o);
    const auto provoke = [&](wrong what, uint32_t level, const char* text) {
      graph.push(culprit{what, level, graph.result<uint32_t>(1)});
      expect_error(text, [&] { graph.run(); });
    };
    for (uint32_t level : {3u, 100u}) {  // in shared memory, and not
      graph.set_value(graph.result<uint32_t>(0), 0);
      provoke(one_too_many, level, "task 'culprit' spawned 3 tasks; it declares at most 2");
      provoke(endless, level, "task 'culprit' spawns or waits at the last depth, or at level 0; max_depth is 5");
      provoke(same_level, level % 100, "task 'culprit' ");
      provoke(two_frames, level, "waits twice with one type of continuation");
      provoke(no_result, level, "1 of 1 continuations never ran");
      // And then all is well again.
      std::vector<culprit> good(50, {nothing, level % 100, graph.result<uint32_t>(0)});
      graph.push(good);
      graph.run();
      expect(graph.value(graph.result<uint32_t>(0)) == 50, "after an error");
    }
  }
  expect_error("result 64 of 64", [&] {
    gravel_task_graph<gravel_no_constants, culprit, never> graph({}, sizes(0));
    graph.result<uint32_t>(roots);
  });
}

// ---- predicates

/// Words in device memory: early tasks that have run, late ones that ran behind all of them, and too early, late ones
/// that the host lets start.
struct stages {
  uint64_t* words;
  uint64_t n_early;
};
struct late {
  static constexpr const char* name = "late";
  __device__ static bool may_start(const gravel_channel_load& load, const stages& s) {
    return load.waiting >= 40 || gravel::detail::load_relaxed(&s.words[0]) == s.n_early ||
           gravel::detail::load_relaxed(&s.words[3]) != 0;
  }
  template <class Here>
  __device__ void operator()(Here& here) const {
    const bool behind = gravel::detail::load_relaxed(&here.constants().words[0]) == here.constants().n_early;
    gravel::detail::fetch_add(&here.constants().words[behind ? 1 : 2], uint64_t{1});
  }
};
struct early {
  static constexpr const char* name = "early";
  static constexpr uint32_t spawns = 1;
  using children = gravel_types<late>;
  uint32_t has_child;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (has_child != 0) here.spawn(late{});
    gravel::detail::fetch_add(&here.constants().words[0], uint64_t{1});
  }
};

void predicates(bool pushes_while_running) {
  constexpr uint64_t n = 96;
  auto* words = gravel_malloc<uint64_t>(4 * 8);
  const auto set = [&](std::vector<uint64_t> to) { gravel_copy(words, to.data(), 4 * 8); };
  const auto found = [&] {
    std::vector<uint64_t> now(4);
    gravel_copy(now.data(), words, 4 * 8);
    return now;
  };
  for (gravel_dispatch by : {gravel_dispatch::workers, gravel_dispatch::schedulers, gravel_dispatch::host}) {
    auto o = sizes(~0u);
    o.dispatch = by;
    gravel_task_graph<stages, early, late> graph({words, n}, o);
    set({0, 0, 0, 0});
    std::vector<early> all;
    for (uint32_t i = 0; i < n; ++i) all.push_back({i % 8 == 0});
    graph.push(all);
    graph.run();
    expect(found() == std::vector<uint64_t>{n, 12, 0, 0}, "12 late tasks run when all early ones have run");
    set({0, 0, 0, 0});
    graph.push(std::vector<late>(39));
    expect_error("39 tasks wait, 'late' among them, and none may start: a predicate", [&] { graph.run(); });
    o.blocks = o.warps = 1;  // several workers may all find 40 tasks, and take them
    gravel_task_graph<stages, early, late> alone({words, n}, o);
    alone.push(std::vector<late>(40));
    expect_error("8 tasks wait, 'late' among them, and none may start", [&] { alone.run(); });
    expect(found() == std::vector<uint64_t>{0, 0, 32, 0}, "a full batch of 40 tasks");
    if (!pushes_while_running || by != gravel_dispatch::workers) continue;
    set({0, 0, 0, 0});
    graph.start();
    graph.push(std::vector<late>(39));
    graph.push(early{0});  // done when nobody may start a late one
    while (found()[0] == 0) std::this_thread::yield();
    expect(found()[2] == 0, "no late task starts before the host lets it");
    const uint64_t opens = 1;
    gravel_copy(&words[3], &opens, sizeof(opens));
    graph.wait();
    expect(found() == std::vector<uint64_t>{1, 0, 39, 1}, "the host lets late tasks start");
  }
  gravel_free(words);
}

// ---- cycles

/// The steps from a number to 1: a half, or three times and one. Nobody knows how many there are.
struct odd;
struct even {
  static constexpr const char* name = "even";
  static constexpr uint32_t spawns = 1;
  using children = gravel_types<even, odd>;
  uint32_t n, steps;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const;
};
struct odd {
  static constexpr const char* name = "odd";
  static constexpr uint32_t spawns = 1;
  using children = gravel_types<even>;
  uint32_t n, steps;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (n == 1) return here.add(to, steps);
    here.spawn(even{3 * n + 1, steps + 1, to});
  }
};
template <class Here>
__device__ void even::operator()(Here& here) const {
  if (n / 2 % 2 == 0) here.spawn(even{n / 2, steps + 1, to});
  else here.spawn(odd{n / 2, steps + 1, to});
}
struct around {
  static constexpr const char* name = "around";
  static constexpr uint32_t spawns = 2;
  uint32_t left, copies;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (left == 0) return here.add(to, 1);
    for (uint32_t i = 0; i < copies; ++i) here.spawn(around{left - 1, copies, to});
  }
};

void cycles(uint32_t longest) {
  for (gravel_dispatch by : {gravel_dispatch::workers, gravel_dispatch::schedulers}) {
    auto o = sizes(~0u);
    o.cycles = true;
    o.max_depth = by == gravel_dispatch::workers ? 0 : 3;
    o.dispatch = by;
    o.capacity = 993;
    gravel_task_graph<gravel_no_constants, odd, even> graph({}, o);
    std::vector<odd> all;
    uint64_t expected = 0;
    for (uint32_t i = 1; i < 24; i += 2) {
      all.push_back({i, 0, graph.result<uint64_t>()});
      for (uint32_t n = i; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++expected;
    }
    graph.push(all);
    graph.run();
    expect(graph.value(graph.result<uint64_t>()) == expected, "steps to 1, from all odd numbers below 24");
    expect(graph.counts().tasks == expected + all.size(), "steps to 1: a task for each");
  }
  auto o = sizes(~0u);
  o.cycles = true;
  o.max_depth = 0;
  o.capacity = 96;
  gravel_task_graph<gravel_no_constants, around> graph({}, o);
  graph.push(around{longest, 1, graph.result<uint64_t>()});
  graph.run();
  expect(graph.value(graph.result<uint64_t>()) == 1 && graph.counts().tasks == longest + 1, "a long cycle");
  graph.push(around{100, 2, graph.result<uint64_t>()});
  expect_error("'around' among them, and none may start: the channels of a cycle, of capacity 96",
               [&] { graph.run(); });
  graph.push(around{3, 2, graph.result<uint64_t>(1)});
  graph.run();
  expect(graph.value(graph.result<uint64_t>(1)) == 8, "a cycle after one that was full");
}

/// start() and wait() out of order, pushes to a run that has failed, and a graph that goes while it runs.
void runs_out_of_order() {
  const auto o = sizes(0);
  gravel_task_graph<gravel_no_constants, culprit, never> graph({}, o);
  const culprit good{nothing, 0, graph.result<uint32_t>(0)};
  expect_error("wait() without start()", [&] { graph.wait(); });
  graph.start();
  expect_error("it runs already", [&] { graph.start(); });
  expect_error("it runs already", [&] { graph.run(); });
  graph.push(good);
  graph.wait();
  expect(graph.value(graph.result<uint32_t>(0)) == 1, "a run that was started twice");
  graph.start();
  graph.push(culprit{one_too_many, 100, graph.result<uint32_t>(0)});
  graph.push(
      std::vector<culprit>(3 * o.capacity, good));  // more than there is room for, when nobody takes them any more
  expect_error("task 'culprit' spawned 3 tasks", [&] { graph.wait(); });
  graph.start();
  graph.push(good);
}

// ---- channels by themselves

struct item {
  uint32_t producer, number;
  uint8_t check;
};
using where = gravel_channel_memory;
GRAVEL_BOTH item item_of(uint32_t producer, uint32_t number) {
  return {producer, number, static_cast<uint8_t>(producer * 7 + number)};
}

/// Each lane is a producer of `each` items; lane 0 is producer `first`. With `left`, the last lane to end closes
/// the channel.
template <where W>
__global__ void put_items(gravel_channel_handle<item, W> to, uint32_t first, uint32_t each, uint32_t* left,
                          uint64_t* refused) {
  for (uint32_t i = 0; i < each; ++i)
    if (!to.put(item_of(first + threadIdx.x, i))) gravel::fetch_add<gravel::scope::device>(refused, uint64_t{1});
  if (left && gravel::detail::fetch_add_acq_rel<gravel::scope::device>(left, ~0u) == 1) to.close();
}
/// Each warp is a consumer, until the channel has ended. seen[p * each + i]: how often item i of producer p came.
/// in_order: how many came behind the one before it.
template <where W>
__global__ void take_items(gravel_channel_handle<item, W> from, uint32_t each, uint64_t* seen, uint64_t* in_order) {
  const auto warp = gravel_batch::converged_warp(threadIdx.x, blockDim.x);
  uint32_t next = 0;
  for (auto b = from.next(warp, 32); b.count != 0; b = from.next(warp, 32)) {
    for (uint32_t i = warp.rank(); i < b.count; i += warp.size()) {
      const item e = from.read(b.first + i);
      if (e.check != item_of(e.producer, e.number).check) continue;
      gravel::fetch_add<gravel::scope::device>(&seen[uint64_t{e.producer} * each + e.number], uint64_t{1});
      if (e.number == next + i) gravel::fetch_add<gravel::scope::device>(in_order, uint64_t{1});
    }
    from.free(warp, b);
    next += b.count;
  }
}

/// What consumers have found.
struct findings {
  uint32_t each;
  uint64_t*
      seen;  ///< of kernels: [producers * each], then the items in order, those refused, and producers that are left
  std::vector<uint64_t> of_host;
  uint64_t host_in_order = 0;
  std::mutex mutex;

  findings(uint32_t producers, uint32_t each_) : each(each_), of_host(producers * each_) {
    seen = gravel_malloc<uint64_t>((of_host.size() + 3) * 8);
    const std::vector<uint64_t> zeroes(of_host.size() + 3);
    gravel_copy(seen, zeroes.data(), zeroes.size() * 8);
  }
  ~findings() { gravel_free(seen); }
  uint64_t* in_order() const { return seen + of_host.size(); }
  uint64_t* refused() const { return in_order() + 1; }
  uint32_t* left() const { return reinterpret_cast<uint32_t*>(in_order() + 2); }

  template <class C>
  void take_by_host(C& c, size_t at_once) {
    std::vector<item> some(at_once);
    uint32_t next = 0;
    while (const size_t n = c.take(std::span(some))) {
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < n; ++i) {
        if (some[i].check != item_of(some[i].producer, some[i].number).check) continue;
        ++of_host[some[i].producer * each + some[i].number];
        host_in_order += some[i].number == next++;
      }
    }
  }
  /// Each item came once, and, if `orderly`, in order.
  void check(const std::string& what, bool orderly) {
    std::vector<uint64_t> by_kernel(of_host.size() + 2);
    gravel_copy(by_kernel.data(), seen, by_kernel.size() * 8);
    uint64_t wrong = 0;
    for (size_t i = 0; i < of_host.size(); ++i) wrong += of_host[i] + by_kernel[i] != 1;
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " items were lost, or came more than once");
    expect(!orderly || host_in_order + by_kernel[of_host.size()] == of_host.size(), what + ": not in order");
    expect(by_kernel[of_host.size() + 1] == 0, what + ": items were refused before the end");
  }
};
template <class C>
void put_by_host(C& c, uint32_t producer, uint32_t each) {
  std::vector<item> some;
  for (uint32_t i = 0; i < each; some.clear()) {
    for (uint32_t n = 1 + i % 5 * 9; n != 0 && i < each; --n) some.push_back(item_of(producer, i++));
    c.put(some);
  }
}

/// One producer and one consumer, each the host or a kernel. The channel's slots are used many times.
template <where W>
void one_and_one(uint32_t capacity, uint32_t each) {
  for (bool host_puts : {true, false})
    for (bool host_takes : {true, false}) {
      const std::string what = std::string(host_puts ? "host" : "kernel") + " to " + (host_takes ? "host" : "kernel") +
                               ", capacity " + std::to_string(capacity);
      findings f(1, each);
      gravel_channel<item, W> c({.capacity = capacity});
      gravel_stream_t streams[2] = {gravel_stream_create(), gravel_stream_create()};
      const uint32_t producers = 1;
      gravel_copy(f.left(), &producers, sizeof(producers));
      if (!host_takes)
        gravel_launch(take_items<W>, gravel_launch_config{.grid = 1, .block = 32, .stream = streams[0]}, c.handle(),
                      each, f.seen, f.in_order());
      if (!host_puts)
        gravel_launch(put_items<W>, gravel_launch_config{.grid = 1, .block = 1, .stream = streams[1]}, c.handle(), 0u,
                      each, f.left(), f.refused());
      std::thread producer;
      if (host_puts)
        producer = std::thread([&] {
          put_by_host(c, 0, each);
          c.close();
        });
      if (host_takes) f.take_by_host(c, 50);
      if (producer.joinable()) producer.join();
      for (gravel_stream_t s : streams) {
        gravel_stream_synchronize(s);
        gravel_stream_destroy(s);
      }
      f.check(what, true);
      expect(c.has_ended() && c.is_closed(), what + ": it has not ended");
    }
}
/// Three producers and three consumers: a host thread and two of kernels each.
template <where W>
void three_and_three(uint32_t capacity, uint32_t each) {
  findings f(3, each);
  gravel_channel<item, W> c({.capacity = capacity});
  gravel_stream_t streams[2] = {gravel_stream_create(), gravel_stream_create()};
  gravel_launch(take_items<W>, gravel_launch_config{.grid = 1, .block = 64, .stream = streams[0]}, c.handle(), each,
                f.seen, f.in_order());
  gravel_launch(put_items<W>, gravel_launch_config{.grid = 1, .block = 2, .stream = streams[1]}, c.handle(), 1u, each,
                static_cast<uint32_t*>(nullptr), f.refused());
  std::thread consumer([&] { f.take_by_host(c, 3); });
  put_by_host(c, 0, each);
  gravel_stream_synchronize(streams[1]);
  c.close();
  consumer.join();
  for (gravel_stream_t s : streams) {
    gravel_stream_synchronize(s);
    gravel_stream_destroy(s);
  }
  f.check("three producers, three consumers, capacity " + std::to_string(capacity), false);
}
/// A channel that is full, empty, and closed while it is so.
template <where W>
void full_and_empty(uint32_t capacity) {
  const std::string what = "capacity " + std::to_string(capacity) + ": ";
  std::vector<uint32_t> numbers(capacity + 1), found(capacity + 1);
  std::iota(numbers.begin(), numbers.end(), 0u);
  {
    gravel_channel<uint32_t, W> c({.capacity = capacity});
    for (int lap = 0; lap < 3; ++lap) {
      expect(!c.try_take(found[0]), what + "an element of an empty channel");
      expect(c.try_put(std::span<const uint32_t>(numbers)) == capacity, what + "as many as there is room for");
      expect(!c.try_put(1u), what + "room in a full channel");
      expect(c.try_take(std::span(found)) != 0 && found[0] == 0, what + "the first");
      expect(c.try_put(77u), what + "room for one again");
      while (c.try_take(std::span(found)) != 0) {
      }
    }
    // A producer waits for room when the channel is closed.
    c.put(std::span<const uint32_t>(numbers).first(capacity));
    std::atomic<bool> begun = false;
    std::thread waiting([&] {
      begun = true;
      expect_error("of 3 elements are in the channel", [&] {
        c.put(std::span<const uint32_t>(std::array{1u, 2u, 3u}));
      });
    });
    while (!begun) std::this_thread::yield();
    c.close();
    waiting.join();
    expect(c.is_closed() && !c.has_ended(), what + "closed while full");
    expect_error("gravel_channel::try_put after close(): 0 of 1 elements", [&] { c.try_put(1u); });
    expect_error("gravel_channel::put after close(): 0 of 1 elements", [&] { c.put(1u); });
    c.close();
    uint32_t n = 0;
    while (c.take(found[0])) ++n;
    expect(n == capacity && c.has_ended() && !c.take(found[0]) && !c.try_take(found[0]),
           what + "the rest, and the end");
  }
  {  // A consumer waits for an element when the channel is closed.
    gravel_channel<uint32_t, W> c({.capacity = capacity});
    std::thread waiting([&] { expect(!c.take(found[0]), what + "an element of a closed channel"); });
    c.close();
    waiting.join();
    expect(c.has_ended(), what + "closed while empty");
  }
  {  // A kernel's put is refused.
    findings f(64, 1);
    gravel_channel<item, W> c({.capacity = capacity});
    c.close();
    gravel_launch(put_items<W>, 1, 64, c.handle(), 0u, 1u, static_cast<uint32_t*>(nullptr), f.refused());
    gravel_synchronize();
    uint64_t refused = 0;
    gravel_copy(&refused, f.refused(), 8);
    expect(refused == 64 && c.has_ended(), what + "a kernel's put after close()");
  }
}
template <where W>
void channels(uint32_t each) {
  if (W == where::host && GRAVEL_CUDA) {
    try {
      gravel_channel<item, W>({.capacity = 1});
    } catch (const gravel::error& e) {  // most GPUs
      expect(std::string(e.what()).find("host threads put and take by small kernels") != std::string::npos, e.what());
      return;
    }
  }
  for (uint32_t capacity : {1u, 40u, 97u}) {
    one_and_one<W>(capacity, capacity == 1 ? each / 10 : each);
    three_and_three<W>(capacity, capacity == 1 ? each / 10 : each);
    full_and_empty<W>(capacity);
  }
  expect_error("a capacity of 0 elements; it is 1 to 2^30", [&] { gravel_channel<item, W>({.capacity = 0}); });
  expect_error("a capacity of 1073741825 elements", [&] { gravel_channel<item, W>({.capacity = (1u << 30) + 1}); });
}

int end_of_job() {
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0) printf("%s\n", all ? "FAILED" : "ok");
  gravel_finalize();
  return all ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t n = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 10'000;
  gravel_init<>();
  if (argc > 1 && argv[1] == std::string("channels")) {
    channels<where::device>(300);
    channels<where::host>(1000);
    return end_of_job();
  }
  trees(n);
  many_at_once(n / 20);
  leaves_of_many_depths(4);
  smallest();
  full_trees();
  fuel = 12;
  trees(n / 10);
  smallest();
  fuel = 7;
  usual_frames();
  if (argc < 3) host_pushes();
  errors();
  predicates(argc < 3);
  cycles(300);
  if (argc < 3) runs_out_of_order();
  return end_of_job();
}
