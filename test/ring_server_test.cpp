// The route peer as a whole, on the CPU backend and in one process: PEs with kernels on threads of their own push into each
// other's rings, directly and by block senders, and the threads that serve the rings run handlers which send on. For
// ThreadSanitizer these are the only real threads on both sides of a ring.
#include "host/pe/ring_server.hpp"

#include <atomic>

#include "host/gravel.cuh"
#include "test/catch.hpp"
#include "test/shared_pes.hpp"

using namespace gravel;

namespace {

constexpr uint32_t n_pes = 3, words = 64, lanes = 64, blocks = 2, each = 8, hops = 4;
constexpr uint64_t sent_by_one = uint64_t{lanes} * blocks * each;

/// Counts itself in word 0 of this PE's heap, and goes on to the next PE, or stays.
struct wander {
  static constexpr const char* name = "wander";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t left, uint32_t stays) const {
    gravel_local_add(g, reinterpret_cast<uint64_t*>(g.heap), uint64_t{1});
    if (left) gravel_am<wander>(g, static_cast<int>(stays ? g.my_pe : (g.my_pe + 1) % g.n_pes), left - 1, stays);
  }
};
/// Two sizes of message take two chunks.
struct wander_far {
  static constexpr const char* name = "wander far";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t left, uint64_t, uint64_t) const {
    gravel_local_add(g, reinterpret_cast<uint64_t*>(g.heap) + 1, uint64_t{1});
    if (left) gravel_am<wander_far>(g, static_cast<int>((g.my_pe + 1) % g.n_pes), left - 1, 0, 0);
  }
};
struct thrower {
  static constexpr const char* name = "thrower";
  GRAVEL_HANDLER void operator()(const gravel_t&, uint32_t) const { throw std::runtime_error("its own reason"); }
};
using handlers = handler_list<wander, wander_far>;

struct wandering_pe {
  device_counters counters{};
  device_error error{};
  gravel_t kernel{}, handler{};
  uint64_t applied = 0, rounds = 0;

  wandering_pe(uint32_t pe, shared_pe& of) {
    kernel.stamp = valid_stamp;
    kernel.my_pe = pe;
    kernel.n_pes = n_pes;
    kernel.heap = reinterpret_cast<char*>(of.heap.get());
    kernel.heap_bytes = words * sizeof(uint64_t);
    kernel.counters = &counters;
    kernel.error = &error;
    kernel.self_in_place = true;
    kernel.handlers = handler_set::all();
    kernel.peers = of.routes->links();
    kernel.peer_pes = of.routes->pes();
    kernel.n_peers = of.routes->n_mapped();
    kernel.from = sender::kernel;
    handler = kernel;
    handler.from = sender::handler;
  }
};

void send(const gravel_t& g) {
  __shared__ gravel_block_sender<lanes, 512> sender;
  sender.begin(g);
  auto* const table = reinterpret_cast<uint64_t*>(g.heap) + 2;
  for (uint32_t i = 0; i < each; ++i) {
    const int to = static_cast<int>((threadIdx.x + i) % n_pes);
    gravel_am<wander>(g, to, hops, i % 2);
    sender.am<wander>(to, hops, i % 2);
    sender.am<wander_far>(to, hops, 0, 0);
    sender.inc(table + (threadIdx.x + i) % (words - 2), to);
    gravel_inc(g, table + i, to);
  }
  sender.end();
  flush_peers(g, lane_group::active());
}

