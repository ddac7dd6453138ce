// The aggregator's plane, stepped by the test: why packets leave, routing, flushes, spilling, and what it refuses.
#include "host/aggregator/plane.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/rows.hpp"

using namespace gravel::detail;

namespace {

/// The kind of put_word's messages, and how many of them a packet of 4 KiB takes in one row.
constexpr row_kind put_kind = update_kind(op::put, value_type::u64);
constexpr uint32_t in_packet(const row_kind& kind) {
  return packet_capacity_units(4096) * row_kind::words_of_unit / kind.words;
}

void put_word(fake_job& job, uint32_t from, uint32_t to, uint64_t word, uint64_t value) {
  const gravel_t& g = job.pe(from).host_thread;
  gravel_put(g, reinterpret_cast<uint64_t*>(g.heap) + word, value, static_cast<int>(to));
}

struct causes {
  uint64_t full, age, flush, idle;
  bool operator==(const causes&) const = default;
};
causes causes_of(const fake_job& job) {
  return {job.stat_of(gravel::detail::stat::packets_full), job.stat_of(gravel::detail::stat::packets_age),
          job.stat_of(gravel::detail::stat::packets_flush), job.stat_of(gravel::detail::stat::packets_idle)};
}
std::ostream& operator<<(std::ostream& out, const causes& c) {
  return out << "full " << c.full << ", age " << c.age << ", flush " << c.flush << ", idle " << c.idle;
}

/// Hands a slot over as a producer that has gone wrong might.
template <class F>
void publish_slot(fake_job& job, uint32_t pe, F fill) {
  const queue& q = job.pe(pe).host_thread.direct;
  const uint64_t ticket = q.claim();
  slot_header* s = q.slot(ticket);
  uint32_t n_rows = 1, n_units = 1;
  q.rows(s)[0] = {wide_kind(1), sink_of(0, sink_kind::device), 1};
  fill(q.rows(s), q.payload(s), n_rows, n_units);
  q.publish(ticket, s, n_rows, n_units);
}

/// Fills a message of 56 bytes but for the last one.
struct mixed_bytes {
  uint8_t byte[55];
  GRAVEL_BOTH static mixed_bytes of(uint32_t i) {
    mixed_bytes b{};
    b.byte[0] = static_cast<uint8_t>(i);
    b.byte[54] = static_cast<uint8_t>(i >> 3);
    return b;
  }
};
struct flooded {
  static constexpr const char* name = "flooded";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t, uint64_t) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap), uint64_t{1});
  }
};
constexpr row_kind flooded_kind = am_message<flooded>::kind;
struct floods {
  static constexpr const char* name = "floods";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t n, int to) const {
    for (uint32_t i = 0; i < n; ++i) gravel_am<flooded>(g, to, i, 0);
  }
};
/// Messages of all sizes, of kinds that alternate after `each`.
struct handled {
  static constexpr const char* name = "handled";
  GRAVEL_HANDLER void operator()(const gravel_t& g) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 7, uint64_t{1});
  }
};
struct handled_too {
  static constexpr const char* name = "handled too";
  GRAVEL_HANDLER void operator()(const gravel_t& g, mixed_bytes b) const {
    add_in_place(reinterpret_cast<uint64_t*>(g.heap) + 8, uint64_t{b.byte[0]} + b.byte[54]);
  }
};
GRAVEL_BOTH void send_mixed(const gravel_t& g, uint32_t i, uint32_t each, int to) {
  auto* const heap = reinterpret_cast<uint64_t*>(g.heap);
  switch (i / each % 8) {
    case 0: gravel_inc(g, heap, to); break;
    case 1: gravel_inc(g, reinterpret_cast<float*>(heap + 1), to); break;
    case 2: gravel_add(g, reinterpret_cast<uint32_t*>(heap + 2), i, to); break;
    case 3: gravel_add(g, heap + 3, uint64_t{i} << 30, to); break;
    case 4: gravel_max(g, reinterpret_cast<int32_t*>(heap + 4), static_cast<int>(i), to); break;
    case 5: gravel_put(g, reinterpret_cast<uint8_t*>(heap + 16) + i, static_cast<uint8_t>(i | 1), to); break;
    case 6: gravel_am<handled>(g, to); break;
    default: gravel_am<handled_too>(g, to, mixed_bytes::of(i));
  }
}
constexpr uint64_t mixed_bytes_of_kind[] = {4, 4, 8, 12, 8, 8, 4, 56};
/// The first `words` words of a heap after that, if each message arrives once, in any order.
std::vector<uint64_t> expected_of_mixed(uint32_t n, uint32_t each, uint64_t words) {
  std::vector<uint64_t> heap(words);
  float ones = 0;
  for (uint32_t i = 0; i < n; ++i) switch (i / each % 8) {
      case 0: ++heap[0]; break;
      case 1: ++ones; break;
      case 2: heap[2] = static_cast<uint32_t>(heap[2] + i); break;
      case 3: heap[3] += uint64_t{i} << 30; break;
      case 4: heap[4] = i; break;
      case 5: reinterpret_cast<uint8_t*>(&heap[16])[i] = static_cast<uint8_t>(i | 1); break;
      case 6: ++heap[7]; break;
      default: heap[8] += mixed_bytes::of(i).byte[0] + mixed_bytes::of(i).byte[54];
    }
  heap[1] = __builtin_bit_cast(uint32_t, ones);
  return heap;
}
struct floods_mixed {
  static constexpr const char* name = "floods mixed";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint32_t n, uint32_t each, int to) const {
    for (uint32_t i = 0; i < n; ++i) send_mixed(g, i, each, to);
  }
};
struct unknown_to_receiver {
  static constexpr const char* name = "unknown to receiver";
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t) const {}
};
struct throws {
  static constexpr const char* name = "thrower";
  void operator()(const gravel_t&) const { throw std::runtime_error("no reason"); }
};

}  // namespace

