// The queue's arithmetic by table, and the slot protocol under seeded schedules: producers and consumers are lanes of one
// block of the CPU backend, which switches between them at every atomic. Planted bugs show that the schedules find some.
#include "lib/base/queue_consumer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "device/simt.hpp"
#include "lib/base/error.hpp"
#include "test/catch.hpp"

using namespace gravel;

namespace {

constexpr uint64_t top = ~0ull;
constexpr uint64_t bases[] = {0, (1ull << 32) - 12, (1ull << 48) - 12, 1ull << 62};

/// A queue of one-message slots in plain memory whose next ticket is `base`.
struct small_queue {
  queue_shape shape;
  std::unique_ptr<queue_control> control = std::make_unique<queue_control>();
  queue_state state{};
  std::vector<unit> memory;
  queue q;
  small_queue(uint32_t slots, uint32_t n_planes, uint64_t base)
      : shape{slots, 8, 4, n_planes}, memory((slots * shape.slot_bytes() + 64) / sizeof(unit)) {
    std::fill_n(reinterpret_cast<char*>(control.get()), sizeof(queue_control), 0);
    char* at = reinterpret_cast<char*>(memory.data());
    at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
    q = {control.get(), &state, at, shape};
    state.tickets = state.consumed_below = base;
    for (uint32_t p = 0; p < n_planes; ++p) control->plane[p].consumed = base / n_planes;
  }
};

enum class bug { none, published_before_written, consumed_before_read, one_slot_too_many };

void write_message(queue& q, slot_header* s, const unit& message) {
  // Word by word with a switch possible before each, as another processor would see it.
  store_relaxed(&q.payload(s)->word[0], message.word[0]);
  store_relaxed(&q.payload(s)->word[1], message.word[1]);
  q.rows(s)[0] = {0, 1, 1};
}

void produce(queue q, const unit& message, bug planted) {
  const uint64_t ticket = planted != bug::one_slot_too_many ? q.claim() : [&] {
    queue wrong = q;
    const uint64_t t = fetch_add(&q.state->tickets, uint64_t{1});
    for (relax wait; !slot_is_free(t, wrong.read_consumed(), q.shape.slots + 1); wait()) {
    }
    return t;
  }();
  slot_header* s = q.slot(ticket);
  const unit sent{{message.word[0], ticket}};
  if (planted == bug::published_before_written) {
    q.publish(ticket, s, 1, 1);
    write_message(q, s, sent);
  } else {
    write_message(q, s, sent);
    q.publish(ticket, s, 1, 1);
  }
}

void consume(queue q, uint32_t p, uint64_t end, bug planted, std::vector<unit>& got) {
  queue_consumer slots(q, p);
  for (uint64_t ticket; (ticket = slots.next()) < end;) {
    slot_header* s;
    uint32_t rounds = 0;
    for (relax wait; !(s = slots.arrived()); wait())
      if (planted != bug::none && ++rounds > 500) fail("ticket {} was overwritten, or never comes", ticket);
    if (planted == bug::consumed_before_read) slots.release();
    const unit message{{load_relaxed(&q.payload(s)->word[0]), load_relaxed(&q.payload(s)->word[1])}};
    got.push_back(message);
    if (planted != bug::consumed_before_read) slots.release();
    if (message.word[1] != ticket) return;  // wrong already: do not wait for what may never come
  }
}

/// One schedule: is everything as it should be?
bool run_schedule(uint64_t seed, uint32_t n_planes, uint64_t base, bug planted) {
  constexpr uint32_t producers = 6, each = 5;
  base = base / n_planes * n_planes;
  small_queue small(4, n_planes, base);
  std::vector<std::vector<unit>> got(n_planes);
  simt::launch_options options{};
  options.seed = seed;
  const uint64_t end = base + producers * each;
  bool gave_up = false;
  try {
    simt::launch(1, producers + n_planes, options, [&] {
      const uint32_t lane = threadIdx.x;
      if (lane < producers) {
        for (uint64_t i = 0; i < each; ++i) produce(small.q, {{uint64_t{lane} << 32 | i, 0}}, planted);
      } else {
        consume(small.q, lane - producers, end, planted, got[lane - producers]);
        if (got[lane - producers].back().word[1] + n_planes < end) fail("a wrong message");  // stops the producers too
      }
    });
  } catch (const error&) {
    gave_up = true;
  }
  if (gave_up) return false;
  std::vector<uint64_t> all, last(producers, 0);
  for (uint32_t p = 0; p < n_planes; ++p) {
    uint64_t ticket = base + p;
    std::map<uint64_t, uint64_t> latest;
    for (const unit& m : got[p]) {
      if (m.word[1] != ticket) return false;  // in ticket order, none skipped
      ticket += n_planes;
      const uint64_t lane = m.word[0] >> 32, i = (m.word[0] & 0xffffffff) + 1;
      if (lane >= producers || latest[lane] >= i) return false;  // of one lane in the order of sending
      latest[lane] = i;
      all.push_back(m.word[0]);
    }
  }
  std::sort(all.begin(), all.end());
  if (all.size() != producers * each) return false;
  for (uint32_t k = 0; k < all.size(); ++k)
    if (all[k] != (uint64_t{k / each} << 32 | k % each)) return false;
  return true;
}

}  // namespace

