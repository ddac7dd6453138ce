// A job with one fault, which the command line chooses, at one PE; the other PEs do nothing wrong.
// test/scripts/failure_test.py runs it and checks that the job leaves nothing behind. Prints "begun" before the fault,
// if gravel_init is not a part of it, and "ready PE pid" when the moment for a signal has come.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include <gravel/channel.cuh>
#include <gravel/critical.cuh>
#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/taskgraph.cuh>
#include <gravel/worklist.cuh>
#include "test/support/own_memory.hpp"

namespace {

constexpr int threads = 128;
int victim = 1;
uint64_t messages = 10'000;

// --- handlers
// -------------------------------------------------------------------------------------------------------
__host__ __device__ uint64_t* counter(const gravel_t& g, uint64_t offset) {
  return reinterpret_cast<uint64_t*>(g.heap + offset);
}
struct count {
  static constexpr const char* name = "count";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where) const {
    gravel_inc(g, counter(g, where), static_cast<int>(g.my_pe));
  }
};
struct count_slowly {
  static constexpr const char* name = "count_slowly";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where) const {
#if !GRAVEL_ON_GPU
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    gravel_inc(g, counter(g, where), static_cast<int>(g.my_pe));
#endif
  }
};
struct thrower {
  static constexpr const char* name = "thrower";
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t) const {
#if !GRAVEL_ON_GPU
    throw std::runtime_error("the handler's own reason");
#endif
  }
};
struct host_thrower {
  static constexpr const char* name = "host_thrower";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t) const {
#if !GRAVEL_ON_GPU
    throw std::runtime_error("the handler's own reason");
#endif
  }
};
struct blocker {
  static constexpr const char* name = "blocker";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t) const { gravel_quiet(g); }
};
struct host_blocker {
  static constexpr const char* name = "host_blocker";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t) const {
#if !GRAVEL_ON_GPU
    gravel_barrier_all();
#endif
  }
};
struct breeder {
  static constexpr const char* name = "breeder";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where) const {
    for (int i = 0; i < 3; ++i) gravel_am<breeder>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), where);
  }
};
struct endless {
  static constexpr const char* name = "endless";
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t) const {
#if GRAVEL_ON_GPU
    for (;;) __nanosleep(1000);
#else
    for (;;) pause();
#endif
  }
};

struct stranger {  // gravel_init does not register it
  static constexpr const char* name = "stranger";
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t*, uint64_t) const {}
};

template <bool HOST>
struct without_context {
  static constexpr const char* name = HOST ? "without_context_on_host" : "without_context";
  static constexpr bool on_host = HOST;
  using context = uint64_t;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t* mine, uint64_t) const { ++*mine; }
};

// --- kernels
// --------------------------------------------------------------------------------------------------------
template <class Handler>
__global__ void send_handler(gravel_t g, uint64_t where, int pe, uint64_t each) {
  for (uint64_t i = 0; i < each; ++i) gravel_am<Handler>(g, pe, where);
}
__global__ void send_to_all(gravel_t g, uint64_t* cell, uint64_t each) {
  __shared__ gravel_block_sender<threads, 512> sender;
  sender.begin(g);
  for (uint64_t i = 0; i < each; ++i) sender.inc(cell, static_cast<int>((i + threadIdx.x) % g.n_pes));
  sender.end();
  gravel_inc(g, cell, static_cast<int>((g.my_pe + 1) % g.n_pes));
}
__global__ void put_at(gravel_t g, uint64_t* cell, int64_t bytes_off, int pe) {
  gravel_put(g, reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(cell) + bytes_off), uint64_t{1}, pe);
}
/// On the CPU backend deeper than any stack.
__device__ GRAVEL_NOINLINE unsigned deep(unsigned depth) {
  volatile char frame[1024];
  frame[depth % 1024] = 1;
  return depth == 0 ? 0u : deep(depth - 1) + static_cast<unsigned>(frame[depth % 1024]);
}
__global__ void descend(uint64_t* cell, unsigned depth) {
  if (threadIdx.x == 3) *cell = deep(depth);
}
__global__ void only_quiet(gravel_t g) { gravel_quiet(g); }
__global__ void bad_get(gravel_t g, uint64_t* cell, int pe) { gravel_get(g, cell, cell + (1ll << 40), pe); }
__global__ void bad_destination(gravel_t g, uint64_t* cell, int64_t bytes_off, int pe) {
  gravel_get(g, reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(cell) + bytes_off), cell, pe);
}
__global__ void strange_block_sender(gravel_t g, int pe) {
  __shared__ gravel_block_sender<threads, 512> sender;
  sender.begin(g);
  sender.template am<stranger>(pe, uint64_t{0});
  sender.end();
}
__global__ void bad_fetch(gravel_t g, uint64_t* cell, int pe) { gravel_fetch_add(g, cell, uint64_t{1}, pe); }
__global__ void bad_bulk(gravel_t g, char* to, uint64_t bytes, int pe) { gravel_put_bulk(g, to, to, bytes, pe); }
__global__ void failing(int) {
#if GRAVEL_ON_GPU
  __trap();
#else
  throw std::runtime_error("the kernel's own reason");
#endif
}
__global__ void bad_block_sender(gravel_t g, uint64_t* cell, int pe) {
  __shared__ gravel_block_sender<threads, 512> sender;
  sender.begin(g);
  sender.inc(cell, pe);
  sender.end();
}
__global__ void block_sender_in_dynamic_memory(gravel_t g, uint64_t* cell) {
  auto& sender = gravel_block_sender<threads, 512>::dynamic();
  sender.begin(g);
  sender.inc(cell, 0);
  sender.end();
}

