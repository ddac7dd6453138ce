// The route peer as a whole, on the CPU backend and in one process: PEs with kernels on threads of their own push into
// each other's rings, directly and by block senders, and the threads that serve the rings run handlers which send on.
// For ThreadSanitizer these are the only real threads on both sides of a ring.
#include "host/pe/ring_server.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <gravel/gravel.cuh>
#include "device/cpu/simt_block.hpp"
#include "test/support/catch.hpp"
#include "test/support/seeds.hpp"
#include "test/support/shared_pes.hpp"

using namespace gravel::detail;

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
    kernel.heap = reinterpret_cast<char*>(of.heap);
    kernel.heap_bytes = words * sizeof(uint64_t);
    kernel.counters = &counters;
    kernel.error = &error;
    kernel.self_in_place = true;
    kernel.handlers = handler_set::all();
    kernel.peers = of.routes->links();
    kernel.peer_pes = of.routes->pes();
    kernel.lines = of.routes->lines();
    kernel.n_lines = of.routes->n_sources();
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
      ring_server rings(setup, options);
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
        if (rings.serve<handlers>()) wait.reset();
    });
  }
  threads.clear();

  uint64_t wandered = 0, far = 0, increments = 0, counted = 0;
  for (uint32_t pe = 0; pe < n_pes; ++pe) {
    REQUIRE(pes[pe]->error.code == 0);
    const uint64_t* const heap = shared[pe]->heap;
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

TEST_CASE("messages through the own ring do not count as sent to peers") {
  const auto shared = start({0}, {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, words, 1 << 20);
  wandering_pe pe(0, *shared[0]);
  pe.kernel.n_pes = pe.handler.n_pes = 1;
  receiver_setup setup{};
  setup.device_handle = pe.handler;
  setup.peer_sources = shared[0]->routes->sources();
  setup.n_peer_sources = shared[0]->routes->n_sources();
  setup.own_source = shared[0]->routes->own_source();
  ring_server rings(setup, {});
  simt::launch(1, lanes, {}, [&] {
    __shared__ gravel_block_sender<lanes, 512> sender;
    sender.begin(pe.kernel);
    sender.am<wander>(0, 1, 1);
    sender.end();
    gravel_am<wander>(pe.kernel, 0, 0, 0);
  });
  const auto left = [&] { return shared[0]->routes->read().applied != shared[0]->routes->read().tickets; };
  for (uint32_t rounds = 0; left() && rounds < 1000; ++rounds) rings.serve<handlers>();
  CHECK(shared[0]->heap[0] == 3 * lanes);
  CHECK(pe.counters.in_place() == 3 * lanes);
  CHECK(pe.counters.to_peers() == 0);
}

namespace {

/// PE 1 of two serves what PE 0's side of their ring holds.
struct second_of_two {
  std::vector<std::unique_ptr<shared_pe>> shared = start({0, 0}, {with({{"GRAVEL_ROUTES", "peer"}})});
  const peer_ring& ring = shared[0]->routes->links()[1].ring;
  device_error error{};
  device_counters counters{};
  receiver_setup setup{};

  second_of_two() {
    gravel_t& g = setup.device_handle;
    g.stamp = valid_stamp;
    g.my_pe = 1;
    g.n_pes = 2;
    g.heap = reinterpret_cast<char*>(shared[1]->heap);
    g.heap_bytes = 512;
    g.error = &error;
    g.counters = &counters;
    g.from = sender::handler;
    g.peers = shared[1]->routes->links();
    setup.peer_sources = shared[1]->routes->sources();
    setup.n_peer_sources = setup.own_source = shared[1]->routes->n_sources();
  }
  /// A chunk with this row whose words are `words`.
  template <class Handlers>
  void serve(const message_row& row, const std::vector<uint32_t>& words) {
    std::copy(words.begin(), words.end(), words_at(peer_ring::payload(ring.chunk(0))));
    ring.publish(0, row);
    ring_server rings(setup, {});
    rings.serve<Handlers>();
  }
};
constexpr uint32_t to_1 = sink_of(1, sink_kind::device);

}  // namespace

TEST_CASE("a handler that throws is named, also when it came through a ring") {
  second_of_two pes;
  am_message<thrower> message;
  message.fill(7u);
  std::string what;
  try {
    pes.serve<handler_list<thrower>>({message.kind, to_1, 1}, {7u});
  } catch (const error& e) {
    what = e.what();
  }
  CHECK(what == "handler 'thrower' threw: its own reason");
}

TEST_CASE("more rings than a warp has lanes are served in groups: each chunk of each ring is applied once") {
  constexpr uint32_t n = 75, receiver = 40, rounds = 3 + of_seeds(27);
  const auto shared = start(std::vector<uint32_t>(n), {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, words, 1 << 16);
  for (uint64_t seed = 0; seed <= of_seeds(4); ++seed) {
    INFO("seed " << seed);
    device_error error{};
    device_counters counters{};
    receiver_setup setup{};
    gravel_t& g = setup.device_handle;
    g.stamp = valid_stamp;
    g.my_pe = receiver;
    g.n_pes = n;
    g.heap = reinterpret_cast<char*>(shared[receiver]->heap);
    g.heap_bytes = words * sizeof(uint64_t);
    g.error = &error;
    g.counters = &counters;
    g.from = sender::handler;
    g.peers = shared[receiver]->routes->links();
    setup.peer_sources = shared[receiver]->routes->sources();
    setup.n_peer_sources = shared[receiver]->routes->n_sources();
    setup.own_source = shared[receiver]->routes->own_source();
    REQUIRE(setup.n_peer_sources == n);
    simt::launch_options options{};
    options.seed = seed;
    ring_server rings(setup, options);
    std::memset(shared[receiver]->heap, 0, words * sizeof(uint64_t));
    simt::inner::random_numbers draw(seed + 1);
    uint64_t sent = 0, before = shared[receiver]->heap[0];
    for (uint32_t round = 0; round < rounds; ++round) {
      // Some sources push a chunk if their ring has room: at times one group has all of them.
      const uint32_t first = round % 3 == 0 ? 64 : 0, end = round % 3 == 1 ? 32 : n;
      for (uint32_t pe = first; pe < end; ++pe) {
        if (pe == receiver || draw.below(2)) continue;
        const peer_link& link = shared[pe]->routes->links()[receiver];
        const uint64_t ticket = link.line->tickets;
        if (!link.ring.is_free(ticket)) continue;
        ++link.line->tickets;
        words_at(peer_ring::payload(link.ring.chunk(ticket)))[0] = 0;
        link.ring.publish(ticket, {update_kind(op::inc, value_type::u64), sink_of(receiver, sink_kind::device), 1});
        ++sent;
      }
      if (draw.below(3) == 0) rings.serve<handlers>();
    }
    for (uint32_t tries = 0; shared[receiver]->heap[0] - before != sent && tries < 1000; ++tries)
      rings.serve<handlers>();
    CHECK(shared[receiver]->heap[0] - before == sent);
    CHECK(error.code == 0);
    CHECK(sent > n);
    // The rings go on where they are: a later receiver begins anew, and so do these.
    for (uint32_t pe = 0; pe < n; ++pe) {
      if (pe == receiver) continue;
      const peer_link& link = shared[pe]->routes->links()[receiver];
      for (uint64_t ticket = 0; ticket < link.line->tickets; ++ticket) REQUIRE(*link.ring.words().of(ticket) != 0);
      link.line->tickets = 0;
      std::memset(link.ring.done, 0, link.ring.chunks * sizeof(uint64_t));
      for (uint32_t c = 0; c < link.ring.chunks; ++c) link.ring.chunk(c)->published = 0;
    }
  }
}

TEST_CASE("a chunk that cannot be is reported as corrupt, and none of it is applied") {
  const row_kind inc = update_kind(op::inc, value_type::u64);
  const message_row table[] = {
      {{1, op::count, 3, 0}, to_1, 1},
      {{1, op::get, 3, 0}, to_1, 1},
      {{1, op::none, 0, 0}, to_1, 1},
      {{0, op::inc, 3, 0}, to_1, 1},
      {{2, op::inc, 3, 0}, to_1, 1},
      {{1, op::inc, static_cast<uint8_t>(value_type::u16), 0}, to_1, 1},
      {{2, op::add, static_cast<uint8_t>(value_type::u64), 0}, to_1, 1},
      {inc.in_window(heap_window::last + 1), to_1, 1},
      {inc.in_window(~0u), to_1, 1},
      {am_kind(handler_id<wander>::value, 57), to_1, 1},
      {wide_kind(max_am_units + 1), to_1, 1},
      {row_kind::of_bits(~0ull), ~0u, ~0u},
      {inc, to_1, peer_ring::least_chunk_units * 4 + 1},
      {inc, to_1, ~0u},
      {update_kind(op::add, value_type::u64), to_1, (1u << 30) + 1},
      {inc, sink_of(1, sink_kind::host), 1},
      {inc, sink_of(0, sink_kind::device), 1},
      {inc, sink_of(2, sink_kind::device), 1},
  };
  for (const message_row& row : table) {
    INFO("kind " << std::hex << row.kind.bits() << ", sink " << row.sink << ", messages " << row.messages);
    second_of_two pes;
    pes.serve<handlers>(row, {0, 1, 0, 0});
    CHECK(pes.error.code == static_cast<uint64_t>(message_fault::corrupt_packet) + 1);
    for (uint32_t w = 0; w < words; ++w) CHECK(pes.shared[1]->heap[w] == 0);
  }
}

TEST_CASE("a message of a compact row that may not be applied is reported, with its place; the others are applied") {
  struct row {
    row_kind kind;
    std::vector<uint32_t> words;  ///< of two messages, of which the second is at fault
    message_fault fault;
    uint64_t offset;
    uint64_t applied;  ///< word 0 of the heap
  };
  const uint32_t no_handler = handler_id<thrower>::value;
  const row table[] = {
      {update_kind(op::inc, value_type::u64), {0, 64}, message_fault::outside_heap, 512, 1},
      {update_kind(op::inc, value_type::u32), {0, 128}, message_fault::outside_heap, 512, 1},
      {update_kind(op::inc, value_type::i64), {0, ~0u}, message_fault::outside_heap, 8ull * ~0u, 1},
      {update_kind(op::inc, value_type::f32), {0, 128}, message_fault::outside_heap, 512, 0x3f800000},
      {update_kind(op::put, value_type::u32), {0, 7, 128, 1}, message_fault::outside_heap, 512, 7},
      {update_kind(op::add, value_type::u32), {0, 7, ~0u, 1}, message_fault::outside_heap, 4ull * ~0u, 7},
      {update_kind(op::min, value_type::u32), {0, 7, 128, 1}, message_fault::outside_heap, 512, 0},
      {update_kind(op::put, value_type::u16), {0, 7, 256, 1}, message_fault::outside_heap, 512, 7},
      {update_kind(op::bit_or, value_type::u64),
       {0, 8, 1, ~0u, 1, 1},
       message_fault::outside_heap,
       8ull * ~0u,
       8 | 1ull << 32},
      {update_kind(op::add, value_type::u64), {0, 5, 6, 64, 1, 1}, message_fault::outside_heap, 512, 5 | 6ull << 32},
      {update_kind(op::put, value_type::u8), {0, 7, 512, 1}, message_fault::outside_heap, 512, 7},
      {update_kind(op::max, value_type::i32), {0, 9, 0x80000000, 1}, message_fault::outside_heap, 4ull << 31, 9},
      // In windows that begin behind the heap, the first message is reported.
      {update_kind(op::inc, value_type::u64).in_window(1), {0, 1}, message_fault::outside_heap, 8ull << 24, 0},
      {update_kind(op::inc, value_type::u64).in_window(heap_window::last),
       {~0u, ~0u},
       message_fault::outside_heap,
       8 * (heap_window::begin(heap_window::last) + ~0u),
       0},
      {update_kind(op::add, value_type::u32).in_window(5),
       {3, 7, 4, 7},
       message_fault::outside_heap,
       4 * (heap_window::begin(5) + 3),
       0},
      {update_kind(op::put, value_type::u8).in_window(2),
       {3, 7, 4, 7},
       message_fault::outside_heap,
       heap_window::begin(2) + 3,
       0},
      {update_kind(op::max, value_type::f64).in_window(2),
       {3, 7, 7, 4, 7, 7},
       message_fault::outside_heap,
       8 * (heap_window::begin(2) + 3),
       0},
      {am_kind(no_handler, 4), {1, 1}, message_fault::bad_handler, no_handler, 0},
      {am_kind(handler_id<wander>::value, 4), {1, 1}, message_fault::bad_handler, handler_id<wander>::value, 0},
  };
  for (const row& r : table) {
    INFO("kind " << std::hex << r.kind.bits());
    second_of_two pes;
    pes.serve<handlers>({r.kind, to_1, 2}, r.words);
    CHECK(pes.error.code == static_cast<uint64_t>(r.fault) + 1);
    CHECK(pes.error.offset == r.offset);
    CHECK(pes.error.operation == static_cast<uint64_t>(r.kind.operation));
    CHECK(pes.shared[1]->heap[0] == r.applied);
  }
}

TEST_CASE("of a whole chunk of the commonest messages the one at fault is reported, and all others are applied") {
  constexpr uint32_t most = peer_ring::least_chunk_units * row_kind::words_of_unit;
  for (const row_kind kind : {update_kind(op::inc, value_type::u64), update_kind(op::add, value_type::u32)})
    for (uint32_t n : {most / kind.words, most / kind.words - 3, most / kind.words / 2 + 1})
      for (uint32_t fault : {0u, 5u, n / 2, n - 1}) {
        INFO("words " << kind.words << ", " << n << " messages, fault in " << fault);
        const uint32_t places = kind.words == 1 ? words : 2 * words;
        std::vector<uint32_t> message(n * kind.words, 1);
        for (uint32_t i = 0; i < n; ++i) message[i * kind.words] = i == fault ? places : i % places;
        second_of_two pes;
        pes.serve<handlers>({kind, to_1, n}, message);
        CHECK(pes.error.code == static_cast<uint64_t>(message_fault::outside_heap) + 1);
        CHECK(pes.error.offset == sizeof(uint64_t) * words);
        uint64_t sum = 0;
        for (uint32_t w = 0; w < words; ++w) {
          const uint64_t word = pes.shared[1]->heap[w];
          sum += kind.words == 1 ? word : (word & ~0u) + (word >> 32);
        }
        CHECK(sum == n - 1);
      }
}

TEST_CASE("a full chunk of each kind is applied, to its last message") {
  for (const row_kind& kind :
       {update_kind(op::inc, value_type::u64), update_kind(op::inc, value_type::u32),
        update_kind(op::add, value_type::u64), update_kind(op::add, value_type::i32), wide_kind(1)}) {
    const auto bytes = bytes_of(kind.is_wide() ? value_type::u64 : static_cast<value_type>(kind.type));
    const uint32_t most = peer_ring::least_chunk_units * row_kind::words_of_unit / kind.words;
    for (uint32_t n : {1u, 3u, 4u, 5u, 127u, 128u, 129u, most - 1, most}) {
      INFO(n << " messages of kind " << std::hex << kind.bits());
      second_of_two pes;
      std::vector<uint32_t> words;
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t index = i % 8;
        if (kind.is_wide()) {
          const uint64_t word0 = make_word0(op::add, static_cast<uint8_t>(value_type::u64), index * 8);
          words.insert(words.end(), {static_cast<uint32_t>(word0), static_cast<uint32_t>(word0 >> 32), 1u, 0u});
        } else {
          for (uint32_t w = 0; w < kind.words; ++w) {
            if (w == 0) words.push_back(index);
            else words.push_back(w == 1 ? 1 : 0);
          }
        }
      }
      words.resize((words.size() + 3) / 4 *
                   4);  // after the last message: indices of word 0, which must not be taken for messages
      pes.serve<handlers>({kind, to_1, n}, words);
      CHECK(pes.error.code == 0);
      const auto* const heap = reinterpret_cast<const char*>(pes.shared[1]->heap);
      for (uint32_t i = 0; i < 8; ++i) {
        uint64_t found = 0;
        std::memcpy(&found, heap + i * bytes, bytes);
        CHECK(found == n / 8 + (i < n % 8));
      }
    }
  }
}
