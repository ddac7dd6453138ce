// The parts of the queue beyond a ring (ring_test.cpp): planes that share it, and flushes, under seeded schedules.
#include "lib/base/queue_consumer.hpp"

#include <algorithm>
#include <vector>

#include "device/simt.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t bases[] = {0, (1ull << 32) - 12, (1ull << 48) - 12, 1ull << 62};

/// A queue of one-message slots in plain memory whose next ticket is `base`.
struct small_queue {
  std::vector<uint64_t> memory;
  queue_state state{};
  queue q;
  queue_control* control;
  small_queue(uint32_t slots, uint32_t n_planes, uint64_t base) {
    const queue_shape shape{slots, 8, 4, n_planes};
    memory.resize((shape.bytes() + 63) / 8);
    q = queue::in(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64), &state, shape);
    control = q.control;
    state.tickets = state.consumed_below = base;
    for (uint32_t p = 0; p < n_planes; ++p) control->plane[p].consumed = base / n_planes;
  }
};

}  // namespace

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

TEST_CASE("parts of a slot do not overlap") {
  const queue_shape shape{4, 64, 128, 2};
  CHECK(shape.payload_offset() == 64 + 64 * sizeof(message_row) + 64);
  CHECK(shape.slot_bytes() == shape.payload_offset() + 128 * sizeof(unit));
  for (uint32_t rows = 8; rows <= 32; rows += 8)
    for (uint32_t units = 4; units <= 16; units += 4) {
      const queue_shape odd{4, rows, units, 2};
      CHECK(odd.payload_offset() >= sizeof(slot_header) + rows * sizeof(message_row));
      CHECK(odd.slot_bytes() >= odd.payload_offset() + units * sizeof(unit));
      CHECK(odd.payload_offset() % 128 == 0);
      CHECK(odd.slot_bytes() % 128 == 0);
    }
}

TEST_CASE("the consumed count is the lowest ticket of any plane") {
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

TEST_CASE("flush_target never falls back for a waiting party, and flushed asks all planes") {
  small_queue small(4, 2, 0);
  small.q.request_flush(7);
  CHECK(small.control->flush_target == 7);
  small.q.request_flush(3);
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
        small.q.request_flush(target);
      }
    });
    REQUIRE(queue_consumer(small.q, 0).flush_target() == highest);
  }
}

TEST_CASE("host threads ask for flushes in a word of their own") {
  small_queue small(4, 1, 0);
  queue from_outside = small.q;
  from_outside.state = nullptr;
  small.q.request_flush(7);
  from_outside.request_flush(3);
  CHECK(small.control->flush_target == 7);
  CHECK(queue_consumer(small.q, 0).flush_target() == 7);
  from_outside.request_flush(9);
  from_outside.request_flush(8);
  small.q.request_flush(8);
  CHECK(queue_consumer(small.q, 0).flush_target() == 9);
}