TEST_CASE("a packet leaves when full, at its age, when asked, or when idle; each is counted") {
  const auto job = fake_job::with<>({});
  job->clock_step = 0;
  const auto step = [&] { job->step_plane(0, 0); };
  causes expected{};

  SECTION("idle: no input for GRAVEL_IDLE_US and nothing in flight") {
    put_word(*job, 0, 1, 0, 1);
    step();
    CHECK(causes_of(*job) == expected);
    job->now += 19;
    step();
    CHECK(causes_of(*job) == expected);
    job->now += 1;
    step();
    ++expected.idle;
  }
  SECTION("idle, at once: a bulk message that fills a quarter of it, and nothing in flight") {
    const std::vector<char> data(1000);
    const gravel_t& g = job->pe(0).host_thread;
    gravel_put_bulk(g, g.heap, data.data(), 500, 1);
    step();
    CHECK(causes_of(*job) == expected);
    gravel_put_bulk(g, g.heap, data.data(), data.size(), 1);
    step();
    ++expected.idle;
    CHECK(causes_of(*job) == expected);
    gravel_put_bulk(g, g.heap, data.data(), data.size(), 1);  // nobody applies the first
    step();
  }
  SECTION("age: GRAVEL_TIMEOUT_US after it was opened, also while others are in flight") {
    put_word(*job, 0, 1, 0, 1);
    step();
    job->now += 20;
    step();
    ++expected.idle;  // this one stays in flight: nobody applies it
    put_word(*job, 0, 1, 1, 1);
    step();
    job->now += 124;
    step();
    CHECK(causes_of(*job) == expected);
    job->now += 1;
    step();
    ++expected.age;
  }
  SECTION("age counts from the first message, however many follow") {
    put_word(*job, 0, 1, 0, 1);
    step();
    for (int i = 0; i < 12; ++i) {
      job->now += 10;
      put_word(*job, 0, 1, 1, 1);
      step();
      CHECK(causes_of(*job) == expected);
    }
    job->now += 5;
    put_word(*job, 0, 1, 1, 1);
    step();
    ++expected.age;
  }
  SECTION("full: as soon as a message does not fit") {
    const uint32_t capacity = in_packet(put_kind);
    for (uint32_t i = 0; i < capacity; ++i) put_word(*job, 0, 1, i, 1);
    job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_taken) == capacity; });
    CHECK(causes_of(*job) == expected);
    put_word(*job, 0, 1, 0, 1);
    step();
    ++expected.full;
  }
  SECTION("flush: at once, and everything open") {
    put_word(*job, 0, 1, 0, 1);
    put_word(*job, 0, 0, 0, 1);
    gravel_flush(job->pe(0).host_thread);
    step();
    // PE 0's own word was applied in place.
    ++expected.flush;
  }
  job->step_plane(0, 0);
  CHECK(causes_of(*job) == expected);
  CHECK(job->stat_of(gravel::detail::stat::packets) == expected.full + expected.age + expected.flush + expected.idle);
}

TEST_CASE(
    "GRAVEL_AGGREGATION: a packet holds the messages of one row, or one message; it leaves at once, as a full one") {
  const bool rows = GENERATE(false, true);
  const auto job = fake_job::with<>({.settings = {{"GRAVEL_AGGREGATION", rows ? "rows" : "messages"}}});
  publish_slot(*job, 0, [](message_row* row, unit* payload, uint32_t& n_rows, uint32_t& n_units) {
    row[0] = row[1] = {wide_kind(1), sink_of(1, sink_kind::device), 2};
    for (uint32_t i = 0; i < 4; ++i)
      payload[i] = {{make_word0(op::put, static_cast<uint8_t>(value_type::u64), 8 * i), i + 1}};
    n_rows = 2;
    n_units = 4;
  });
  job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_taken) == 4; });
  CHECK(causes_of(*job) == causes{.full = rows ? 2u : 4u, .age = 0, .flush = 0, .idle = 0});
  job->step_until([&] { return job->pe(1).at<uint64_t>(0)[3] == 4; });
  for (uint64_t i = 0; i < 4; ++i) CHECK(job->pe(1).at<uint64_t>(0)[i] == i + 1);
}

TEST_CASE("a flush is done only when the messages are applied") {
  for (uint32_t nodes : {1u, 2u, 4u}) {
    INFO(nodes << " nodes");
    const auto job = fake_job::with<>(
        {.nodes = nodes, .pes_per_node = nodes == 1 ? 4u : 4 / nodes, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}});
    job->handlers_paused = true;
    put_word(*job, 0, 3, 5, 77);
    const queue& q = job->pe(0).host_thread.direct;
    q.request_flush(1);
    for (int i = 0; i < 3000; ++i) job->step();
    CHECK_FALSE(q.flushed(1));
    job->handlers_paused = false;
    job->step_until([&] { return q.flushed(1); });
    CHECK(job->pe(3).at<uint64_t>(0)[5] == 77);
    if (nodes == 4) CHECK(job->stat_of(gravel::detail::stat::messages_forwarded) == 1);
  }
}

TEST_CASE("a flush of one queue does not wait for what others send later") {
  const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 3});
  put_word(*job, 0, 1, 0, 1);
  const queue& q = job->pe(0).host_thread.direct;
  q.request_flush(1);
  job->step_plane(0, 0);
  job->pe(2).receiving[0] = true;  // PE 2 applies nothing
  put_word(*job, 1, 2, 0, 1);
  job->step_until([&] { return q.flushed(1); });
  CHECK(job->pe(1).at<uint64_t>(0)[0] == 1);
}

TEST_CASE("a flush sends what its own queue has handed over since its last one, and nothing else") {
  const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 4});
  job->clock_step = 0;
  const queue& q = job->pe(0).host_thread.direct;
  const auto flush = [&](uint64_t target) {
    q.request_flush(target);
    job->step_until([&] { return q.flushed(target); });
  };
  put_word(*job, 1, 2, 0, 1);
  put_word(*job, 0, 3, 0, 1);
  job->step_plane(0, 0);
  flush(1);
  CHECK(causes_of(*job) == causes{0, 0, 1, 0});  // to PE 3 alone
  put_word(*job, 1, 3, 1, 1);
  put_word(*job, 0, 1, 0, 1);
  job->step_plane(0, 0);
  flush(2);
  CHECK(causes_of(*job) == causes{0, 0, 2, 0});  // to PE 1: what PE 0 sent to PE 3 is an older story
  flush(2);
  CHECK(causes_of(*job) == causes{0, 0, 2, 0});
  CHECK(job->pe(2).at<uint64_t>(0)[0] == 0);
  const queue& other = job->pe(1).host_thread.direct;
  other.request_flush(2);
  job->step_until([&] { return other.flushed(2); });
  CHECK(causes_of(*job) == causes{0, 0, 4, 0});
  CHECK(job->pe(2).at<uint64_t>(0)[0] == 1);
  CHECK(job->pe(3).at<uint64_t>(0)[1] == 1);
}