__global__ void collectives_that_differ(gravel_t g, uint64_t* cell, int pe) {
  if (gravel_my_pe(g) == pe) gravel_sum_all_block(g, cell, cell, 1);
  else gravel_barrier_block(g);
}
__global__ void broadcast_from(gravel_t g, uint64_t* cell, int root) { gravel_broadcast_block(g, cell, 1, root); }

/// PE `pe` reduces one element more than the others.
__global__ void counts_that_differ(gravel_t g, uint64_t* cell, int pe) {
  gravel_reduce_all_block(g, cell, cell, gravel_my_pe(g) == pe ? 2 : 1);
}
__global__ void sync_of_team(gravel_t g, gravel_team_t team) { gravel_sync_block(g, team); }

/// One lane of many waits for a value that another PE writes at last.
__global__ void wait_for(gravel_t g, const int64_t* cell, int64_t value) {
  if (blockIdx.x == 1 && threadIdx.x == 3) gravel_wait_until(g, cell, GRAVEL_GE, value);
}
__global__ void wait_for_others(gravel_t g) { gravel_barrier_block(g); }

// --- faults
// ---------------------------------------------------------------------------------------------------------
void ready() {
  std::printf("ready %d %d\n", gravel_my_pe(), static_cast<int>(getpid()));
  std::fflush(stdout);
}
[[noreturn]] void sleep_forever() {
  for (;;) pause();
}
bool mine() { return gravel_my_pe() == victim; }
uint64_t* new_cell() { return gravel_malloc<uint64_t>(4096); }
uint64_t offset_of(const uint64_t* cell) {
  return static_cast<uint64_t>(reinterpret_cast<const char*>(cell) - gravel_handle().heap);
}

/// The program is wrong in one kernel of one PE.
template <class F>
void one_kernel(F launch) {
  uint64_t* cell = new_cell();
  if (mine()) launch(cell);
  gravel_barrier_all();
}
template <class Handler>
void one_handler(uint64_t each = 1) {
  one_kernel([=](uint64_t* cell) {
    gravel_launch(send_handler<Handler>, 1, 1, gravel_handle(), offset_of(cell), (victim + 1) % gravel_n_pes(), each);
  });
  gravel_wait_quiescent();
}

/// A slot as a broken producer would hand it over: filled by `fill`.
void hand_over_slot(const std::function<void(const gravel::detail::queue&, gravel::detail::slot_header*)>& fill) {
  const gravel::detail::queue& q = gravel_host_handle().direct;
  if (mine()) {
    const uint64_t ticket = q.claim();
    gravel::detail::slot_header* slot = q.slot(ticket);
    fill(q, slot);
    q.publish(ticket, slot, slot->n_rows, slot->n_units);
  }
  gravel_barrier_all();
}

/// A kernel, or a host thread, that claims a slot and never publishes it; `mark`: what is written where `published`
/// belongs.
__global__ void claim_slot(gravel::detail::queue q, uint64_t mark) { q.slot(q.claim())->published = mark; }
void lose_slot(const gravel::detail::queue& q, uint64_t mark) {
  if (mine() && !q.state) gravel_abort("there is no such queue");
  if (mine()) {
    gravel_launch(claim_slot, 1, 1, q, mark);
    sleep_forever();  // it asks for no flush, so no other party misses the slot
  }
  gravel_barrier_all();
}
void lose_slot_on_host() {
  if (mine()) {
    gravel_host_handle().direct.claim();
    sleep_forever();
  }
  gravel_barrier_all();
}

