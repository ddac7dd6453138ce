// device/settle.cuh under seeds: PEs that wait together for the end, while handlers take messages from rings and from
// queues, keep them for some time, and send on. Each PE is a block, and so are all handlers together: blocks and lanes
// take turns in an order drawn from the seed.
#include "device/settle.cuh"

#include <stdexcept>

#include "device/cpu/simt_block.hpp"
#include "test/support/catch.hpp"
#include "test/support/seeds.hpp"
#include "test/support/shared_pes.hpp"

using namespace gravel::detail;
using simt::inner::random_numbers;

namespace {

constexpr uint32_t calls = 3, most_pes = 4, most_blocks = 2;

/// A PE's part that is not in `peers`. A queue is a list of what was sent, by ticket; the aggregator says how much of
/// it is applied.
struct settling_pe {
  alignas(64) queue_control control{};
  queue_state states[3]{};
  std::vector<uint32_t> queued;  ///< hops
  device_counters counters{};
  service_block blocks[most_blocks]{};
  std::vector<uint32_t> served[most_blocks];
  settle_view view{};
};

struct world {
  std::vector<std::unique_ptr<shared_pe>> pes;
  settling_pe more[most_pes];
  uint32_t n, slowness;
  uint64_t in_flight = 0, handled = 0, begun = 0, returned = 0, early = 0, by_queue = 0, by_service = 0;
  uint64_t reported[most_pes]{};