TEST_CASE("a flush that waits for a busy destination delays no other queue's flush") {
  const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 3});
  job->pe(2).receiving[0] = true;  // PE 2 applies nothing
  put_word(*job, 1, 2, 0, 1);
  const queue& stuck = job->pe(1).host_thread.direct;
  stuck.request_flush(1);
  for (int i = 0; i < 200; ++i) job->step();
  put_word(*job, 0, 1, 0, 1);
  const queue& q = job->pe(0).host_thread.direct;
  q.request_flush(1);
  job->step_until([&] { return q.flushed(1); });
  CHECK_FALSE(stuck.flushed(1));
  job->pe(2).receiving[0] = false;
  job->step_until([&] { return stuck.flushed(1); });
}

TEST_CASE("a flush follows packets that have left already, over the node in the middle") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<>({.nodes = 4, .pes_per_node = 1, .seed = seed, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}}});
    job->clock_step = 0;  // no packet leaves by its age
    put_word(*job, 0, 3, 5, 77);
    job->step_plane(0, 0);
    job->now += 20;
    job->step_plane(0, 0);  // to the node in the middle, as nothing else came
    REQUIRE(job->stat_of(gravel::detail::stat::packets_idle) == 1);
    put_word(*job, 1, 2, 0, 1);  // the node in the middle has work of its own: what it forwards waits for more
    job->step_plane(1, 0);
    const queue& q = job->pe(0).host_thread.direct;
    if (seed % 2) job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_forwarded) == 1; });
    REQUIRE(job->stat_of(gravel::detail::stat::packets_flush) == 0);
    q.request_flush(1);
    job->step_until([&] { return q.flushed(1); });
    CHECK(job->pe(3).at<uint64_t>(0)[5] == 77);
    CHECK(job->stat_of(gravel::detail::stat::packets_flush) == 1);
    // Asked once for a packet; and again only for a later one.
    put_word(*job, 0, 3, 6, 78);
    job->step_plane(0, 0);
    q.request_flush(2);
    job->step_until([&] { return q.flushed(2); });
    CHECK(job->pe(3).at<uint64_t>(0)[6] == 78);
    CHECK(job->pe(2).at<uint64_t>(0)[0] == 0);
  }
}

TEST_CASE("two hops: everything arrives, and quiet waits for the far end") {
  for (uint32_t nodes : {4u, 5u, 7u, 9u})
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      INFO(nodes << " nodes, seed " << seed);
      const auto job = fake_job::with<>({.nodes = nodes,
                                         .pes_per_node = seed % 3 ? 1u : 2u,
                                         .seed = seed,
                                         .settings = {{"GRAVEL_TWO_HOP_NODES", "4"},
                                                      {"GRAVEL_AGGREGATOR_THREADS", seed % 2 ? "1" : "2"},
                                                      {"GRAVEL_EAGER_SIZE", seed % 4 ? "2K" : "0"}}});
      const uint32_t n = job->n_pes();
      random_numbers draw(seed);
      // Everybody to everybody at once, so that all rings run full in all directions.
      for (uint32_t i = 0; i < 3000; ++i) {
        const uint32_t from = draw.below(n), to = draw.below(n);
        const gravel_t& g = job->pe(from).host_thread;
        gravel_inc(g, reinterpret_cast<uint64_t*>(g.heap) + from, static_cast<int>(to));
        ++job->pe(to).at<uint64_t>(4096)[from];
      }
      for (uint32_t pe = 0; pe < n; ++pe) {
        job->quiet(pe);
        for (uint32_t to = 0; to < n; ++to)
          REQUIRE(job->pe(to).at<uint64_t>(0)[pe] == job->pe(to).at<uint64_t>(4096)[pe]);
      }
      CHECK(job->stat_of(gravel::detail::stat::messages_forwarded) > 0);
      job->settle();
      for (uint32_t node = 0; node < nodes; ++node) {
        CHECK_FALSE(job->plane_of(node).busy());
        const plane_counts& c = job->node(node).setup.local[0]->control()->counts[0];
        CHECK(c.taken == c.acked);
      }
    }
}

TEST_CASE("with one hop nothing is forwarded") {
  const auto job = fake_job::with<>({.nodes = 5, .pes_per_node = 1});
  for (uint32_t to = 0; to < 5; ++to) put_word(*job, 2, to, 0, to + 1);
  job->quiet(2);
  for (uint32_t to = 0; to < 5; ++to) CHECK(job->pe(to).at<uint64_t>(0)[0] == to + 1);
  CHECK(job->stat_of(gravel::detail::stat::messages_forwarded) == 0);
  CHECK(job->stat_of(gravel::detail::stat::messages_off_node) == 4);
}

TEST_CASE("a busy destination stops no other queue and no other destination") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 2});
  job->clock_step = 0;  // so that only full packets leave
  job->pe(3).receiving[0] = true;
  uint32_t sent = 0;
  const queue& q = job->pe(0).host_thread.direct;
  const auto room = [&] {
    for (int i = 0; i < 200 && q.state->tickets - q.read_consumed() >= q.shape.slots; ++i) job->step();
    return q.state->tickets - q.read_consumed() < q.shape.slots;
  };
  for (; sent < 1000 && room(); ++sent) put_word(*job, 0, 3, sent % 64, sent + 1);
  CHECK(sent == 2 * in_packet(put_kind) + q.shape.slots);  // the packets in flight and the queue are full
  job->clock_step = 3;
  for (uint64_t i = 0; i < 500; ++i) put_word(*job, 1, 2, 8, i);
  job->step_until([&] { return job->pe(2).at<uint64_t>(0)[8] == 499; });
  job->pe(3).receiving[0] = false;
  job->quiet_all();
  CHECK(job->stat_of(gravel::detail::stat::stalls) > 0);
  CHECK(job->pe(3).at<uint64_t>(0)[(sent - 1) % 64] == sent);
}