/// A PE waits for what PE 0 does when it gets a signal.
void wait_long(bool waits, void (*wait)(uint64_t* cell), void (*end_waits)(uint64_t* cell)) {
  static volatile std::sig_atomic_t signalled = 0;
  std::signal(SIGUSR1, [](int) { signalled = 1; });
  uint64_t* cell = new_cell();
  ready();
  if (waits) wait(cell);
  if (gravel_my_pe() == 0) {
    while (!signalled) usleep(10'000);
    end_waits(cell);
  }
  gravel_barrier_all();
}
void put_five(uint64_t* cell) {
  gravel_put(gravel_host_handle(), cell, uint64_t{5}, victim);
  gravel_quiet();
}
__global__ void take_all(gravel_channel_handle<uint32_t> from) {
  const auto warp = gravel_batch::converged_warp(threadIdx.x, blockDim.x);
  for (auto b = from.next(warp, 32); b.count != 0; b = from.next(warp, 32)) from.free(warp, b);
}
/// A kernel and a host thread take from an empty channel, which is closed when the cell changes.
void take_from_empty_channel(uint64_t* cell) {
  gravel_channel<uint32_t> c({.capacity = 1});
  gravel_launch(take_all, 1, 32, c.handle());
  std::thread closer([&] {
    gravel_wait_until(gravel_host_handle(), cell, GRAVEL_EQ, 5);
    c.close();
  });
  uint32_t element;
  if (c.take(element)) gravel_abort("an element that nobody has put");
  closer.join();
  gravel_synchronize();
}
void sync_in_kernel(uint64_t*) { gravel_launch(wait_for_others, 1, 32, gravel_handle()); }

void traffic() {
  uint64_t* cell = new_cell();
  ready();
  for (;;) {
    gravel_launch(send_to_all, 2, threads, gravel_handle(), cell, 2000ull);
    gravel_launch(send_handler<count>, 1, 32, gravel_handle(), offset_of(cell), (gravel_my_pe() + 1) % gravel_n_pes(),
                  uint64_t{10});
    gravel_barrier_all();
  }
}

/// As traffic, but without an end or a barrier: there are always packets under way.
void stream() {
  uint64_t* cell = new_cell();
  ready();
  gravel_launch(send_to_all, 2, threads, gravel_handle(), cell, ~0ull);
  gravel_synchronize();
}

/// Everybody to everybody, and the sum must be right.
void many() {
  const uint64_t n = uint64_t(gravel_n_pes());
  uint64_t* cell = new_cell();
  const uint64_t each = messages / (2 * threads);
  gravel_launch(send_to_all, 2, threads, gravel_handle(), cell, each);
  gravel_barrier_all();
  uint64_t got;
  gravel_copy(&got, cell, sizeof(got));
  const uint64_t all = gravel_sum_all(got), wanted = n * 2 * threads * (each + 1);
  if (all != wanted) gravel_abort(("got " + std::to_string(all) + " of " + std::to_string(wanted)).c_str());
}

/// A receiver that is slower than everybody, behind queues of a few slots.
void slow() {
  uint64_t* cell = new_cell();
  gravel_launch(send_handler<count_slowly>, 1, threads, gravel_handle(), offset_of(cell), victim, messages / threads);
  gravel_wait_quiescent();
  uint64_t got;
  gravel_copy(&got, cell, sizeof(got));
  const uint64_t wanted = mine() ? uint64_t(gravel_n_pes()) * threads * (messages / threads) : 0;
  if (got != wanted) gravel_abort(("got " + std::to_string(got) + " of " + std::to_string(wanted)).c_str());
}

// --- services
struct failing_service {
  static constexpr const char* name = "failing";
  static constexpr uint32_t threads = 32;
  struct message {
    uint64_t fails;
  };
  uint64_t* stuck = nullptr;
  __device__ void operator()(const gravel_service_block<failing_service>& here,
                             const gravel_service_batch<message>& batch) const {
    if (here.rank() != 0 || batch[0].fails == 0) return;
    if (batch[0].fails == 2) {
      if (stuck) gravel::detail::store_relaxed(stuck, uint64_t{1});
      for (gravel::detail::relax wait;; wait()) {  // for ever
      }
    }
#if GRAVEL_CUDA
    __trap();
#else
    throw std::runtime_error("the service block's own reason");
#endif
  }
};
struct other_service {
  static constexpr const char* name = "other";
  using message = failing_service::message;
  __device__ void operator()(const gravel_service_block<other_service>&, const gravel_service_batch<message>&) const {}
};
__global__ void send_to(gravel_service_handle<failing_service> to, int pe, uint32_t block, uint64_t fails) {
  gravel_service_send(to, pe, block, {fails});
}
/// A service that is closed while one of its service blocks does not return: in a job that goes on, close() waits
/// for what was sent; here an exception is on its way, which lets it go with all that was sent.
void close_with_stuck_block() {
  uint64_t* const stuck = new_cell();
  try {
    gravel_service<failing_service> service({stuck}, {.blocks = 2});
    if (mine()) gravel_launch(send_to, 1, 1, service.handle(), victim, 1u, uint64_t{2});
    for (uint64_t is = !mine(); !is;) gravel_copy(&is, stuck, sizeof(is));
    throw std::runtime_error("the program's own reason");
  } catch (const std::runtime_error&) {
  }
  gravel_barrier_all();
}
/// The victim sends to its own service, or to that of the next PE.
void use_service(int further, uint32_t block, uint64_t fails) {
  gravel_service<failing_service> service({}, {.blocks = 2});
  if (mine()) gravel_launch(send_to, 1, 1, service.handle(), (victim + further) % gravel_n_pes(), block, fails);
  service.close();
}

// --- worklists, task graphs and critical sections
__device__ void wait_for_gate(const uint64_t* gate) {
  for (gravel::detail::relax wait; gravel::detail::load_relaxed(gate) == 0; wait()) {
  }
}
/// PE 0 calls begin() and opens the gate when it gets a signal; all PEs call run(), in which the others wait for PE 0.
void run_behind_gate(uint64_t* gate, const std::function<void()>& begin, const std::function<void()>& run) {
  static volatile std::sig_atomic_t signalled = 0;
  std::signal(SIGUSR1, [](int) { signalled = 1; });
  ready();
  std::thread opener;
  if (gravel_my_pe() == 0) {
    begin();
    opener = std::thread([gate] {
      while (!signalled) usleep(10'000);
      gravel_put(gravel_host_handle(), gate, uint64_t{1}, 0);
      gravel_quiet();
    });
  }
  run();
  if (opener.joinable()) opener.join();
}

/// Expands a vertex only when the gate is open.
struct late_search {
  static constexpr const char* name = "late_search";
  using state = gravel::least_keys;
  state vertices;
  const uint64_t* gate;
  GRAVEL_DEVICE uint32_t begin(uint32_t, uint32_t key, uint64_t) const {
    wait_for_gate(gate);
    return key;
  }
  GRAVEL_DEVICE uint32_t along(uint32_t from, uint64_t) const { return from + 1; }
  GRAVEL_BOTH uint32_t limit_after(uint32_t key) const { return key + 1; }
  GRAVEL_BOTH uint32_t rank_of(uint32_t) const { return 0; }
};
/// Each PE has a vertex without edges; that of PE 0 is offered a key.
void wait_in_worklist() {
  uint64_t* const gate = new_cell();
  gravel::device_array<uint64_t> rows(std::vector<uint64_t>(2));
  gravel::device_array<uint32_t> none(std::vector<uint32_t>(1));
  const gravel::worklist_graph graph{rows.data(), none.data(), none.data(), gravel::vertex_code{10}, 1, 0};
  gravel_worklist<late_search> work(late_search{{}, gate}, graph, 0, {.execution = gravel_execution::asynchronous});
  work.start();
  run_behind_gate(
      gate, [&] { work.offer(0, 0); }, [&] { work.run(); });
}

struct gate_of_tasks {
  const uint64_t* gate;
};
struct late_task {
  static constexpr const char* name = "late task";
  gravel_return<uint64_t> to;
  template <class Here>
  __device__ void operator()(Here& here) const {
    wait_for_gate(here.constants().gate);
    here.add(to, 1);
  }
};
/// A single task, which PE 0 keeps.
void wait_in_shared_graph() {
  uint64_t* const gate = new_cell();
  gravel_shared_task_graph<gate_of_tasks, late_task> graph({gate}, {.max_depth = 2, .capacity = 993, .frames = 993});
  run_behind_gate(
      gate, [&] { graph.push(late_task{graph.result<uint64_t>()}); }, [&] { graph.run(); });
}

struct stuck_record {
  uint64_t value;
};
struct stuck_section {
  static constexpr const char* name = "stuck_section";
  GRAVEL_HANDLER void operator()(stuck_record&) const {
    for (gravel::detail::relax wait;; wait()) {  // for ever
    }
  }
};
using stuck_sections = gravel_critical_sections<stuck_record, stuck_section>;
__global__ void call_stuck(stuck_sections::handle_type to, uint32_t key) {
  gravel_critical_call<stuck_section>(to, key);
}
/// Two lanes call a section for a key of their PE. The first one runs it in place, the other one sends its call.
void call_stuck_section() {
  stuck_sections sections({.keys = 64, .blocks = 2, .place = gravel_critical_place::caller});
  if (mine()) gravel_launch(call_stuck, 1, 2, sections.handle(), static_cast<uint32_t>(victim));
  sections.close();
}

const std::map<std::string, void (*)()> faults = {
    {"none", [] { gravel_barrier_all(); }},
    {"idle",
     [] {
       ready();
       sleep_forever();
     }},
    {"interrupted",  // by signals that it handles, in whatever thread
     [] {
       std::signal(SIGUSR1, [](int) {});
       ready();
       std::this_thread::sleep_for(std::chrono::seconds(4));
       gravel_barrier_all();
     }},
    {"traffic", traffic},
    {"stream", stream},
    {"barrier",
     [] {
       ready();
       if (mine()) sleep_forever();
       gravel_barrier_all();
     }},
    {"finalize",
     [] {
       ready();
       if (mine()) sleep_forever();
     }},
    {"all-finalize",
     [] {
       gravel_barrier_all();
       ready();
     }},
    {"many", many},
    {"slow", slow},
    {"throw", [] { one_handler<thrower>(); }},
    {"throw-host", [] { one_handler<host_thrower>(); }},
    {"block", [] { one_handler<blocker>(); }},
    {"block-host", [] { one_handler<host_blocker>(); }},
    {"no-context", [] { one_handler<without_context<false>>(); }},
    {"no-context-host", [] { one_handler<without_context<true>>(); }},
    {"context-of-stranger",
     [] {
       if (mine()) gravel_set_context<stranger>(nullptr);
       gravel_barrier_all();
     }},
    {"breed", [] { one_handler<breeder>(); }},
    {"endless", [] { one_handler<endless>(); }},
    {"outside",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_handle(), c, int64_t{1} << 41, 0); }); }},
    {"before",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_handle(), c, -(int64_t{1} << 20), 0); }); }},
    {"misaligned",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_handle(), c, int64_t{4}, 0); }); }},
    {"pe-high",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_handle(), c, int64_t{0}, 99); }); }},
    {"pe-negative",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_handle(), c, int64_t{0}, -1); }); }},
    {"am-pe",
     [] {
       one_kernel([](uint64_t* c) {
         gravel_launch(send_handler<count>, 1, 1, gravel_handle(), offset_of(c), 99, uint64_t{1});
       });
     }},
    {"kernel", [] { one_kernel([](uint64_t*) { gravel_launch(failing, 1, 32, 0); }); }},
    // No call checks the kernel: the program waits for what that kernel has not done.
    {"kernel-unheard",
     [] {
       uint64_t* cell = new_cell();
       if (mine()) {
         gravel_launch(failing, 1, 32, 0);
         gravel_wait_until(gravel_host_handle(), cell, GRAVEL_NE, 0);
       }
       gravel_barrier_all();
     }},
    {"get", [] { one_kernel([](uint64_t* c) { gravel_launch(bad_get, 1, 1, gravel_handle(), c, 0); }); }},
    {"destination",
     [] {
       one_kernel([](uint64_t* c) { gravel_launch(bad_destination, 1, 1, gravel_handle(), c, int64_t{1} << 43, 0); });
     }},
    {"destination-misaligned",
     [] { one_kernel([](uint64_t* c) { gravel_launch(bad_destination, 1, 1, gravel_handle(), c, int64_t{4}, 0); }); }},
    {"stranger", [] { one_handler<stranger>(); }},
    {"stranger-by-block",
     [] { one_kernel([](uint64_t*) { gravel_launch(strange_block_sender, 1, threads, gravel_handle(), 0); }); }},
    {"stranger-from-host",
     [] { one_kernel([](uint64_t*) { gravel_am<stranger>(gravel_host_handle(), 0, uint64_t{0}); }); }},
    {"fetch", [] { one_kernel([](uint64_t* c) { gravel_launch(bad_fetch, 1, 1, gravel_handle(), c, 99); }); }},
    {"bulk",
     [] {
       one_kernel([](uint64_t* c) {
         gravel_launch(bad_bulk, 1, threads, gravel_handle(), reinterpret_cast<char*>(c), uint64_t{1} << 50, 0);
       });
     }},
    {"block-sender",
     [] { one_kernel([](uint64_t* c) { gravel_launch(bad_block_sender, 1, threads, gravel_handle(), c, 99); }); }},
    {"stack", [] { one_kernel([](uint64_t* c) { gravel_launch(descend, 1, 32, c, 500u); }); }},
    {"empty-handle",
     [] { one_kernel([](uint64_t* c) { gravel_launch(put_at, 1, 1, gravel_t{}, c, int64_t{0}, 0); }); }},
    {"empty-handle-sender",
     [] { one_kernel([](uint64_t* c) { gravel_launch(bad_block_sender, 1, threads, gravel_t{}, c, 0); }); }},
    {"empty-handle-quiet", [] { one_kernel([](uint64_t*) { gravel_launch(only_quiet, 1, 1, gravel_t{}); }); }},
    {"empty-handle-host", [] { one_kernel([](uint64_t* c) { gravel_put(gravel_t{}, c, uint64_t{1}, 0); }); }},
    {"block-sender-threads",
     [] { one_kernel([](uint64_t* c) { gravel_launch(bad_block_sender, 2, 2 * threads, gravel_handle(), c, 0); }); }},
    {"block-sender-memory",
     [] {
       one_kernel([](uint64_t* c) {
         gravel_launch(block_sender_in_dynamic_memory,
                       gravel_launch_config{.grid = 2, .block = threads, .shared_bytes = 1000}, gravel_handle(), c);
       });
     }},
    {"host-outside",
     [] { one_kernel([](uint64_t* c) { gravel_put(gravel_host_handle(), c + (1ll << 40), uint64_t{1}, 0); }); }},
    {"corrupt-slot",
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = 1;
         s->n_units = 3;
         q.rows(s)[0] = {gravel::detail::wide_kind(900), 0xfffffff0u, 7};
       });
     }},
    {"corrupt-runs",
     [] {
       hand_over_slot([](const gravel::detail::queue&, gravel::detail::slot_header* s) {
         s->n_rows = 0x7fffffff;
         s->n_units = 0x7fffffff;
       });
     }},
    {"corrupt-kind",  // additions to bytes
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {{2, gravel::detail::op::add, uint8_t(gravel::detail::value_type::u8), 0},
                         gravel::detail::sink_of(0, gravel::detail::sink_kind::device),
                         2};
       });
     }},
    {"corrupt-index",  // of three increments in the last window, which no heap has
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         using namespace gravel::detail;
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {update_kind(op::inc, value_type::u64).in_window(heap_window::last),
                         sink_of(0, sink_kind::device), 3};
         const uint32_t index[] = {0xffffffff, 0xffffffff, 0xffffffff};
         std::copy_n(index, 3, words_at(q.payload(s)));
       });
     }},
    {"wait-kernel",
     [] {
       wait_long(
           mine(),
           [](uint64_t* c) {
             gravel_launch(wait_for, 2, 32, gravel_handle(), reinterpret_cast<int64_t*>(c), int64_t{5});
           },
           put_five);
     }},
    {"wait-host",
     [] {
       wait_long(
           mine(), [](uint64_t* c) { gravel_wait_until(gravel_host_handle(), c, GRAVEL_EQ, 5); }, put_five);
     }},
    {"wait-collective", [] { wait_long(gravel_my_pe() != 0, sync_in_kernel, sync_in_kernel); }},
    {"wait-channel", [] { wait_long(mine(), take_from_empty_channel, put_five); }},
    {"wait-worklist", wait_in_worklist},
    {"wait-tasks", wait_in_shared_graph},
    {"critical-hangs", call_stuck_section},
    {"lost-slot", [] { lose_slot(gravel_handle().direct, 0); }},
    {"lost-block-slot", [] { lose_slot(gravel_handle().block, 0); }},
    {"overwritten-slot", [] { lose_slot(gravel_handle().direct, 12345); }},
    {"lost-host-slot", lose_slot_on_host},
    {"corrupt-row-of-handler",
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {gravel::detail::am_kind(12345, 4),
                         gravel::detail::sink_of(0, gravel::detail::sink_kind::device), 4};
       });
     }},
    {"corrupt-message",
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {gravel::detail::wide_kind(1), gravel::detail::sink_of(0, gravel::detail::sink_kind::device),
                         1};
         *q.payload(s) = {{gravel::detail::make_word0(gravel::detail::op::put, uint8_t(gravel::detail::value_type::u64),
                                                      (1ull << 44) - 8),
                           7}};
       });
     }},
    {"corrupt-operation",
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {gravel::detail::wide_kind(1), gravel::detail::sink_of(0, gravel::detail::sink_kind::device),
                         1};
         *q.payload(s) = {{~0ull, ~0ull}};
       });
     }},
    {"corrupt-handler",
     [] {
       hand_over_slot([](const gravel::detail::queue& q, gravel::detail::slot_header* s) {
         s->n_rows = s->n_units = 1;
         q.rows(s)[0] = {gravel::detail::wide_kind(1), gravel::detail::sink_of(0, gravel::detail::sink_kind::device),
                         1};
         *q.payload(s) = {{gravel::detail::make_word0(gravel::detail::op::am, 0, 12345), 0}};
       });
     }},
    {"malloc-huge", [] { gravel_malloc<char>(1ull << 46); }},
    {"malloc-differs", [] { gravel_malloc<char>(mine() ? 512 : 256); }},
    {"double-free",
     [] {
       uint64_t* cell = new_cell();
       gravel_free(cell);
       gravel_free(cell);
     }},
    {"malloc-caught",  // fails everywhere, is undone everywhere, and the program goes on
     [] {
       uint64_t* before = new_cell();
       int caught = 0;
       try {
         gravel_malloc<char>(1ull << 46);
       } catch (const gravel::detail::error&) {
         ++caught;
       }
       uint64_t* after = new_cell();
       if (caught != 1 || offset_of(after) != offset_of(before) + 4096) gravel_abort("the heap has changed");
       gravel_free(after);
       gravel_free(before);
     }},
    {"malloc-host",  // twice what this host has for each of its PEs, of a heap that is only reserved
     [] {
       const uint64_t host =
           static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
       gravel_malloc<char>(2 * host / static_cast<uint64_t>(gravel_n_pes()));
     }},
    {"heap",  // grows and shrinks all the time
     [] {
       ready();
       for (;;) gravel_free(gravel_malloc<char>(GRAVEL_CUDA ? 256 << 20 : 6 << 20));
     }},
    {"register",  // registers memory of its own and takes it back all the time
     [] {
       const own_memory memory({3, 1});
       ready();
       for (;;) gravel_unregister(gravel_register(memory.at(), memory.bytes()));
     }},
    {"malloc-device", [] { gravel_malloc<char>(1ull << 42); }},  // more than any GPU has
    {"free-null", [] { gravel_free(nullptr); }},
    {"free-null-one",
     [] {
       uint64_t* cell = new_cell();
       gravel_free(mine() ? nullptr : cell);
     }},
    {"free-foreign",
     [] {
       uint64_t* cell = new_cell();
       uint64_t here = 0;
       gravel_free(mine() ? &here : cell);
     }},
    {"free-inside",
     [] {
       uint64_t* cell = new_cell();
       gravel_free(mine() ? cell + 1 : cell);
     }},
    {"free-different",
     [] {
       uint64_t *one = new_cell(), *other = new_cell();
       gravel_free(mine() ? one : other);
     }},
    {"barrier-too-many",
     [] {
       if (mine()) gravel_barrier_all();
     }},
    {"sum-max",
     [] {
       if (mine()) gravel_max_all(7);
       else gravel_sum_all(5);
     }},
    {"malloc-barrier",
     [] {
       if (mine()) new_cell();
       else gravel_barrier_all();
     }},
    {"kernels-differ",
     [] {
       uint64_t* cell = new_cell();
       gravel_launch(collectives_that_differ, 1, threads, gravel_handle(), cell, victim);
       gravel_barrier_all();
     }},
    {"kernel-root",
     [] { one_kernel([](uint64_t* c) { gravel_launch(broadcast_from, 1, threads, gravel_handle(), c, 99); }); }},
    {"kernel-counts",
     [] {
       uint64_t* cell = new_cell();
       gravel_launch(counts_that_differ, 1, threads, gravel_handle(), cell, victim);
       gravel_barrier_all();
     }},
    {"kernel-no-team",
     [] {
       const gravel_team_t rest = gravel_team_split_strided(gravel_team_world(), 0, 1, victim);
       gravel_launch(sync_of_team, 1, threads, gravel_handle(), rest);
       gravel_barrier_all();
     }},
    {"kernel-team-over",
     [] {
       const gravel_team_t all = gravel_team_split_strided(gravel_team_world(), 0, 1, gravel_n_pes());
       gravel_team_destroy(all);
       one_kernel([&](uint64_t*) { gravel_launch(sync_of_team, 1, threads, gravel_handle(), all); });
     }},
    {"splits-differ", [] { gravel_team_split_strided(gravel_team_world(), 0, 1, mine() ? 1 : 2); }},
    {"service", [] { use_service(0, 1, 0); }},
    {"service-fails", [] { use_service(0, 1, 1); }},
    {"service-fails-elsewhere", [] { use_service(1, 1, 1); }},
    // Without handlers on hosts: quiescence is decided on the devices where all reach each other on the route peer.
    {"devices-quiescence",
     [] {
       ready();
       if (mine()) sleep_forever();
       gravel_wait_quiescent();
     }},
    {"devices-differ",
     [] {
       if (mine()) gravel_barrier_all();
       else gravel_wait_quiescent();
     }},
    {"devices-service-hangs", [] { use_service(0, 1, 2); }},
    {"service-hangs", [] { use_service(0, 1, 2); }},
    {"service-hangs-elsewhere", [] { use_service(1, 0, 2); }},
    {"service-hangs-closed", close_with_stuck_block},
    {"service-no-block", [] { use_service(0, 2, 0); }},
    {"service-names",
     [] {
       if (mine()) gravel_service<other_service> service({}, {.blocks = 2});
       else gravel_service<failing_service> service({}, {.blocks = 2});
     }},
    {"service-shapes", [] { gravel_service<failing_service> service({}, {.blocks = 2, .chunks = mine() ? 8u : 4u}); }},
    {"service-barrier",
     [] {
       if (mine()) gravel_barrier_all();
       else gravel_service<failing_service> service({}, {.blocks = 2});
     }},
    {"service-open",
     [] {
       gravel_service<failing_service> service({}, {.blocks = 2});
       gravel_finalize();
     }},
    {"fork",  // a child that calls exit(), and one that is refused what only PEs may
     [] {
       for (bool calls : {false, true}) {
         const pid_t child = fork();
         if (child == 0) {
           if (calls) gravel_barrier_all();
           std::exit(7);
         }
         int status = 0;
         waitpid(child, &status, 0);
         if (!WIFEXITED(status) || WEXITSTATUS(status) != (calls ? 1 : 7))
           gravel_abort("the child did not end as it should");
       }
       gravel_barrier_all();
     }},
    {"fork-killed",  // a PE dies that has left a child behind
     [] {
       ready();
       if (mine() && fork() == 0) {
         sleep(3);
         _exit(0);
       }
       gravel_barrier_all();
       sleep_forever();
     }},
    {"exit",
     [] {
       if (mine()) std::exit(0);
       gravel_barrier_all();
     }},
    {"exit-3",
     [] {
       if (mine()) std::exit(3);
       gravel_barrier_all();
     }},
    {"quick-exit",
     [] {
       if (mine()) _exit(0);
       gravel_barrier_all();
     }},
    {"crash",
     [] {
       if (mine()) std::abort();
       gravel_barrier_all();
     }},
    {"exception",
     [] {
       if (mine()) throw std::runtime_error("the program's own reason");
       gravel_barrier_all();
     }},
    {"thread-exception",
     [] {
       if (mine()) std::thread([] { throw std::runtime_error("the program's own reason"); }).join();
       gravel_barrier_all();
     }},
    {"abort",
     [] {
       if (mine()) gravel_abort("the program gives up", 7);
       gravel_barrier_all();
     }},
    {"init-twice",
     [] {
       if (mine()) gravel_init<>();
       gravel_barrier_all();
     }},
};

}  // namespace

