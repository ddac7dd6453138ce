// Task graphs of all PEs together: an error of a task at one PE is reported at all PEs, and then the graph can be used
// again; calls that are not allowed are refused. Tasks of 32 lanes that spawn with all of them. Channels that other PEs
// push to. With a time limit: most mistakes here would show as a run that does not end. Random trees across PEs:
// examples/taskgraph/across.cu.
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "lib/base/mix.hpp"
#include "lib/channel/remote_channel.cuh"
#include "lib/taskgraph/shared_graph.cuh"
#include "test/support/expect.hpp"

namespace {

// ---- across PEs

struct both {
  static constexpr const char* name = "both";
  static constexpr uint32_t inputs = 2;
  using value = uint64_t;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[2]) const {
    here.reply(to, x[0] + x[1]);
  }
};
struct bad_leaf {
  uint32_t at;  ///< the leaf that spawns, of those that are counted from 0; ~0: none
};
struct halved {
  static constexpr const char* name = "halved";
  static constexpr uint32_t spawns = 2;
  using continuations = gravel_types<both>;
  uint32_t first, n;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (n == 1) {
      for (uint32_t i = 0; first == here.constants().at && i < 3; ++i) here.spawn(halved{0, 1, to});
      return here.reply(to, first);
    }
    const auto sum = here.wait_for(both{to});
    here.spawn(halved{first, n / 2, sum[0]});
    here.spawn(halved{first + n / 2, n - n / 2, sum[1]});
  }
};

using shared_graph = gravel_shared_task_graph<bad_leaf, halved, both>;

void across_pes() {
  gravel_task_options o;
  o.max_depth = 14;
  o.capacity = 64;
  o.frames = 32;
  o.local_levels = 0;
  if (!GRAVEL_CUDA) {
    o.blocks = 2;
    o.warps = 1;
  }
  gravel_shared_options how;
  how.imported_tasks = static_cast<uint32_t>(gravel_n_pes());
  constexpr uint32_t leaves = 1000;
  const auto me = static_cast<uint32_t>(gravel_my_pe());
  {
    shared_graph graph({~0u}, o, how);
    for (uint32_t root = 0; root < 3; ++root) {  // another PE each time
      graph.set_value(graph.result<uint64_t>(), 0);
      const bool begins = root % how.imported_tasks == me;
      if (begins) graph.push(halved{0, leaves, graph.result<uint64_t>()});
      graph.run();
      expect(graph.value(graph.result<uint64_t>()) == (begins ? leaves * (leaves - 1) / 2 : 0),
             "the sum of all leaves");
      const uint64_t tasks = gravel_sum_all(graph.counts().tasks), taken = gravel_sum_all(graph.shared().taken);
      expect(tasks == 2 * leaves - 1 + leaves - 1 + taken,
             std::to_string(tasks) + " tasks have run, " + std::to_string(taken) + " have travelled");
      expect(gravel_sum_all(graph.shared().sent) == taken, "what was sent was taken");
    }
  }
  for (uint32_t at : {0u, 700u}) {
    shared_graph graph({at}, o, how);
    for (int round = 0; round < 2; ++round) {
      if (me == 0) graph.push(halved{0, leaves, graph.result<uint64_t>()});
      expect_error("task graph: ", [&] { graph.run(); });
      graph.set_value(graph.result<uint64_t>(), 0);
      graph.push(halved{at + 1, 5, graph.result<uint64_t>()});  // without the bad leaf
      graph.run();
      expect(graph.value(graph.result<uint64_t>()) == 5 * (at + 1) + 10, "a run after one with an error");
    }
  }
  // `returned`, for which no task waits, takes none of the workers' shared memory.
  o.local_levels = ~0u;
  how.imported_tasks = static_cast<uint32_t>(gravel_n_pes());
  expect(shared_graph({0}, o, how).local_levels() == gravel_task_graph<bad_leaf, halved, both>({0}, o).local_levels(),
         "as many levels in shared memory as in a graph of one PE");
  how.imported_tasks = static_cast<uint32_t>(gravel_n_pes()) - 1;
  expect_error("imported_tasks", [&] { shared_graph({0}, o, how); });
  how.imported_tasks = 64;
  auto round = o;
  round.cycles = true;
  expect_error("the option cycles is for a graph of one PE", [&] { shared_graph({0}, round, how); });
  how.imported_tasks = 64 + me;
  if (gravel_n_pes() > 1) expect_error("all PEs say the same imported_tasks", [&] { shared_graph({0}, o, how); });
}

// ---- what travels while workers run