TEST_CASE("a busy destination does not delay the rest of a queue, up to the bytes of its packets") {
  for (uint32_t nodes : {1u, 3u}) {
    INFO(nodes << " nodes");
    const auto job = fake_job::with<>({.nodes = nodes, .pes_per_node = 3 / nodes});
    job->pe(2).receiving[0] = true;
    const queue& q = job->pe(0).host_thread.direct;
    const auto has_room = [&] {
      for (int i = 0; i < 2000 && q.state->tickets - q.read_consumed() >= q.shape.slots; ++i) job->step();
      return q.state->tickets - q.read_consumed() < q.shape.slots;
    };
    const uint64_t backlog = 2 * 4096 / bytes_of(put_kind);
    uint64_t sent = 0;
    for (; has_room(); ++sent) {
      put_word(*job, 0, 2, sent % 64, sent + 1);
      if (has_room()) put_word(*job, 0, 1, 8, sent + 1);
    }
    // All that is for PE 2 waits, and what is for PE 1 has passed it, but for what the queue holds.
    CHECK(sent >= backlog);
    CHECK(sent <= 2 * in_packet(put_kind) + backlog + q.shape.slots);
    CHECK(job->pe(1).at<uint64_t>(0)[8] + q.shape.slots >= sent);
    CHECK_THAT(job->plane_of(0).describe(),
               contains_text(fmt::format("{} bytes of it copied out of slots", backlog * bytes_of(put_kind))));
    CHECK_FALSE(q.flushed(sent));
    // A flush waits for the backlog, too.
    job->pe(2).receiving[0] = false;
    job->quiet(0);
    CHECK(job->pe(2).at<uint64_t>(0)[(sent - 1) % 64] == sent);
    job->settle();
    CHECK_FALSE(job->plane_of(0).busy());
    for (uint32_t node = 0; node < nodes; ++node) {
      const plane_counts& c = job->node(node).setup.local[0]->control()->counts[0];
      CHECK(c.taken == c.acked);
    }
  }
}

TEST_CASE("the backlog is in order, complete, and flushed, in all shapes, with slow receivers") {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<>({.nodes = seed % 2 ? 5u : 2u,
                          .pes_per_node = seed % 2 ? 1u : 2u,
                          .seed = seed,
                          .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}, {"GRAVEL_TIMEOUT_US", seed % 3 ? "10" : "0"}}});
    const uint32_t n = job->n_pes();
    random_numbers draw(seed);
    for (uint32_t i = 0; i < 4000; ++i) {
      if (i % 50 == 0)
        for (uint32_t pe = 0; pe < n; ++pe) job->pe(pe).receiving[0] = draw.below(3) == 0 && pe != i / 50 % n;
      const uint32_t from = draw.below(n), to = draw.below(n);
      const gravel_t& g = job->pe(from).host_thread;
      if (i % 50 == 49)
        for (uint32_t pe = 0; pe < n; ++pe) job->pe(pe).receiving[0] = false;
      gravel_inc(g, reinterpret_cast<uint64_t*>(g.heap) + from, static_cast<int>(to));
      ++job->pe(to).at<uint64_t>(4096)[from];
      if (draw.below(200) == 0) {
        for (uint32_t pe = 0; pe < n; ++pe) job->pe(pe).receiving[0] = false;
        gravel_quiet(g);
        for (uint32_t pe = 0; pe < n; ++pe)
          REQUIRE(job->pe(pe).at<uint64_t>(0)[from] == job->pe(pe).at<uint64_t>(4096)[from]);
      }
    }
    for (uint32_t pe = 0; pe < n; ++pe) job->pe(pe).receiving[0] = false;
    job->quiet_all();
    for (uint32_t to = 0; to < n; ++to)
      for (uint32_t from = 0; from < n; ++from)
        REQUIRE(job->pe(to).at<uint64_t>(0)[from] == job->pe(to).at<uint64_t>(4096)[from]);
    job->settle();
    for (uint32_t node = 0; node < job->node(0).setup.nodes.n_nodes(); ++node) CHECK_FALSE(job->plane_of(node).busy());
  }
}

TEST_CASE("what handlers send beyond their credits spills, and comes out again") {
  for (uint32_t nodes : {1u, 2u}) {
    const auto job = fake_job::with<flooded, floods>({.nodes = nodes, .pes_per_node = 2 / nodes});
    job->pe(1).receiving[0] = true;
    gravel_am<floods>(job->pe(0).host_thread, 0, 2000, 1);
    job->step_until(
        [&] { return job->node(0).spill.used == (2000 - 2 * in_packet(flooded_kind)) * bytes_of(flooded_kind); });
    CHECK(job->stat_of(gravel::detail::stat::messages_spilled) == 2000 - 2 * in_packet(flooded_kind));
    CHECK_THAT(job->plane_of(0).describe(), contains_text("backlog"));
    job->pe(1).receiving[0] = false;
    job->settle();
    CHECK(*job->pe(1).at<uint64_t>(0) == 2000);
    CHECK(job->node(0).spill.used == 0);
  }
}