void send_and_count(uint64_t seed) {
  // The own rings hold all that there is, so that no handler ever needs the queue, which is not here.
  const auto shared = start({0, 0, 0}, {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, words, 64 << 20);
  std::vector<std::unique_ptr<wandering_pe>> pes;
  for (uint32_t pe = 0; pe < n_pes; ++pe) pes.push_back(std::make_unique<wandering_pe>(pe, *shared[pe]));
  std::atomic<uint32_t> running{n_pes};
  std::vector<std::jthread> threads;
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    threads.emplace_back([&, pe] {
      simt::launch_options options{};
      options.threads = 2;
      options.seed = seed ? seed + pe : 0;
      simt::launch(blocks, lanes, options, [g = pes[pe]->kernel] { send(g); });
      --running;
    });
    threads.emplace_back([&, pe] {
      receiver_setup setup{};
      setup.device_handle = pes[pe]->handler;
      setup.peer_sources = shared[pe]->routes->sources();
      setup.n_peer_sources = shared[pe]->routes->n_sources();
      setup.own_source = shared[pe]->routes->own_source();
      simt::launch_options options{};
      options.seed = seed ? seed + n_pes + pe : 0;
      ring_server server(setup, options);
      // Done when all PEs' rings are: read as quiescence reads them, what is applied before what is sent, and twice.
      uint64_t last = 0;
      const auto done = [&] {
        if (running != 0) return false;
        uint64_t applied = 0, tickets = 0;
        for (const auto& p : shared) applied += p->routes->read().applied;
        for (const auto& p : shared) tickets += p->routes->read().tickets;
        return applied == tickets && std::exchange(last, tickets) == tickets;
      };
      for (relax wait; !done(); wait())
        if (server.serve<handlers>()) wait.reset();
    });
  }
  threads.clear();

  uint64_t wandered = 0, far = 0, increments = 0, counted = 0;
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    REQUIRE(pes[pe]->error.code == 0);
    const uint64_t* const heap = shared[pe]->heap.get();
    wandered += heap[0];
    far += heap[1];
    for (uint32_t i = 2; i < words; ++i) increments += heap[i];
    counted += pes[pe]->counters.in_place() + pes[pe]->counters.to_peers();
  }
  REQUIRE(wandered == n_pes * sent_by_one * 2 * (hops + 1));
  REQUIRE(far == n_pes * sent_by_one * (hops + 1));
  REQUIRE(increments == n_pes * sent_by_one * 2);
  REQUIRE(counted == wandered + far + increments);  // each message in one of the two
}

}  // namespace

TEST_CASE("what kernels and handlers push arrives once") { send_and_count(0); }
TEST_CASE("what kernels and handlers push arrives once, whatever the order of lanes") {
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t seeds = 1;
#else
  constexpr uint64_t seeds = 4;
#endif
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    send_and_count(seed * 1000);
  }
}

TEST_CASE("what a PE sends to itself through its own ring does not count as sent to peers") {
  const auto shared = start({0}, {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, words, 1 << 20);
  wandering_pe pe(0, *shared[0]);
  pe.kernel.n_pes = pe.handler.n_pes = 1;
  receiver_setup setup{};
  setup.device_handle = pe.handler;
  setup.peer_sources = shared[0]->routes->sources();
  setup.n_peer_sources = shared[0]->routes->n_sources();
  setup.own_source = shared[0]->routes->own_source();
  ring_server server(setup, {});
  simt::launch(1, lanes, {}, [&] {
    __shared__ gravel_block_sender<lanes, 512> sender;
    sender.begin(pe.kernel);
    sender.am<wander>(0, 1, 1);
    sender.end();
    gravel_am<wander>(pe.kernel, 0, 0, 0);
  });
  const auto left = [&] { return shared[0]->routes->read().applied != shared[0]->routes->read().tickets; };
  for (uint32_t rounds = 0; left() && rounds < 1000; ++rounds) server.serve<handlers>();
  CHECK(shared[0]->heap[0] == 3 * lanes);
  CHECK(pe.counters.in_place() == 3 * lanes);
  CHECK(pe.counters.to_peers() == 0);
}

TEST_CASE("a handler that throws is named, also when it came through a ring") {
  const auto shared = start({0, 0}, {with({{"GRAVEL_ROUTES", "peer"}})});
  const peer_link& link = shared[0]->routes->links()[1];
  am_message<thrower> message;
  message.fill(7u);
  store_message(words_at(peer_ring::payload(link.ring.chunk(0))), message.data);
  link.ring.publish(0, {message.kind, sink_of(1, sink_kind::device), 1});
  receiver_setup setup{};
  gravel_t& g = setup.device_handle;
  g.my_pe = 1;
  g.n_pes = 2;
  g.heap = reinterpret_cast<char*>(shared[1]->heap.get());
  g.heap_bytes = 512;
  g.from = sender::handler;
  g.peers = shared[1]->routes->links();
  setup.peer_sources = shared[1]->routes->sources();
  setup.n_peer_sources = setup.own_source = shared[1]->routes->n_sources();
  ring_server server(setup, {});
  std::string what;
  try {
    server.serve<handler_list<thrower>>();
  } catch (const error& e) {
    what = e.what();
  }
  CHECK(what == "handler 'thrower' threw: its own reason");
}