TEST_CASE("slot_is_free, also where tickets pass 2^32, 2^63 and 2^64") {
  struct row {
    uint64_t ticket, consumed;
    bool free;
  };
  constexpr uint32_t slots = 8;
  std::vector<row> table;
  for (uint64_t base : {0ull, 1ull * slots, 1ull << 32, (1ull << 32) - 3, 1ull << 63, (1ull << 63) - 3, 1ull * top, top - 3ull}) {
    table.push_back({base, base, true});
    table.push_back({base + slots - 1, base, true});
    table.push_back({base + slots, base, false});
    table.push_back({base + 2 * slots, base, false});
    table.push_back({base, base + 1, true});  // a cached count may be ahead of an old ticket
    table.push_back({base, base + slots, true});
  }
  for (const row& r : table) {
    INFO("ticket " << r.ticket << ", consumed " << r.consumed);
    CHECK(slot_is_free(r.ticket, r.consumed, slots) == r.free);
  }
}

TEST_CASE("next_ticket deals tickets to planes like cards") {
  for (uint32_t n = 1; n <= 5; ++n)
    for (uint64_t round : {0ull, 1ull, (1ull << 32) - 1, 1ull << 32, 1ull << 60}) {
      for (uint32_t p = 0; p < n; ++p) {
        CHECK(next_ticket(round, p, n) % n == (round * n + p) % n);
        CHECK(next_ticket(round, p, n) == round * n + p);
      }
      CHECK(next_ticket(round + 1, 0, n) == next_ticket(round, n - 1, n) + 1);
    }
}

TEST_CASE("a slot's place follows the ticket round the ring") {
  small_queue small(4, 1, 0);
  for (uint64_t base : {0ull, 4ull, 1ull << 32, 1ull << 63, top - 3ull})
    for (uint64_t i = 0; i < 4; ++i) {
      CHECK(small.q.slot(base + i) == small.q.slot(base + i + 4));
      CHECK(small.q.slot(base + i) != small.q.slot(base + i + 1));
      CHECK(reinterpret_cast<uintptr_t>(small.q.slot(base + i)) % 64 == 0);
    }
}

TEST_CASE("parts of a slot do not overlap") {
  const queue_shape shape{4, 64, 128, 2};
  CHECK(shape.payload_offset() == 64 + 64 * sizeof(message_row));
  CHECK(shape.slot_bytes() == shape.payload_offset() + 128 * sizeof(unit));
  CHECK(shape.slot_bytes() % 64 == 0);
}

TEST_CASE("what is consumed is the lowest ticket of any plane") {
  for (uint64_t base : bases) {
    small_queue small(4, 3, base / 3 * 3);
    const uint64_t b = base / 3 * 3;
    CHECK(small.q.read_consumed() == b);
    ++small.control->plane[0].consumed;
    CHECK(small.q.read_consumed() == b + 1);
    ++small.control->plane[2].consumed;
    CHECK(small.q.read_consumed() == b + 1);
    ++small.control->plane[1].consumed;
    CHECK(small.q.read_consumed() == b + 3);
  }
}

TEST_CASE("flush_target never falls back for who waits, and flushed asks all planes") {
  small_queue small(4, 2, 0);
  small.q.ask_flush(7);
  CHECK(small.control->flush_target == 7);
  small.q.ask_flush(3);
  CHECK(small.control->flush_target == 7);
  CHECK_FALSE(small.q.flushed(7));
  small.control->plane[0].flush_done = 7;
  CHECK_FALSE(small.q.flushed(7));
  small.control->plane[1].flush_done = 9;
  CHECK(small.q.flushed(7));
  CHECK_FALSE(small.q.flushed(8));
}

TEST_CASE("a flush that was asked for once is not lost, whatever lanes ask beside it, under 500 schedules") {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    small_queue small(4, 1, 0);
    constexpr uint32_t lanes = 5;
    uint64_t highest = 0;
    simt::launch_options options{};
    options.seed = seed;
    simt::launch(1, lanes, options, [&] {
      for (uint64_t i = 0; i < 3; ++i) {
        const uint64_t target = 1 + (threadIdx.x * 7 + i * 11 + seed) % 37;
        highest = std::max(highest, target);
        small.q.ask_flush(target);
      }
    });
    REQUIRE(queue_consumer(small.q, 0).flush_target() == highest);
  }
}

TEST_CASE("host threads ask for flushes in a word of their own") {
  small_queue small(4, 1, 0);
  queue from_outside = small.q;
  from_outside.state = nullptr;
  small.q.ask_flush(7);
  from_outside.ask_flush(3);
  CHECK(small.control->flush_target == 7);
  CHECK(queue_consumer(small.q, 0).flush_target() == 7);
  from_outside.ask_flush(9);
  from_outside.ask_flush(8);
  small.q.ask_flush(8);
  CHECK(queue_consumer(small.q, 0).flush_target() == 9);
}

TEST_CASE("every message arrives once and in order, under 200 schedules, with 1 to 3 planes") {
  for (uint32_t n_planes : {1u, 2u, 3u})
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      INFO("planes " << n_planes << ", seed " << seed);
      REQUIRE(run_schedule(seed, n_planes, 0, bug::none));
    }
}

TEST_CASE("the same where tickets pass 2^32, 2^48 and 2^62") {
  for (uint64_t base : bases)
    for (uint32_t n_planes : {1u, 2u, 3u})
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        INFO("base " << base << ", planes " << n_planes << ", seed " << seed);
        REQUIRE(run_schedule(seed, n_planes, base, bug::none));
      }
}

TEST_CASE("without a seed, lanes in plain order") { CHECK(run_schedule(0, 2, 0, bug::none)); }

TEST_CASE("some schedule finds each planted bug") {
  for (bug planted : {bug::published_before_written, bug::consumed_before_read, bug::one_slot_too_many}) {
    uint64_t finding = 0;
    for (uint64_t seed = 1; seed <= 200 && !finding; ++seed)
      if (!run_schedule(seed, 1, 0, planted)) finding = seed;
    INFO("bug " << static_cast<int>(planted));
    CHECK(finding != 0);
  }
}