TEST_CASE("the spill budget is for the memory in use, not for all that ever spilled") {
  const auto job = fake_job::with<flooded, floods>({.settings = {{"GRAVEL_SPILL_SIZE", "64K"}}});
  uint64_t sent = 0, least = ~0ull;
  for (; sent < 40'000; sent += 1000) {  // 10 times the budget
    gravel_am<floods>(job->pe(0).host_thread, 0, 1000, 1);
    job->pe(1).receiving[0] = true;
    job->step_until(
        [&] { return job->stat_of(gravel::detail::stat::messages_taken) >= sent + 1000 + sent / 1000 + 1; });
    job->pe(1).receiving[0] = false;
    // The backlog shrinks, but some of it always stays.
    while (job->node(0).spill.used > 20'000) job->step();
    if (sent > 3000) least = std::min<uint64_t>(least, job->node(0).spill.used);
  }
  CHECK(least > 0);
  job->settle();
  CHECK(*job->pe(1).at<uint64_t>(0) == sent);
  CHECK(job->node(0).spill.used == 0);
}

TEST_CASE("answers that wait for credits are not charged to handlers, and never refused") {
  const auto job =
      fake_job::with<flooded, floods>({.settings = {{"GRAVEL_SPILL_SIZE", "64K"}, {"GRAVEL_REPLY_CELLS", "8192"}}});
  const gravel_t& g = job->pe(1).host_thread;
  uint64_t* const heap = reinterpret_cast<uint64_t*>(g.heap);
  *job->pe(0).at<uint64_t>(0) = 77;
  job->pe(1).receiving[0] = true;  // PE 1 takes no answers
  constexpr uint64_t gets = 6000;
  for (uint64_t i = 0; i < gets; ++i) gravel_get(g, heap + 1 + i % 100, heap, 0);
  gravel_am<floods>(g, 0, 1000, 1);  // handlers' messages for the same PE, between and after them
  job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_taken) == 2 * gets + 1001; });
  CHECK(job->node(0).spill.used == 1000 * bytes_of(flooded_kind));  // they came last
  CHECK(job->node(0).spill.answers > job->node(0).spill.limit);
  job->pe(1).receiving[0] = false;
  job->quiet_all();
  for (uint64_t i = 0; i < 100; ++i) CHECK(job->pe(1).at<uint64_t>(0)[1 + i] == 77);
  job->settle();
  CHECK(job->node(0).spill.used == 0);
  CHECK(job->node(0).spill.answers == 0);
}

TEST_CASE("a spent spill budget is an error that names handler, PE and setting") {
  const auto job = fake_job::with<flooded, floods>({.settings = {{"GRAVEL_SPILL_SIZE", "64K"}}});
  job->pe(1).receiving[0] = true;
  gravel_am<floods>(job->pe(0).host_thread, 0, 5000, 1);
  CHECK_THROWS_WITH(job->step_until([] { return false; }),
                    contains_text("'flooded'") && contains_text("PE 0") && contains_text("GRAVEL_SPILL_SIZE"));
}

TEST_CASE("a corrupt slot is refused, with PE and queue") {
  struct row {
    const char* what;
    std::function<void(message_row*, unit*, uint32_t&, uint32_t&)> fill;
  };
  const row table[] = {
      {"sink out of range", [](message_row* r, unit*, uint32_t&, uint32_t&) { r->sink = 4; }},
      {"transit sink", [](message_row* r, unit*, uint32_t&, uint32_t&) { r->sink = transit_sink; }},
      {"no units",
       [](message_row* r, unit*, uint32_t&, uint32_t& u) {
         r->kind.words = 0;
         u = 0;
       }},
      {"two bulk messages in a run",
       [](message_row* r, unit* p, uint32_t&, uint32_t& u) {
         *r = {wide_kind(6), 0, 2};
         u = 12;
         p->word[0] = make_word0(op::put_bulk, 0, 0);
       }},
      {"two messages in a row that are larger than active messages",
       [](message_row* r, unit*, uint32_t&, uint32_t& u) {
         *r = {wide_kind(18), 0, 2};
         u = 36;
       }},
      {"units that the rows do not have", [](message_row*, unit*, uint32_t&, uint32_t& u) { u = 2; }},
      {"rows beyond the units", [](message_row* r, unit*, uint32_t&, uint32_t&) { r->messages = 0xffff; }},
      {"more units than a slot has",
       [](message_row* r, unit*, uint32_t&, uint32_t& u) {
         *r = {wide_kind(1), 0, 129};
         u = 129;
       }},
      {"more rows than a slot has",
       [](message_row* r, unit*, uint32_t& n, uint32_t& u) {
         for (n = 0; n < 32; ++n) r[n] = {wide_kind(1), 0, 1};
         n = u = 33;
       }},
      {"an operation that is none",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {{1, op::count, 3, 0}, 0, 4};
       }},
      {"a row of requests without first words",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {{1, op::get, 3, 0}, 0, 4};
       }},
      {"an increment of bytes",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {update_kind(op::inc, value_type::u8), 0, 4};
       }},
      {"words that the operation does not have",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {{2, op::add, static_cast<uint8_t>(value_type::u64), 0}, 0, 2};
       }},
      {"more arguments than a compact message has",
       [](message_row* r, unit*, uint32_t&, uint32_t& u) {
         *r = {am_kind(1, 57), 0, 1};
         u = 4;
       }},
      {"compact messages beyond the units",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {put_kind, 0, 2};
       }},
      {"compact messages whose bytes pass 2^32",
       [](message_row* r, unit*, uint32_t&, uint32_t&) {
         *r = {update_kind(op::inc, value_type::u64), 0, (1u << 30) + 1};
       }},
      {"fewer compact messages than units",
       [](message_row* r, unit*, uint32_t&, uint32_t& u) {
         *r = {put_kind, 0, 1};
         u = 2;
       }},
      {"all ones",
       [](message_row* r, unit*, uint32_t& n, uint32_t& u) {
         *r = {row_kind::of_bits(~0ull), ~0u, ~0u};
         n = u = ~0u;
       }},
  };
  for (const row& r : table) {
    INFO(r.what);
    const auto job = fake_job::with<>({});
    publish_slot(*job, 1, r.fill);
    CHECK_THROWS_WITH(job->step_plane(0, 0),
                      contains_text("PE 1") && contains_text("corrupt slot") && contains_text("host queue"));
  }
}

TEST_CASE("a run without messages does no harm") {
  const auto job = fake_job::with<>({});
  publish_slot(*job, 1, [](message_row* r, unit*, uint32_t&, uint32_t& u) {
    r->messages = 0;
    u = 0;
  });
  job->settle();
  CHECK(job->stat_of(gravel::detail::stat::slots_taken) == 1);
  CHECK(job->stat_of(gravel::detail::stat::messages_taken) == 0);
}