  world(uint32_t n_pes, uint32_t slow)
      : pes(start(std::vector<uint32_t>(n_pes), {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, 64, 1 << 16)),
        n(n_pes),
        slowness(slow) {
    for (uint32_t pe = 0; pe < n; ++pe) {
      settling_pe& m = more[pe];
      const peers& routes = *pes[pe]->routes;
      gravel_t& g = m.view.g;
      g.my_pe = pe;
      g.n_pes = n;
      g.counters = &m.counters;
      g.peers = routes.links();
      const auto queue_of = [&](uint32_t i) { return queue{&m.control, &m.states[i], nullptr, {64, 8, 4, 1}}; };
      g.direct = queue_of(0);
      g.block = queue_of(1);
      m.view.of_handlers = queue_of(2);
      m.view.all = routes.rendezvous();
      m.view.lines = routes.lines();
      m.view.n_lines = routes.n_sources();
      m.view.n_services = 1;
      m.view.service[0] = {m.blocks, most_blocks};
    }
  }

  /// Sends from `pe` by a way drawn: a ticket, then the message, with switches to other lanes in between.
  void send(uint32_t pe, uint32_t hops, random_numbers& draw) {
    settling_pe& m = more[pe];
    ++in_flight;
    const uint64_t way = draw.below(6);
    if (way == 0) {  // as if no ring had room
      ++m.states[2].tickets;
      ++by_queue;
      pause(draw);
      m.queued.push_back(hops);
      return;
    }
    if (way == 1) {
      const uint64_t block = draw.below(most_blocks);
      ++(draw.below(2) ? m.blocks[block].near.tickets : m.blocks[block].far_tickets);
      ++by_service;
      pause(draw);
      m.served[block].push_back(hops);
      return;
    }
    const peer_link& to = m.view.g.peers[draw.below(n)];
    const uint64_t ticket = to.line->tickets++;
    for (relax wait; !to.ring.is_free(ticket); wait()) {
    }
    pause(draw);
    peer_ring::payload(to.ring.chunk(ticket))->word[0] = hops;
    to.ring.publish(ticket, {wide_kind(1), sink_of(to.pe, sink_kind::device), 1});
  }
  void pause(random_numbers& draw) const {
    relax wait;
    for (uint64_t i = draw.below(slowness); i != 0; --i) wait();
  }
  /// The step of a handler or a service block for a message, before the message is marked as done.
  void handle(uint32_t pe, uint32_t hops, random_numbers& draw) {
    pause(draw);
    if (hops) send(pe, hops - 1, draw);
    pause(draw);
    ++handled;
    --in_flight;
  }

  bool goes_on() const { return load_relaxed(&returned) < uint64_t{n} * calls; }
  /// A lane for each ring.
  void serve_ring(uint32_t source, uint32_t pe, random_numbers& draw) {
    const peer_ring& ring = pes[pe]->routes->sources()[source];
    uint64_t ticket = 0;
    for (relax wait; goes_on(); wait())
      if (ring.arrived(ticket)) {
        handle(pe, static_cast<uint32_t>(peer_ring::payload(ring.chunk(ticket))->word[0]), draw);
        ring.mark_done(ticket++);
        wait.reset();
      }
  }
  void serve_queue(uint32_t pe, random_numbers& draw) {
    settling_pe& m = more[pe];
    uint64_t next = 0;
    for (relax wait; goes_on(); wait())
      if (next < m.queued.size()) {
        handle(static_cast<uint32_t>(draw.below(n)), m.queued[next], draw);
        store_release(&m.control.plane[0].flush_done, ++next);
        wait.reset();
      }
  }
  void serve_service(uint32_t pe, uint32_t block, random_numbers& draw) {
    settling_pe& m = more[pe];
    uint64_t next = 0;
    for (relax wait; goes_on(); wait())
      if (next < m.served[block].size()) {
        handle(pe, m.served[block][next], draw);
        store_release<scope::device>(&m.blocks[block].near_done, ++next);
        wait.reset();
      }
  }
  /// Lane 0 of a PE's block, before a call.
  void begin(uint32_t pe, random_numbers& draw) {
    for (uint64_t i = draw.below(3); i != 0; --i) {
      const auto hops = static_cast<uint32_t>(draw.below(12));
      begun += hops + 1;
      send(pe, hops, draw);
    }
    if (draw.below(2) == 0) pause(draw);
  }
};

void run(world& w, uint64_t seed) {
  const uint32_t pe = blockIdx.x;
  random_numbers draw(seed * 1024 + pe * settle_threads + threadIdx.x);
  if (pe == w.n) {
    const uint32_t rings = w.n * w.n, lane = threadIdx.x;
    if (lane < rings) w.serve_ring(lane / w.n, lane % w.n, draw);
    else if (lane < rings + w.n) w.serve_queue(lane - rings, draw);
    else if (lane < rings + w.n + w.n * most_blocks)
      w.serve_service((lane - rings - w.n) / most_blocks, (lane - rings - w.n) % most_blocks, draw);
    return;
  }
  for (uint32_t call = 1; call <= calls; ++call) {
    if (threadIdx.x == 0) w.begin(pe, draw);
    __syncthreads();
    settle<settling::quiescence>(w.more[pe].view, call, &w.reported[pe]);
    if (threadIdx.x == 0) {
      w.early += w.in_flight != 0;
      if (w.reported[pe] != call) throw std::runtime_error("it has not reported");
      ++w.returned;
      // No PE sends before all have checked.
      for (relax wait; load_relaxed(&w.returned) < uint64_t{w.n} * call; wait()) {
      }
    }
    __syncthreads();
  }
}

}  // namespace

// Lanes change words in turn, and all poll.
TEST_CASE("a quiet polls every ring and queue of its PE") {
  constexpr uint32_t most = max_peers;
  ring_line lines[most]{};
  queue_state direct{}, block{};
  device_counters counters{};
  uint32_t polls = 0, wrong = 0;
  simt::launch(1, 32, {}, [&] {
    rendezvous_view v{};
    v.g.direct.state = &direct;
    v.g.block.state = &block;
    v.g.counters = &counters;
    v.lines = lines;
    const auto expect = [&](bool applied) {
      const bool all = __all_sync(~0u, seems_applied(v));
      if (threadIdx.x == 0) {
        ++polls;
        wrong += all != applied;
      }
      __syncwarp();
    };
    const auto add = [](uint64_t& word) {
      if (threadIdx.x == 0) word += uint64_t{1} << 32;
      __syncwarp();
    };
    for (v.n_lines = 1; v.n_lines <= most; ++v.n_lines) {
      for (uint32_t i = 0; i < most; ++i) {
        add(lines[i].tickets);
        expect(i >= v.n_lines);
        add(lines[i].applied_below);
        expect(true);
      }
      for (queue_state* q : {&direct, &block}) {
        add(q->tickets);
        expect(false);
        add(q->flushed_below);
        expect(true);
      }
    }
    v.n_lines = most;
    add(counters.gets.tickets);
    expect(false);
  });
  CHECK(polls == most * (2 * most + 4) + 1);
  CHECK(wrong == 0);
}

TEST_CASE("a barrier of more PEs than a warp has lanes waits for all of them") {
  constexpr uint32_t n = 40, barriers = 1 + of_seeds(2);
  const auto pes = start(std::vector<uint32_t>(n), {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, 64, 1 << 16);
  std::vector<rendezvous_view> views(n);
  queue_control control{};
  std::vector<queue_state> states(n);
  std::vector<device_counters> counters(n);
  for (uint32_t pe = 0; pe < n; ++pe) {
    const peers& routes = *pes[pe]->routes;
    rendezvous_view& v = views[pe];
    v.g.my_pe = pe;
    v.g.n_pes = n;
    v.g.counters = &counters[pe];
    v.g.peers = routes.links();
    v.g.direct = v.g.block = queue{&control, &states[pe], nullptr, {64, 8, 4, 1}};
    v.all = routes.rendezvous();
    v.lines = routes.lines();
    v.n_lines = routes.n_sources();
    REQUIRE(v.all.n == n);
  }
  for (uint64_t seed = 1; seed <= of_seeds(3); ++seed) {
    uint64_t entered[n]{}, reported[n]{};
    uint32_t early = 0;
    for (uint32_t pe = 0; pe < n; ++pe)
      std::memset(const_cast<peer_words*>(views[pe].all.mine), 0, n * sizeof(peer_words));
    simt::launch_options options{};
    options.seed = seed;
    options.cooperative = true;
    simt::launch(n, settle_threads, options, [&] {
      const uint32_t pe = blockIdx.x;
      random_numbers draw(seed * 128 + pe);
      for (uint64_t call = 1; call <= barriers; ++call) {
        if (threadIdx.x == 0) {
          relax wait;
          for (uint64_t i = draw.below(20); i != 0; --i) wait();
          store_relaxed(&entered[pe], call);
        }
        __syncthreads();
        settle<settling::barrier>(views[pe], call, &reported[pe]);
        if (threadIdx.x == 0)
          for (const uint64_t& other : entered) early += load_relaxed(&other) < call;
        __syncthreads();
      }
    });
    REQUIRE(early == 0);
  }
}

TEST_CASE("quiescence among peers ends, and not while a message is under way") {
  uint64_t by_queue = 0, by_service = 0, handled = 0;
  for (uint32_t n : {2, 3, 4})
    for (uint32_t slowness : {1, 6, 40})
      for (uint64_t seed = 1; seed <= of_seeds(25); ++seed) {
        INFO(n << " PEs, slowness " << slowness << ", seed " << seed);
        world w(n, slowness);
        simt::launch_options options{};
        options.seed = seed;
        options.cooperative = true;
        simt::launch(n + 1, settle_threads, options, [&] { run(w, seed); });
        REQUIRE(w.early == 0);
        REQUIRE(w.in_flight == 0);
        REQUIRE(w.handled == w.begun);
        by_queue += w.by_queue;
        by_service += w.by_service;
        handled += w.handled;
      }
  CHECK(by_queue > of_seeds(100));
  CHECK(by_service > of_seeds(100));
  CHECK(handled > by_queue + by_service);
}