struct patience {
  uint64_t* result;  ///< of the host, to which what has travelled brings what it brings
};
/// As long as it runs the only worker of its PE runs nothing else.
struct waits {
  static constexpr const char* name = "waits";
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    for (gravel::detail::relax wait;
         gravel::detail::load_relaxed<gravel::detail::scope::device>(here.constants().result) == 0;)
      wait();
    here.reply(to, 1);
  }
};
struct travels {
  static constexpr const char* name = "travels";
  static constexpr uint32_t spawns = 20;
  using children = gravel_types<travels, waits>;
  uint32_t others;
  gravel_return<uint64_t> to, waited;
  template <class Here>
  __device__ void operator()(Here& here) const {
    if (others == 0) return here.add(to, 1);
    for (uint32_t i = 0; i < others; ++i) here.spawn(travels{0, to, waited});
    here.spawn(waits{waited});
  }
};
struct busy_graph : gravel_shared_task_graph<patience, travels, waits> {
  using base = gravel_shared_task_graph<patience, travels, waits>;
  explicit busy_graph(const gravel_task_options& o) : base({nullptr}, o) {
    this->view_.constants.result = this->view_.results;
  }
};

/// PE 0 has one worker, which runs a task until one of those beside it has run. So that one is sent, and its result is
/// taken, while that runs.
void while_busy() {
  if (gravel_n_pes() == 1) return;
  gravel_task_options o;
  o.max_depth = 1;
  o.capacity = 640;
  o.results = 2;
  o.local_levels = 0;
  o.blocks = o.warps = 1;
  busy_graph graph(o);
  constexpr uint32_t n = 16;
  for (int i = 0; i < 3; ++i) {
    graph.set_value(graph.result<uint64_t>(0), 0);
    if (gravel_my_pe() == 0) graph.push(travels{n, graph.result<uint64_t>(0), graph.result<uint64_t>(1)});
    graph.run();
    if (gravel_my_pe() == 0) {
      expect(graph.value(graph.result<uint64_t>(0)) == n, "results of tasks that travelled");
      expect(graph.value(graph.result<uint64_t>(1)) == 1, "the task that waited");
      expect(graph.shared().sent != 0, "a task was sent");
    }
    // A PE that has sent a request goes on only when a transfer has arrived. So there are at most as many transfers as
    // tasks, and one more for each two PEs.
    const uint64_t requested = gravel_sum_all(graph.shared().requested), taken = gravel_sum_all(graph.shared().taken);
    const auto n_pes = static_cast<uint64_t>(gravel_n_pes());
    expect(requested <= taken + n_pes * (n_pes - 1),
           std::to_string(requested) + " transfers were requested for, " + std::to_string(taken) + " tasks came");
  }
}

// ---- many at once

/// At PE 0 it waits until one has run elsewhere.
struct crowded {
  static constexpr const char* name = "crowded";
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    for (gravel::detail::relax wait;
         here.constants().result &&
         gravel::detail::load_relaxed<gravel::detail::scope::device>(here.constants().result) == 0;)
      wait();
    here.add(to, 1);
  }
};
struct crowded_graph : gravel_shared_task_graph<patience, crowded> {
  using base = gravel_shared_task_graph<patience, crowded>;
  explicit crowded_graph(const gravel_task_options& o) : base({nullptr}, o) {
    if (gravel_my_pe() == 0) this->view_.constants.result = this->view_.results;
  }
};

/// PE 0 has one worker, which waits with what it can run at once: so half of all others goes to the PE that asks first,
/// in one transfer.
void many_at_once() {
  if (gravel_n_pes() == 1) return;
  gravel_task_options o;
  o.max_depth = 0;
  o.capacity = 2017;
  o.local_levels = 0;
  o.blocks = o.warps = 1;
  crowded_graph graph(o);
  for (int i = 0; i < 2; ++i) {
    graph.set_value(graph.result<uint64_t>(), 0);
    if (gravel_my_pe() == 0) graph.push(std::vector<crowded>(2000, crowded{graph.result<uint64_t>()}));
    graph.run();
    if (gravel_my_pe() == 0) expect(graph.value(graph.result<uint64_t>()) == 2000, "results of tasks that travelled");
    const uint64_t most = gravel_max_all(graph.shared().most);
    expect(most > 32 && most <= 1024, std::to_string(most) + " tasks came at once");
  }
}

// ---- tasks of 32 lanes that spawn together

GRAVEL_BOTH uint32_t lanes_that_spawn(uint32_t id, uint32_t fuel) {
  const auto random = static_cast<uint32_t>(gravel::detail::mix(id) >> 20);
  return fuel == 0 ? 0 : random & random >> 8 & ~(random << 7 | 15u);
}
uint64_t serial_count(uint32_t id, uint32_t fuel) {
  uint64_t sum = 1;
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (lanes_that_spawn(id, fuel) >> lane & 1) sum += serial_count(id * 33 + lane, fuel - 1);
  return sum;
}
struct counted {
  static constexpr const char* name = "counted";
  static constexpr uint32_t inputs = 1;
  using value = uint64_t;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here, const uint64_t (&x)[1]) const {
    here.add(to, x[0] + 1);
  }
};
struct wide {
  static constexpr const char* name = "wide";
  static constexpr uint32_t lanes = 32, spawns = 20;
  using continuations = gravel_types<counted>;
  uint32_t id, fuel;
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    const uint32_t spawning = fuel == 99 ? (1u << 21) - 1 : lanes_that_spawn(id, fuel),
                   n = static_cast<uint32_t>(__popc(spawning));
    if (n == 0) return here.rank() == 0 ? here.add(to, 1) : void();
    const auto all = here.wait_together(counted{to}, n);
    here.spawn_together(spawning >> here.rank() & 1, wide{id * 33 + here.rank(), fuel - 1, all[0]});
  }
};