/// Size of the heap of a PE in a job of two nodes.
static uint64_t heap_bytes() { return fake_job::with<>({.nodes = 2, .pes_per_node = 1})->pe(0).kernel.heap_bytes; }

TEST_CASE("a corrupt message is refused by the receiver, with node, operation and cause") {
  struct row {
    unit message;
    const char* text;
  };
  const row table[] = {
      {{{make_word0(op::put, 3, heap_bytes()), 1}}, "outside the symmetric heap"},
      {{{make_word0(op::put, 3, 4), 1}}, "misaligned"},
      {{{make_word0(op::put, 99, 0), 1}}, "type"},
      {{{make_word0(op::none, 0, 0), 1}}, "unknown operation"},
      {{{~0ull, ~0ull}}, "unknown operation"},
      {{{make_word0(op::fetch_add, 3, 0), 1}}, "size"},
      {{{make_word0(op::get, 3, 0), make_return(9, 0)}}, "PE number"},
      {{{make_word0(op::am, 0, 12345), 0}}, "whose handler (id 12345) is not in the list of gravel_init"},
      {{{make_word0(op::cell_reply, 3, 64), 0}}, "outside"},
      {{{make_word0(op::put_bulk, 0, 0), 16}}, "size"},
  };
  for (const row& r : table) {
    INFO(r.text);
    const auto job = fake_job::with<flooded>({.nodes = 2, .pes_per_node = 1});
    publish_slot(*job, 1, [&](message_row*, unit* u, uint32_t&, uint32_t&) { *u = r.message; });
    CHECK_THROWS_WITH(job->step_until([] { return false; }), contains_text(r.text) && contains_text("node 1"));
  }
}

TEST_CASE("an invalid message of a compact row is refused by the receiver, with node, operation and place") {
  struct row {
    row_kind kind;
    uint32_t word[4];
    uint32_t messages;
    std::string text;
    sink_kind sink = sink_kind::device;
  };
  const auto heap = static_cast<uint32_t>(heap_bytes());
  std::vector<row> table{
      {am_kind(12345, 0), {}, 1, "whose handler (id 12345) is not in the list of gravel_init"},
      {am_kind(handler_id<flooded>::value, 12), {}, 1, "or takes other arguments"},
      {am_kind(handler_id<flooded>::value, 16), {}, 1, "or takes other arguments", sink_kind::host},
      {update_kind(op::inc, value_type::u64), {}, 1, "gravel_inc with unknown operation (offset 0)", sink_kind::host},
      // The last one of several messages.
      {update_kind(op::inc, value_type::u64),
       {0, 1, 2, heap / 8},
       4,
       "gravel_inc with an address outside the symmetric heap (offset " + std::to_string(heap) + ")"},
      {update_kind(op::inc, value_type::u64).in_window(1),
       {0},
       1,
       "gravel_inc with an address outside the symmetric heap (offset " + std::to_string(8ull << 24) + ")"},
      {update_kind(op::put, value_type::f64).in_window(heap_window::last),
       {~0u},
       1,
       "gravel_put with an address outside the symmetric heap (offset " +
           std::to_string(8 * (heap_window::begin(heap_window::last) + ~0u)) + ")"},
  };
  for (op o : update_ops)
    for (value_type type : value_types)
      if (takes_type(o, type))
        for (uint32_t index : {heap / bytes_of(type), ~0u})
          table.push_back({update_kind(o, type),
                           {index},
                           1,
                           std::string(name_of(o)) + " with an address outside the symmetric heap (offset " +
                               std::to_string(uint64_t{index} * bytes_of(type)) + ")"});
  for (const row& r : table) {
    INFO(r.text);
    const auto job = fake_job::with<flooded>({.nodes = 2, .pes_per_node = 1});
    publish_slot(*job, 1, [&](message_row* rows, unit* u, uint32_t&, uint32_t&) {
      *rows = {r.kind, sink_of(0, r.sink), r.messages};
      std::copy_n(r.word, 4, words_at(u));
    });
    CHECK_THROWS_WITH(job->step_until([] { return false; }), contains_text(r.text) && contains_text("node 1"));
  }
}

TEST_CASE("the last word of a heap has an index") {
  for (op o : update_ops)
    for (value_type type : value_types) {
      if (!takes_type(o, type)) continue;
      INFO("operation " << static_cast<int>(o) << ", type " << static_cast<int>(type));
      const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
      const uint32_t bytes = bytes_of(type), n = 64 * 1024 / bytes;
      std::memset(job->pe(0).at<char>(0), o == op::bit_and || o == op::min ? 0x7f : 0, 64 * 1024);
      publish_slot(*job, 1, [&](message_row* rows, unit* u, uint32_t&, uint32_t&) {
        *rows = {update_kind(o, type), sink_of(0, sink_kind::device), 1};
        words_at(u)[0] = n - 1;
        words_at(u)[1] = words_at(u)[2] = 0x11111111;
      });
      std::vector<char> before(job->pe(0).at<char>(0), job->pe(0).at<char>(64 * 1024));
      job->settle();
      CHECK(std::memcmp(job->pe(0).at<char>(0), before.data(), before.size() - bytes) == 0);
      CHECK(std::memcmp(job->pe(0).at<char>(64 * 1024 - bytes), before.data() + before.size() - bytes, bytes) != 0);
    }
}

TEST_CASE("compact rows spill, wait in the backlog, and arrive whole") {
  constexpr uint32_t n = 2400;
  for (uint32_t each : {1u, 7u, 100u})
    for (uint32_t nodes : {1u, 2u}) {
      INFO(each << " of a kind, " << nodes << " nodes");
      const auto job = fake_job::with<handled, handled_too, floods_mixed>({.nodes = nodes, .pes_per_node = 2 / nodes});
      job->pe(1).receiving[0] = true;
      gravel_am<floods_mixed>(job->pe(0).host_thread, 0, n, each, 1);
      job->step_until([&] { return job->stat_of(gravel::detail::stat::messages_taken) == n + 1; });
      const uint64_t spilled = job->stat_of(gravel::detail::stat::messages_spilled);
      REQUIRE(spilled != 0);
      REQUIRE(spilled < n);
      uint64_t bytes = 0;
      for (uint32_t i = n - static_cast<uint32_t>(spilled); i < n; ++i) bytes += mixed_bytes_of_kind[i / each % 8];
      CHECK(job->node(0).spill.used == bytes);
      job->pe(1).receiving[0] = false;
      job->settle();
      CHECK(job->node(0).spill.used == 0);
      const auto expected = expected_of_mixed(n, each, 16 + n / 8);
      for (uint64_t w = 0; w < expected.size(); ++w) REQUIRE(job->pe(1).at<uint64_t>(0)[w] == expected[w]);
    }
}