int main(int argc, char** argv) {
  std::string fault;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--fault") fault = value;
    else if (option == "--pe") victim = std::atoi(value);
    else if (option == "--messages") messages = std::strtoull(value, nullptr, 10);
    else {
      fault.clear();
      i = argc;
    }
  }
  if (fault.empty()) {
    std::fprintf(stderr,
                 "Usage: failure_job --fault FAULT [--pe PE] [--messages N], for test/scripts/failure_test.py\n");
    return 2;
  }
  if (fault == "before-init") gravel_barrier_all();
  // Which PE this is, before gravel_init says so.
  const char* rank = std::getenv("PMIX_RANK");
  if (fault == "other-handlers" && rank && std::atoi(rank) == victim) gravel_init<breeder, count>();
  else if (fault.starts_with("devices-")) gravel_init<count, gravel_service_delivery<failing_service>>();
  else
    gravel_init<count, count_slowly, thrower, host_thrower, blocker, host_blocker, breeder, endless,
                without_context<false>, without_context<true>, gravel_service_delivery<failing_service>,
                gravel_service_delivery<other_service>, gravel_worklist_delivery<late_search>,
                stuck_sections::delivery>();
  std::puts("begun");
  std::fflush(stdout);
  gravel::detail::device_array<uint64_t> of_whole_program(
      std::vector<uint64_t>(100));  // destroyed after gravel_finalize
  if (fault != "other-handlers" && fault != "before-init" && fault != "after-finalize" && fault != "stale-handle" &&
      fault != "array-late" && fault != "service-late") {
    const auto found = faults.find(fault);
    if (found == faults.end()) gravel_abort(("no fault is called " + fault).c_str());
    found->second();
  }
  const gravel_t kept = gravel_host_handle();
  gravel_finalize();
  if (fault == "after-finalize") gravel_barrier_all();
  if (fault == "array-late") gravel::detail::device_array<uint64_t> late(uint64_t{1});
  if (fault == "service-late") gravel_service<failing_service> late({}, {.blocks = 2});
  if (fault == "stale-handle") gravel_put(kept, reinterpret_cast<uint64_t*>(kept.heap), uint64_t{1}, 0);
  std::printf("done\n");
}