void together() {
  gravel_task_options o;
  o.max_depth = 5;
  o.capacity = o.frames = 64;
  if (!GRAVEL_CUDA) {
    o.blocks = 2;
    o.warps = 2;
  }
  gravel_task_graph<gravel_no_constants, wide, counted> graph({}, o);
  for (uint32_t id = 1; id < 12; ++id) {
    graph.set_value(graph.result<uint64_t>(), 0);
    graph.push(wide{id, 3, graph.result<uint64_t>()});
    graph.run();
    const uint64_t found = graph.value(graph.result<uint64_t>()), expected = serial_count(id, 3);
    expect(found == expected, "by all lanes: " + std::to_string(found) + " instead of " + std::to_string(expected));
  }
  graph.push(wide{0, 99, graph.result<uint64_t>()});
  expect_error("task 'wide' spawned 21 tasks; it declares at most 20", [&] { graph.run(); });
}

// ---- a channel at every PE

struct transfer {
  static constexpr const char* name = "transfer";
  uint32_t from, number;
};
struct control {
  gravel_remote_channel_handle<transfer> to;
  uint32_t each, expected;  ///< transfers from each PE, to this one
  uint32_t *next, *taken;   ///< of this PE: the next one that is to be sent; how many have come
  uint32_t* seen;           ///< [PE][transfer]
};
GRAVEL_BOTH int addressee(uint32_t from, uint32_t number, uint32_t n_pes) {
  return static_cast<int>(gravel::detail::pick(gravel::detail::mix(uint64_t{from} << 32 | number), n_pes));
}
/// The first warp sends, the others take what is there.
__global__ void carry(control m) {
  using namespace gravel::detail;
  const lane_group warp = lane_group::converged_warp(threadIdx.x, blockDim.x);
  const gravel_t& g = m.to.g;
  if (threadIdx.x < 32) {
    for (uint32_t n; (n = fetch_add<scope::device>(m.next, 1u)) < m.each;)
      for (relax wait; !m.to.at(addressee(g.my_pe, n, g.n_pes)).push({g.my_pe, n});) wait.attentively();
    return;
  }
  for (relax idle; warp.from_leader(load_relaxed<scope::device>(m.taken)) < m.expected;) {
    const channel_batch b = m.to.take(warp, 32);
    if (b.count == 0) {
      idle.attentively();
      continue;
    }
    idle.reset();
    if (warp.rank() < b.count) {
      const transfer p = m.to.read(b.first + warp.rank());
      fetch_add<scope::device>(&m.seen[p.from * m.each + p.number], 1u);
    }
    m.to.free(warp, b);
    if (warp.is_leader()) fetch_add<scope::device>(m.taken, b.count);
  }
}
__global__ void settle(gravel_remote_channel_handle<transfer> of) { of.settle(threadIdx.x); }

void transfers() {
  const auto n_pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
  constexpr uint32_t each = 30;
  for (uint32_t capacity : {n_pes, 5 * n_pes + 1, 1000u}) {
    gravel_remote_channel<transfer> channel(capacity);
    auto* words = gravel_malloc<uint32_t>((32 + n_pes * each) * 4);
    uint32_t expected = 0;
    for (uint32_t from = 0; from < n_pes; ++from)
      for (uint32_t n = 0; n < each; ++n) expected += addressee(from, n, n_pes) == static_cast<int>(me);
    gravel_launch(carry, 1, 96, control{channel.handle(), each, expected, words, words + 16, words + 32});
    gravel_barrier_all();
    std::vector<uint32_t> seen(n_pes * each);
    gravel_copy(seen.data(), words + 32, seen.size() * 4);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < seen.size(); ++i)
      wrong += seen[i] != (addressee(i / each, i % each, n_pes) == static_cast<int>(me));
    expect(wrong == 0,
           std::to_string(wrong) + " transfers of a channel of " + std::to_string(capacity) + " did not come once");
    gravel_launch(settle, 1, n_pes, channel.handle());
    gravel_barrier_all();
    for (uint32_t left : channel.credits())
      expect(left == channel.share() && left == capacity / n_pes,
             std::to_string(left) + " credits of " + std::to_string(channel.share()));
    gravel_free(words);
  }
  if (n_pes > 1) expect_error("one element for each", [&] { gravel_remote_channel<transfer>(n_pes - 1); });
}

}  // namespace

int main() {
  gravel_init<gravel_channel_delivery<transfer>>();
  together();
  across_pes();
  while_busy();
  many_at_once();
  transfers();
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures));
  if (gravel_my_pe() == 0) printf("%s\n", all ? "FAILED" : "ok");
  gravel_finalize();
  return all ? 1 : 0;
}