TEST_CASE("compact rows go to the backlog up to the bytes of the packets, by whole messages") {
  for (uint32_t kind = 0; kind < 8; ++kind) {
    INFO("kind " << kind);
    const auto job = fake_job::with<handled, handled_too>({.nodes = 1, .pes_per_node = 3});
    job->pe(2).receiving[0] = true;
    const queue& q = job->pe(0).host_thread.direct;
    const auto has_room = [&] {
      for (int i = 0; i < 2000 && q.state->tickets - q.read_consumed() >= q.shape.slots; ++i) job->step();
      return q.state->tickets - q.read_consumed() < q.shape.slots;
    };
    uint32_t sent = 0;
    for (; has_room(); ++sent) send_mixed(job->pe(0).host_thread, kind * 10'000 + sent, 10'000, 2);
    const uint64_t bytes = mixed_bytes_of_kind[kind], backlog = 2 * 4096 / bytes;
    CHECK_THAT(job->plane_of(0).describe(),
               contains_text(fmt::format("{} bytes of it copied out of slots", backlog * bytes)));
    CHECK(sent <= 2 * (packet_capacity_units(4096) * sizeof(unit) / bytes) + backlog + q.shape.slots);
    job->pe(2).receiving[0] = false;
    job->quiet(0);
    CHECK(job->stat_of(gravel::detail::stat::messages_taken) == sent);
    if (kind == 0) CHECK(job->pe(2).at<uint64_t>(0)[0] == sent);
    if (kind == 6) CHECK(job->pe(2).at<uint64_t>(0)[7] == sent);
    job->settle();
    CHECK_FALSE(job->plane_of(0).busy());
  }
}

TEST_CASE("compact rows of all kinds over two hops, with slow receivers") {
  constexpr uint32_t n = 1600;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<handled, handled_too, floods_mixed>(
        {.nodes = 4,
         .pes_per_node = 1,
         .seed = seed,
         .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}, {"GRAVEL_TIMEOUT_US", seed % 3 ? "10" : "0"}}});
    const auto each = static_cast<uint32_t>(1 + seed % 5);
    // A PE's host thread sends to the far corner; a handler of the node between does, too, to the other one.
    gravel_am<floods_mixed>(job->pe(1).host_thread, 1, n, each, 2);
    for (uint32_t i = 0; i < n; ++i) {
      if (i % 40 == 0) job->pe(3).receiving[0] = i % 200 != 0;
      if (i % 40 == 39) job->pe(3).receiving[0] = false;
      send_mixed(job->pe(0).host_thread, i, each, 3);
    }
    job->quiet_all();
    job->settle();
    CHECK(job->stat_of(gravel::detail::stat::messages_forwarded) >= 2 * n);
    const auto expected = expected_of_mixed(n, each, 16 + n / 8);
    for (uint32_t pe : {2u, 3u})
      for (uint64_t w = 0; w < expected.size(); ++w) REQUIRE(job->pe(pe).at<uint64_t>(0)[w] == expected[w]);
  }
}

TEST_CASE("a handler that this program does not have, or that throws, is named") {
  const auto job = fake_job::with<flooded, throws>({});
  SECTION("not registered") {
    gravel_am<unknown_to_receiver>(job->pe(0).host_thread, 1, 5);
    job->settle();
    CHECK(job->stat_of(gravel::detail::stat::messages_taken) == 0);
    const device_error e = job->error_of(0);
    CHECK(e.code == static_cast<uint64_t>(message_fault::unknown_handler) + 1);
    CHECK(e.pe == 1);
    CHECK(std::string(reinterpret_cast<const char*>(e.name)) == unknown_to_receiver::name);
  }
  SECTION("throws") {
    gravel_am<throws>(job->pe(0).host_thread, 1);
    CHECK_THROWS_WITH(job->settle(), contains_text("'thrower'") && contains_text("no reason"));
  }
}

TEST_CASE("a packet that was damaged on the way is refused, with node and cause") {
  struct row {
    const char* text;
    std::function<void(fake_link::delivery&)> damage;
  };
  // Inside a message (data) and by a put (the notice is damaged).
  const row table[] = {
      {"no packet header", [](auto& d) { d.data.empty() ? void(d.header.a = 10) : void(d.data[0] ^= std::byte{1}); }},
      {"length", [](auto& d) { d.data.empty() ? void(d.header.a -= 16) : void(d.data[4] ^= std::byte{16}); }},
      {"corrupt packet from node 0", [](auto& d) { d.header.sequence += 1; }},
      {"without a credit", [](auto& d) { d.header.sequence += 2; }},
      {"without a credit", [](auto& d) { d.header.sequence = ~0ull; }},
      {"corrupt packet from node 0", [](auto& d) { d.header.sink ^= 1; }},
      {"not here", [](auto& d) { d.header.sink = 0; }},
      {"not here", [](auto& d) { d.header.sink = 99; }},
      {"not here", [](auto& d) { d.header.sink = transit_sink; }},
      {"plane 1 of node 0", [](auto& d) { d.header.plane = 1; }},
      {"of node 1", [](auto& d) { d.header.source_node = 1; }},
      {"of node 77", [](auto& d) { d.header.source_node = 77; }},
  };
  for (const char* eager : {"64K", "0"})
    for (const row& r : table) {
      INFO(r.text << ", eager size " << eager);
      const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1, .settings = {{"GRAVEL_EAGER_SIZE", eager}}});
      put_word(*job, 0, 1, 0, 1);
      job->tamper = r.damage;
      CHECK_THROWS_WITH(job->settle(), contains_text(r.text));
      CHECK(job->pe(1).at<uint64_t>(0)[0] == 0);
    }
}

TEST_CASE("a packet whose length is no packet's, and one that comes twice") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
  SECTION("short") {
    job->tamper = [](auto& d) { d.data.resize(100); };
    put_word(*job, 0, 1, 0, 1);
    CHECK_THROWS_WITH(job->settle(), contains_text("100 bytes") && contains_text("node 0"));
  }
  SECTION("long") {
    job->tamper = [](auto& d) { d.data.resize(5000); };
    put_word(*job, 0, 1, 0, 1);
    CHECK_THROWS_WITH(job->settle(), contains_text("5000 bytes"));
  }
  SECTION("twice") {
    fake_link::delivery copy;
    job->tamper = [&](auto& d) {
      if (d.header.kind == plane_message::packet) copy = d;
    };
    put_word(*job, 0, 1, 0, 1);
    job->settle();
    CHECK_THROWS_WITH(job->plane_of(1).receive(copy.header, copy.data, job->now), contains_text("node 0"));
  }
}

TEST_CASE("a packet that was damaged in a landing ring is refused by the receiver") {
  const auto job = fake_job::with<>({});
  job->handlers_paused = true;
  put_word(*job, 0, 1, 0, 1);
  job->settle();
  landing ring = job->pe(1).segment->landing_of(sink_kind::device);
  REQUIRE(ring.arrived(0, 0));
  rows_of(ring.packet(0, 0))->messages = 9;
  job->handlers_paused = false;
  CHECK_THROWS_WITH(job->settle(), contains_text("corrupt packet"));
}

TEST_CASE("a credit that cannot be true is refused") {
  // Node 0 has sent one packet to sink 2 (PE 1) of node 1, and none was freed yet.
  struct row {
    uint32_t node, sink, plane;
    uint64_t freed, applied;
    const char* text;
  };
  const row table[] = {
      {1, 2, 0, 2, 0, "1 were sent"},
      {1, 2, 0, 1, 2, "2 applied"},
      {1, 2, 0, ~0ull, 0, "1 were sent"},
      {1, 3, 0, 1, 1, "0 were sent"},
      {1, 0, 0, 0, 0, "nothing was sent"},
      {1, 4, 0, 0, 0, "nothing was sent"},
      {1, transit_sink, 0, 0, 0, "nothing was sent"},
      {1, 77, 0, 0, 0, "nothing was sent"},
      {0, 2, 0, 0, 0, "node 0"},
      {9, 2, 0, 0, 0, "node 9"},
      {1, 2, 5, 0, 0, "plane 5"},
  };
  for (const row& r : table) {
    INFO(r.text << ", sink " << r.sink);
    const auto job = fake_job::with<>({.nodes = 3, .pes_per_node = 1});
    put_word(*job, 0, 1, 0, 1);
    job->pe(0).host_thread.direct.request_flush(1);
    job->step_plane(0, 0);
    const plane_header credit{plane_message::credit, r.node, r.sink, r.plane, 0, r.freed, r.applied};
    CHECK_THROWS_WITH(job->plane_of(0).receive(credit, {}, job->now), contains_text(r.text));
  }
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
  put_word(*job, 0, 1, 0, 1);
  job->quiet(0);
  CHECK_THROWS_WITH(job->plane_of(0).receive({plane_message::credit, 1, 2, 0, 0, 0, 0}, {}, job->now),
                    contains_text("0 freed"));
}

TEST_CASE("collective words are not the plane's") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1});
  for (plane_message w : {plane_message::contribution, plane_message::result, plane_message::abort})
    CHECK_FALSE(job->plane_of(0).receive({w, 1, 0, 0, 0, 0, 0}, {}, job->now));
}

TEST_CASE("the dump for the watchdog names queues, tickets and destinations") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 2});
  job->handlers_paused = true;
  CHECK_FALSE(job->plane_of(0).busy());
  for (int i = 0; i < 3; ++i) put_word(*job, 1, 3, 0, 1);
  job->pe(1).host_thread.direct.request_flush(3);
  job->settle();
  CHECK(job->plane_of(0).busy());
  CHECK(job->plane_of(1).busy());
  CHECK_THAT(job->plane_of(0).describe(), contains_text("PE 1 host queue: 3 slots taken") &&
                                              contains_text("below ticket 3") &&
                                              contains_text("to PE 3: 1 packets sent, 0 freed"));
  CHECK_THAT(job->plane_of(1).describe(), contains_text("from node 0 to PE 3: 1 packets arrived"));
  job->handlers_paused = false;
  job->settle();
  CHECK_FALSE(job->plane_of(0).busy());
  CHECK_FALSE(job->plane_of(1).busy());
}

TEST_CASE("statistics say where messages went") {
  const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 2, .self_in_place = false});
  job->clock_step = 0;  // so that packets leave only for a flush
  put_word(*job, 0, 0, 0, 1);
  for (int i = 0; i < 2; ++i) put_word(*job, 0, 1, 0, 1);
  for (int i = 0; i < 4; ++i) put_word(*job, 0, 2, 0, 1);
  for (int i = 0; i < 8; ++i) put_word(*job, 3, 1, 0, 1);
  job->quiet_all();
  CHECK(job->stat_of(gravel::detail::stat::messages_taken) == 15);
  CHECK(job->stat_of(gravel::detail::stat::messages_to_self) == 1);
  CHECK(job->stat_of(gravel::detail::stat::messages_off_node) == 12);
  CHECK(job->stat_of(gravel::detail::stat::slots_taken) == 15);
  CHECK(job->stat_of(gravel::detail::stat::packets) == job->stat_of(gravel::detail::stat::packets_local) +
                                                           job->stat_of(gravel::detail::stat::packets_eager) +
                                                           job->stat_of(gravel::detail::stat::packets_put));
  CHECK(job->stat_of(gravel::detail::stat::packets) == 4);
  uint64_t units = 0;
  for (uint64_t messages : {1, 2, 4, 8}) units += units_for(put_kind, messages);
  CHECK(job->stat_of(gravel::detail::stat::packet_bytes) ==
        job->stat_of(gravel::detail::stat::packets) * packet_payload_offset + units * sizeof(unit));
}
