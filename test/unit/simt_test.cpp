#include "device/simt.hpp"

#include "device/team_check.cuh"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/seeds.hpp"
#include "test/support/simt_kernels.cuh"

using namespace gravel::detail;
using simt::launch;

namespace {

constexpr uint64_t seeds = 200;

/// Runs the check without a seed and with a few.
void with_some_seeds(const std::function<void(simt::launch_options)>& check) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    check({.threads = 2, .seed = seed});
  }
}

[[maybe_unused]] size_t mappings_of_this_process() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

/// Says whether an object is destroyed whatever way its lane ends.
struct counted {
  explicit counted(int* alive) : alive(alive) { atomicAdd(alive, 1); }
  ~counted() { atomicAdd(alive, -1); }
  counted(const counted&) = delete;
  int* alive;
};

}  // namespace

TEST_CASE("indices in three dimensions, x fastest") {
  with_some_seeds([](simt::launch_options options) {
    const dim3 grid(3, 2, 4), block(5, 4, 3);
    std::vector<kernels::place> out(24 * 60);
    launch(grid, block, options, [&] { kernels::indices(out.data()); });
    size_t i = 0;
    for (uint32_t bz = 0; bz < 4; ++bz)
      for (uint32_t by = 0; by < 2; ++by)
        for (uint32_t bx = 0; bx < 3; ++bx)
          for (uint32_t z = 0; z < 3; ++z)
            for (uint32_t y = 0; y < 4; ++y)
              for (uint32_t x = 0; x < 5; ++x) {
                const kernels::place& p = out[i++];
                const bool right = p.lane[0] == x && p.lane[1] == y && p.lane[2] == z && p.block[0] == bx &&
                                   p.block[1] == by && p.block[2] == bz && p.lanes[0] == 5 && p.lanes[1] == 4 &&
                                   p.lanes[2] == 3 && p.blocks[0] == 3 && p.blocks[1] == 2 && p.blocks[2] == 4;
                REQUIRE(right);
              }
  });
  static_assert(warpSize == 32);
}

TEST_CASE("barriers and dynamic shared memory") {
  with_some_seeds([](simt::launch_options options) {
    for (unsigned lanes : {1u, 31u, 32u, 100u, 1024u}) {
      std::vector<uint32_t> out(lanes);
      options.shared_bytes = lanes * sizeof(uint32_t);
      launch(1, lanes, options, [&] { kernels::rotate(out.data(), 5); });
      for (uint32_t t = 0; t < lanes; ++t) REQUIRE(out[t] == (t + 5) % lanes);
    }
    options.shared_bytes = 1;
    bool aligned = false;
    launch(1, 1, options, [&] { aligned = reinterpret_cast<uintptr_t>(gravel_dynamic_shared()) % 128 == 0; });
    CHECK(aligned);
  });
}

TEST_CASE("barriers that vote") {
  with_some_seeds([](simt::launch_options options) {
    constexpr int rounds = 9, lanes = 75;
    std::vector<int> out(rounds * lanes * 3);
    launch(1, lanes, options, [&] { kernels::vote_at_barriers(out.data(), rounds); });
    for (int r = 0; r < rounds; ++r)
      for (int t = 0; t < lanes; ++t) {
        const int* o = &out[static_cast<size_t>((r * lanes + t) * 3)];
        REQUIRE(o[0] == (lanes - 1) / (r + 1) + 1);
        REQUIRE((o[1] != 0) == (r == 0));
        REQUIRE(o[2] != 0);
      }
  });
}

TEST_CASE("a barrier counts only lanes that have not ended") {
  with_some_seeds([](simt::launch_options options) {
    std::vector<uint32_t> present(10);
    launch(1, 300, options, [&] { kernels::leave_early(present.data()); });
    for (uint32_t r = 0; r < 10; ++r) REQUIRE(present[r] == (r < 9 ? 300 - 32 * (r + 1) : 0));
    for (uint32_t gone : {0u, 1u, 31u, 32u, 70u, 99u}) {
      std::vector<int> counts(100);
      launch(1, 100, options, [&] { kernels::return_at_once(gone, counts.data()); });
      for (uint32_t t = 0; t < 100; ++t) REQUIRE(counts[t] == (t < gone ? 0 : 100 - static_cast<int>(gone)));
    }
    // Here even lanes that leave a loop one by one.
    std::vector<uint32_t> one_less(100);
    launch(1, 100, options, [&] {
      for (uint32_t r = 0; r < threadIdx.x; ++r) {
        atomicAdd(&one_less[r], 1);
        __syncthreads();
      }
    });
    for (uint32_t r = 0; r < 100; ++r) REQUIRE(one_less[r] == 99 - r);
  });
}

TEST_CASE("warp collectives with any mask") {
  std::mt19937 draw(7);
  with_some_seeds([&](simt::launch_options options) {
    for (int n = 0; n < 30; ++n) {
      uint32_t mask = static_cast<uint32_t>(draw());
      if (n % 3 == 0) mask &= static_cast<uint32_t>(draw()) & static_cast<uint32_t>(draw());
      if (n == 1) mask = ~0u;
      if (mask == 0) mask = 1u << n;
      INFO("mask " << mask);
      std::vector<uint64_t> out(64 * kernels::collective_results);
      launch(1, 64, options, [&] { kernels::collectives(mask, out.data()); });

      const auto value = [](uint32_t lane) { return 1000 + lane * 37 % 11; };
      const auto negative = [](uint32_t lane) { return static_cast<int>(lane % 5) - 2; };
      std::vector<uint32_t> lanes;
      for (uint32_t l = 0; l < 32; ++l)
        if (mask >> l & 1) lanes.push_back(l);
      const uint32_t first = lanes[0];
      uint32_t thirds = 0, sum = 0, all_and = ~0u, all_or = 0, all_xor = 0, low = ~0u, high = 0;
      int signed_sum = 0, signed_low = 100, signed_high = -100;
      bool one_value = true;
      for (uint32_t l : lanes) {
        if (l % 3 == 0) thirds |= 1u << l;
        sum += value(l);
        all_and &= value(l);
        all_or |= value(l);
        all_xor ^= value(l);
        low = std::min(low, value(l));
        high = std::max(high, value(l));
        signed_sum += negative(l);
        signed_low = std::min(signed_low, negative(l));
        signed_high = std::max(signed_high, negative(l));
        one_value &= value(l) == value(first);
      }
      const bool has_four = mask >> 4 & 1;
      for (uint32_t t = 0; t < 64; ++t) {
        const uint64_t* o = &out[t * kernels::collective_results];
        if (!(mask >> t % 32 & 1)) continue;
        uint32_t alike = 0;
        for (uint32_t l : lanes)
          if (value(l) == value(t % 32)) alike |= 1u << l;
        const std::vector<uint64_t> expected{thirds,
                                             has_four,
                                             !has_four,
                                             value(first),
                                             (uint64_t{value(first)} << 32) + first,
                                             2 * first + 1,
                                             2 * first + 1,
                                             alike,
                                             alike,
                                             one_value ? mask : 0,
                                             one_value,
                                             mask,
                                             1,
                                             sum,
                                             static_cast<uint64_t>(int64_t{signed_sum}),
                                             low,
                                             static_cast<uint64_t>(int64_t{signed_low}),
                                             high,
                                             static_cast<uint64_t>(int64_t{signed_high}),
                                             all_and,
                                             all_or,
                                             all_xor};
        INFO("lane " << t);
        REQUIRE(std::vector<uint64_t>(o, o + expected.size()) == expected);
      }
    }
  });
}

TEST_CASE("shuffles of every width") {
  with_some_seeds([](simt::launch_options options) {
    for (int width : {1, 2, 4, 8, 16, 32})
      for (int by : {0, 1, 2, 3, 5, 8, 15, 16, 31, 33}) {
        std::vector<uint32_t> out(32 * kernels::shuffle_results);
        launch(1, 32, options, [&] { kernels::shuffles(width, by, out.data()); });
        for (int lane = 0; lane < 32; ++lane) {
          INFO("width " << width << " by " << by << " lane " << lane);
          const int begin = lane / width * width, end = begin + width;
          const int target = lane ^ by;
          const uint32_t* o = &out[static_cast<size_t>(lane * kernels::shuffle_results)];
          REQUIRE(o[0] == static_cast<uint32_t>(begin + by % width));
          REQUIRE(o[1] == static_cast<uint32_t>(lane - by >= begin ? lane - by : lane));
          REQUIRE(o[2] == static_cast<uint32_t>(lane + by < end ? lane + by : lane));
          if (by < 32) REQUIRE(o[3] == static_cast<uint32_t>(target < end ? target : lane));
          REQUIRE(o[4] == static_cast<uint32_t>(begin + (lane + by) % width));
        }
      }
  });
  CHECK_THAT(error_of([] { launch(1, 32, {}, [] { __shfl_sync(~0u, 1, 0, 12); }); }), contains_text("width 12"));
}

TEST_CASE("a full mask in a block that is no multiple of a warp") {
  with_some_seeds([](simt::launch_options options) {
    std::vector<unsigned> votes(40);
    launch(1, 40, options, [&] { votes[threadIdx.x] = __ballot_sync(~0u, 1); });
    for (unsigned t = 0; t < 40; ++t) CHECK(votes[t] == (t < 32 ? ~0u : 0xffu));
  });
}

TEST_CASE("a value shuffled from outside the mask is wrong, visibly") {
  std::vector<unsigned> got(2);
  launch(1, 2, {.threads = 1}, [&] {
    if (threadIdx.x == 0) got[0] = __shfl_sync(1u, 5u, 1);
    got[1] = __shfl_sync(3u, 6u, 1);
  });
  CHECK(got[0] == ~5u);
  CHECK(got[1] == 6u);
}

TEST_CASE("a small value is shuffled as an int, as on a GPU") {
  std::vector<int> got(2);
  launch(1, 2, {.threads = 1}, [&] {
    const bool mine = threadIdx.x == 1;
    static_assert(std::is_same_v<decltype(__shfl_sync(3u, mine, 1)), int>);
    got[threadIdx.x] = __shfl_sync(3u, mine, 1) + __shfl_xor_sync(3u, static_cast<short>(threadIdx.x), 1);
  });
  CHECK(got == std::vector<int>{2, 1});
}

TEST_CASE("bit operations") {
  std::vector<uint64_t> in{0, 1, ~0ull, 0x8000'0000'0000'0000u, 0x8000'0000u, 0x1234'5678'9abc'def0u, 6};
  std::vector<kernels::bits_of> out(in.size());
  launch(1, static_cast<unsigned>(in.size()), {}, [&] { kernels::count_bits(in.data(), out.data()); });
  for (size_t i = 0; i < in.size(); ++i) {
    const auto low = static_cast<uint32_t>(in[i]);
    uint32_t reversed = 0;
    for (int b = 0; b < 32; ++b) reversed |= (low >> b & 1) << (31 - b);
    CHECK(out[i].popc == std::popcount(low));
    CHECK(out[i].popcll == std::popcount(in[i]));
    CHECK(out[i].ffs == (low ? std::countr_zero(low) + 1 : 0));
    CHECK(out[i].ffsll == (in[i] ? std::countr_zero(in[i]) + 1 : 0));
    CHECK(out[i].clz == std::countl_zero(low));
    CHECK(out[i].clzll == std::countl_zero(in[i]));
    CHECK(out[i].brev == reversed);
  }
}

TEST_CASE("atomics over blocks and threads") {
  for (unsigned threads : {1u, 2u, 4u}) {
    kernels::atomic_words w{};
    w.u_and = ~0u;
    w.u_min = ~0u;
    w.u64_min = ~0ull;
    constexpr int n = 20 * 50;
    launch(20, 50, {.threads = threads}, [&] { kernels::atomics(&w); });
    CHECK(w.i_add == -2 * n);
    CHECK(w.i_sub == -3 * n);
    CHECK(w.i_min == -(n - 1));
    CHECK(w.i_max == n - 1);
    CHECK(w.i_exch == 77);
    CHECK(w.u_add == n);
    CHECK(w.u_min == 5);
    CHECK(w.u_max == n - 1);
    CHECK(w.u_and == 0xffff'0000u);
    CHECK(w.u_or == ~0u);
    CHECK(w.u_xor == 0);  // 0 ^ 1 ^ ... ^ (4k - 1)
    CHECK(w.ull_add == static_cast<unsigned long long>(n) << 33);
    CHECK(w.u64_add == uint64_t{n} << 34);
    CHECK(w.u64_min == 9);
    CHECK(w.u64_max == uint64_t{n - 1} << 32);
    CHECK(w.u64_or == ~0ull);
    CHECK(w.i64_min == -(int64_t{n - 1} << 32));
    CHECK(w.f_add == n);
    CHECK(w.d_add == n / 2);
    CHECK(w.u_cas == 2 * n);
    CHECK(w.u64_cas == uint64_t{n} << 40);
  }
}

TEST_CASE("a reduction over several blocks and threads") {
  std::vector<uint32_t> values(10'007);
  std::iota(values.begin(), values.end(), 3u);
  const auto expected = std::accumulate(values.begin(), values.end(), 0ull);
  for (unsigned threads : {1u, 2u, 3u})
    for (uint64_t seed : {0, 1, 2}) {
      unsigned long long total = 0;
      launch(13, 96, {.threads = threads, .seed = seed},
             [&] { kernels::sum(values.data(), static_cast<uint32_t>(values.size()), &total); });
      CHECK(total == expected);
    }
}

// ---- schedules

TEST_CASE("without a seed lanes run in order, each until it waits") {
  std::vector<unsigned> trace;
  launch(1, 3, {.threads = 1}, [&] {
    trace.push_back(threadIdx.x);
    trace.push_back(10 + threadIdx.x);
    __syncthreads();
    trace.push_back(20 + threadIdx.x);
  });
  std::vector<unsigned> before(trace.begin(), trace.begin() + 6), after(trace.begin() + 6, trace.end());
  CHECK(before == std::vector<unsigned>{0, 10, 1, 11, 2, 12});
  std::sort(after.begin(), after.end());
  CHECK(after == std::vector<unsigned>{20, 21, 22});
}

TEST_CASE("a seed replays its schedule, and seeds differ") {
  const auto schedule_of = [](uint64_t seed) {
    std::vector<unsigned> trace;
    uint32_t word = 0;
    launch(3, 40, {.seed = seed}, [&] {
      for (int i = 0; i < 3; ++i) {
        atomicAdd(&word, 1);
        trace.push_back(blockIdx.x * 100 + threadIdx.x);
      }
      const unsigned group = __activemask();
      trace.push_back(group);
      __syncwarp(group);
      relax{}();
      trace.push_back(blockIdx.x * 100 + threadIdx.x);
      __syncthreads();
      trace.push_back(blockIdx.x * 100 + threadIdx.x);
    });
    return trace;
  };
  std::set<std::vector<unsigned>> different;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto trace = schedule_of(seed);
    REQUIRE(trace == schedule_of(seed));
    different.insert(trace);
  }
  CHECK(different.size() == 20);
}

TEST_CASE("seeds permute the blocks") {
  std::set<std::vector<unsigned>> orders;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<unsigned> order;
    launch(3, 1, {.seed = seed}, [&] { order.push_back(blockIdx.x); });
    orders.insert(order);
    std::sort(order.begin(), order.end());
    REQUIRE(order == std::vector<unsigned>{0, 1, 2});
  }
  CHECK(orders.size() == 6);
}

TEST_CASE("exploration finds a planted bug") {
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    uint32_t word = 0;
    launch(1, 8, {.seed = seed}, [&] { kernels::lose_updates(&word, 2); });
    REQUIRE(word <= 16);
    found += word != 16;
  }
  CHECK(found > 0);
  uint32_t word = 0;
  launch(1, 8, {.threads = 1}, [&] { kernels::lose_updates(&word, 2); });
  CHECK(word == 16);  // which shows why there are seeds
}

TEST_CASE("a ticket lock under all seeds") {
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    uint32_t tickets = 0, serving = 0, guarded = 0;
    launch(2, 16, {.threads = 2, .seed = seed}, [&] { kernels::ticket_lock(&tickets, &serving, &guarded, 3); });
    REQUIRE(guarded == 2 * 16 * 3);
  }
}

TEST_CASE("a bounded ring under all seeds") {
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    kernels::ring r{};
    unsigned long long total = 0, expected = 0;
    launch(1, 16, {.threads = 1, .seed = seed}, [&] { kernels::through_ring(&r, 6, &total); });
    for (unsigned t = 0; t < 16; t += 2)
      for (unsigned i = 0; i < 6; ++i) expected += t * 6 + i;
    REQUIRE(total == expected);
  }
}

TEST_CASE("groups of lanes that stand together") {
  uint32_t largest_of_all = 0, smallest_largest = 32;
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    constexpr uint32_t lanes = 70, rounds = 3;
    std::vector<uint32_t> numbers(lanes * rounds);
    uint32_t next = 0, largest = 0;
    launch(1, lanes, {.threads = 1, .seed = seed},
           [&] { kernels::take_numbers(&next, numbers.data(), &largest, rounds); });
    uint32_t expected = 0;
    for (uint32_t t = 0; t < lanes; ++t)
      for (uint32_t r = 0; r < rounds; ++r) expected += (t + r) % 3 != 0;
    REQUIRE(next == expected);
    for (uint32_t i = 0; i < expected; ++i) REQUIRE(numbers[i] == 1);
    if (seed == 0) REQUIRE(largest == 1);
    if (seed) smallest_largest = std::min(smallest_largest, largest);
    largest_of_all = std::max(largest_of_all, largest);
  }
  CHECK(largest_of_all > 8);
}

TEST_CASE("a lane in __activemask does not delay lanes that relax until it continues") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    uint32_t arrived = 0;
    launch(1, 40, {.seed = seed}, [&] {
      if (threadIdx.x % 4 == 0) {
        const unsigned group = __activemask();
        REQUIRE((group >> threadIdx.x % 32 & 1));
        REQUIRE((group & ~0x11111111u) == 0);
        atomicAdd(&arrived, 1);
      }
      for (relax relax; load_acquire(&arrived) != 10;) relax();
    });
    REQUIRE(arrived == 10);
  }
}

TEST_CASE("different places of the program are different groups") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    unsigned group[32], low = 0, high = 0;
    launch(1, 32, {.seed = seed}, [&] {
      if (threadIdx.x < 16) {
        group[threadIdx.x] = __activemask();
        atomicAdd(&low, 1);  // what follows differs, or the compiler makes one place of the two
      } else {
        group[threadIdx.x] = __activemask();
        atomicAdd(&high, 2);
      }
    });
    REQUIRE(low + high == 16 + 32);
    for (unsigned t = 0; t < 32; ++t) REQUIRE((group[t] & (t < 16 ? 0xffff0000u : 0xffffu)) == 0);
  }
}

// ---- waiting

TEST_CASE("lanes that all relax leave the processor to others") {
  // Each lane relaxes as long as the hook finds another lane to switch to; when all do, one of them per round
  // gets the length of its wait, and its relax object yields, and at last sleeps.
  for (uint64_t seed : {0, 1, 2}) {
    uint32_t waits = 0, calls = 0, longest = 0, alone = 0;
    launch(1, 64, {.threads = 1, .seed = seed}, [&] {
      for (uint32_t i = 0; i < 1000; ++i) {
        ++calls;
        const uint32_t idle = relax_hook(2 + i);  // 1 would say: I did something since
        waits += idle != 0;
        longest = std::max(longest, idle);
      }
    });
    CHECK(calls == 64'000);
    CHECK(waits >= 500);
    CHECK(waits <= 64'000 / 16);
    CHECK(longest >= 500);
    // A lane alone always waits, as long as it has waited.
    launch(1, 1, {.threads = 1, .seed = seed}, [&] { alone = relax_hook(1) + relax_hook(300); });
    CHECK(alone == 301);
  }
}

namespace {
/// Something scarce that another process hands out, a few at a time, whenever the thread gives up the processor. The
/// calls are counted: a wait that is too seldom or too long would go_idle either side.
struct rationed {
  static constexpr uint32_t batch = 4;
  static inline thread_local rationed* current;
  uint32_t granted = 0, taken = 0, polls_left = 20'000'000;
  uint64_t calls = 0, waits = 0, sleeps = 0;
  relax_function of_lanes = nullptr;

  static uint32_t relax(uint32_t rounds) {
    rationed& me = *current;
    ++me.calls;
    if (--me.polls_left == 0) fail("nobody gives up the processor");
    const uint32_t idle = me.of_lanes(rounds);
    if (idle) {
      ++me.waits;
      me.sleeps += idle >= gravel::detail::relax::sleeps_from;
      store_release(&me.granted, me.granted + batch);
    }
    return 0;
  }
  /// Takes `n`, one at a time, in the order of tickets. Every read of the words is an interleaving point.
  void take(uint32_t n) {
    if (relax_hook != relax) {
      of_lanes = relax_hook;
      relax_hook = relax;
    }
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t ticket = fetch_add(&taken, 1u);
      for (gravel::detail::relax wait; load_acquire(&granted) <= ticket; wait()) {
      }
    }
  }
};
}  // namespace

TEST_CASE("lanes of which some go on wait neither too seldom nor too long") {
  for (uint64_t seed : {0, 1, 157}) {
    INFO("seed " << seed);
    rationed source;
    rationed::current = &source;
    constexpr uint32_t lanes = 32 * static_cast<uint32_t>(of_seeds(32)), each = 4;
    launch(1, lanes, {.threads = 1, .seed = seed}, [&] { source.take(each); });
    // If no lane can go on, that is known after two rounds or so. And no lane's long wait makes the thread sleep.
    CHECK(source.waits >= lanes * each / rationed::batch - lanes);
    CHECK(source.waits <= 2 * lanes * each / rationed::batch);
    CHECK(source.calls <= source.waits * 3 * lanes);
    CHECK(source.sleeps == 0);
  }
}

TEST_CASE("a lane that works keeps the thread awake while all others wait") {
  constexpr uint32_t works = 1000 * of_seeds(100);
  for (uint64_t seed : {0, 1, 2, 3}) {
    INFO("seed " << seed);
    uint32_t work = 0, done = 0, sleeps = 0, waits = 0;
    launch(1, 64, {.threads = 1, .seed = seed}, [&] {
      if (threadIdx.x == 5) {
        for (uint32_t i = 0; i < works; ++i) atomicAdd(&work, 1);
        store_release(&done, 1u);
      } else {
        for (uint32_t rounds = 1; load_acquire(&done) == 0; ++rounds) {
          const uint32_t idle = relax_hook(rounds);
          waits += idle != 0;
          sleeps += idle >= relax::sleeps_from;
        }
      }
    });
    CHECK(work == works);
    CHECK(sleeps == 0);
    CHECK(waits <= 100);
  }
}

TEST_CASE("lanes wait for another thread") {
  uint32_t flag = 0, seen = 0;
  std::thread setter([&] {
    for (relax relax; load_acquire(&seen) < 64;) relax();  // all lanes are waiting by now
    store_release(&flag, 1u);
  });
  launch(1, 64, {.threads = 1}, [&] {
    atomicAdd(&seen, 1);
    for (relax relax; load_acquire(&flag) == 0;) relax();
  });
  setter.join();
  CHECK(seen == 64);
}

TEST_CASE("blocks run at once if there are as many threads, and the threads are kept") {
  for (int i = 0; i < 20; ++i) {
    uint32_t token = 0;
    launch(4, 3, {.threads = 4}, [&] { kernels::pass_token(&token, 5); });
    REQUIRE(token == 20);
  }
}

TEST_CASE("blocks of a cooperative launch wait for each other, whatever the threads and the seed") {
  for (unsigned threads : {1u, 2u})
    for (uint64_t seed = 0; seed <= 30; ++seed) {
      INFO("seed " << seed);
      uint32_t token = 0;
      launch(7, 3, {.threads = threads, .seed = seed, .cooperative = true}, [&] { kernels::pass_token(&token, 3); });
      REQUIRE(token == 21);
    }
  uint32_t token = 0;
  launch(1, 64, {.seed = 3, .cooperative = true}, [&] { kernels::pass_token(&token, 5); });
  CHECK(token == 5);
}

namespace {
/// A rendezvous of all lanes of all blocks: the barrier of a cooperative kernel. `arrived` counts blocks.
void sync_blocks(uint32_t* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t round = fetch_add(arrived, 1u) / gridDim.x;
    for (relax wait; load_acquire(arrived) < (round + 1) * gridDim.x;) wait();
  }
  __syncthreads();
}
}  // namespace

TEST_CASE("a seed replays the schedule of a cooperative launch, and seeds differ") {
  const auto schedule_of = [](uint64_t seed) {
    std::vector<unsigned> trace;
    std::vector<uint32_t> own;
    uint32_t arrived = 0;
    launch(4, 5, {.seed = seed, .cooperative = true}, [&] {
      __shared__ uint32_t mine;
      if (threadIdx.x == 0) mine = blockIdx.x;
      for (int round = 0; round < 3; ++round) {
        sync_blocks(&arrived);
        trace.push_back(blockIdx.x * 100 + threadIdx.x);
        if (threadIdx.x == 0) own.push_back(mine == blockIdx.x);
      }
    });
    REQUIRE(trace.size() == 3 * 20);
    for (size_t i = 0; i < trace.size(); ++i)  // the barrier is one
      REQUIRE(std::count(trace.begin() + static_cast<long>(i / 20 * 20),
                         trace.begin() + static_cast<long>(i / 20 * 20 + 20), trace[i]) == 1);
    REQUIRE(own == std::vector<uint32_t>(12, 1));
    return trace;
  };
  std::set<std::vector<unsigned>> different;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const auto trace = schedule_of(seed);
    REQUIRE(trace == schedule_of(seed));
    different.insert(trace);
  }
  CHECK(different.size() == 10);
}

TEST_CASE("exploration finds a bug between the blocks of a cooperative launch") {
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    uint32_t word = 0;
    launch(4, 1, {.seed = seed, .cooperative = true}, [&] { kernels::lose_updates(&word, 4); });
    REQUIRE(word <= 16);
    found += word != 16;
  }
  CHECK(found > 0);
}

TEST_CASE("blocks in turns wait neither too seldom nor too long") {
  for (uint64_t seed : {1, 2, 3}) {
    INFO("seed " << seed);
    uint32_t token = 0, waits = 0, sleeps = 0;
    launch(6, 4, {.seed = seed, .cooperative = true}, [&] {
      for (uint32_t round = 0; round < 40; ++round) {
        const uint32_t mine = round * gridDim.x + blockIdx.x;
        for (uint32_t rounds = 1; load_acquire(&token) != mine; ++rounds) {
          const uint32_t idle = relax_hook(rounds);
          waits += idle != 0;
          sleeps += idle >= relax::sleeps_from;
        }
        __syncthreads();
        if (threadIdx.x == 0) store_release(&token, mine + 1);
      }
    });
    CHECK(token == 240);
    CHECK(sleeps == 0);
    CHECK(waits <= 240);  // there is always a block that can go on
    waits = 0;
    uint32_t calls = 0, first = 0;
    launch(6, 4, {.seed = seed, .cooperative = true}, [&] {
      // That a lane has waited for long says nothing: others may have gone on meanwhile.
      for (uint32_t rounds = 100'000; waits < 20; ++rounds) {
        ++calls;
        const uint32_t idle = relax_hook(rounds);
        if (idle && waits++ == 0) first = idle;
      }
    });
    CHECK(calls <= 20 * 24 * 20);  // and when none can, that is known soon
    CHECK(first < relax::sleeps_from);
  }
}

TEST_CASE("an error in one block of a cooperative launch ends all") {
  for (uint64_t seed = 0; seed < 10; ++seed)
    CHECK_THROWS_WITH(launch(5, 8, {.seed = seed, .cooperative = true},
                             [] {
                               if (blockIdx.x == 2 && threadIdx.x == 7) fail("block 2 gives up");
                               for (relax relax;;) relax();
                             }),
                      contains_text("block 2 gives up"));
  CHECK_THROWS_AS(launch(5, 2, {.seed = 1, .cooperative = true}, [] { throw 1; }), int);
}

TEST_CASE("several threads launch at once") {
  std::vector<std::thread> hosts;
  std::vector<unsigned long long> totals(4);
  std::vector<uint32_t> ones(1000, 1);
  for (auto& total : totals)
    hosts.emplace_back([&] {
      for (int i = 0; i < 20; ++i) launch(4, 64, {.threads = 3}, [&] { kernels::sum(ones.data(), 1000, &total); });
    });
  for (auto& host : hosts) host.join();
  for (auto total : totals) CHECK(total == 20'000);
}

// ---- errors

TEST_CASE("bad shapes") {
  for (dim3 block : {dim3(0), dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(1u << 31, 2), dim3(65536, 65536, 1)})
    CHECK_THROWS_WITH(launch(1, block, {}, [] {}), contains_text("block of"));
  for (dim3 grid : {dim3(0), dim3(1, 0), dim3(1, 65536), dim3(0x80000000u)})
    CHECK_THROWS_WITH(launch(grid, 1, {}, [] {}), contains_text("grid of"));
  for (size_t bytes : {size_t{227 * 1024 + 1}, ~size_t{0}})
    CHECK_THROWS_WITH(launch(1, 1, {.shared_bytes = bytes}, [] {}), contains_text("bytes of dynamic shared memory"));
  CHECK_THROWS_WITH(launch(1, 1, {.stack_bytes = ~size_t{0}}, [] {}), contains_text("a stack of"));
  CHECK_THROWS_WITH(launch(257, 1, {.cooperative = true}, [] {}), contains_text("a cooperative grid of 257 blocks"));
}

TEST_CASE("a launch from a kernel, and kernel functions outside one") {
  CHECK_THROWS_WITH(launch(1, 1, {}, [] { launch(1, 1, {}, [] {}); }), contains_text("inside a kernel"));
  CHECK_THROWS_WITH(__syncthreads(), contains_text("outside a kernel"));
  CHECK_THROWS_WITH(__ballot_sync(~0u, 1), contains_text("outside a kernel"));
  CHECK_FALSE(simt::in_kernel());
  bool inside = false;
  launch(1, 1, {}, [&] { inside = simt::in_kernel(); });
  CHECK(inside);
}

TEST_CASE("deadlocks are found and described") {
  with_some_seeds([](simt::launch_options options) {
    const auto message = [&](auto kernel) { return error_of([&] { launch(dim3(1, 2), 64, options, kernel); }); };
    const std::string two_barriers = message([] {
      if (blockIdx.y == 0) return;
      if (threadIdx.x < 20) __syncthreads();
      else __syncthreads_count(1);
    });
    CHECK_THAT(two_barriers, contains_text("block (0,1,0): deadlock") && contains_text("20 wait in __syncthreads;") &&
                                 contains_text("44 wait in __syncthreads_count;"));
    const std::string warp_and_block = message([] {
      if (threadIdx.x == 40) __syncwarp();
      else if (threadIdx.x != 41) __syncthreads();
      else __syncwarp();
    });
    CHECK_THAT(warp_and_block, contains_text("deadlock") && contains_text("62 wait in __syncthreads;") &&
                                   contains_text("2 of warp 1 (lanes 0x00000300) wait in __syncwarp"));
    const std::string ended = message([] {
      if (threadIdx.x != 5) __ballot_sync(~0u, 1);
    });
    CHECK_THAT(ended, contains_text("__ballot_sync with mask 0xffffffff, which names lane 5"));
    const std::string other_mask = message([] { __syncwarp(threadIdx.x % 2 ? ~0u : 0x55555555u); });
    CHECK_THAT(other_mask, contains_text("with mask 0xffffffff"));
    const std::string not_named =
        message([] { __syncwarp(1u << (threadIdx.x + 1) % 32 | 1u << (threadIdx.x + 2) % 32); });
    CHECK_THAT(not_named, contains_text("does not name the caller"));
    CHECK_THAT(message([] { __trap(); }), contains_text("__trap()"));
  });
}

TEST_CASE("an exception of a lane ends the launch, and nothing is left") {
  const auto fail_once = [](unsigned threads, uint64_t seed) {
    int alive = 0;
    CHECK_THROWS_WITH(launch(4, 256, {.threads = threads, .seed = seed},
                             [&] {
                               counted object(&alive);
                               if (threadIdx.x == 100) throw std::runtime_error("lane 100");
                               if (threadIdx.x % 3 == 0) __syncthreads();
                               if (threadIdx.x % 3 == 1) __syncwarp(1u << threadIdx.x % 32 | 1u << 31);
                               for (relax relax;;) relax();
                             }),
                      contains_text("lane 100"));
    CHECK(alive == 0);
    CHECK(relax_hook == nullptr);
    CHECK(interleave_hook == nullptr);
  };
  for (unsigned threads : {1u, 2u, 4u})
    for (uint64_t seed = 0; seed < 4; ++seed) fail_once(threads, seed);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which map memory themselves
  const size_t before = mappings_of_this_process();
  for (uint64_t seed = 0; seed < 40; ++seed) fail_once(1, seed % 3);
  CHECK(mappings_of_this_process() <= before + 8);  // one stack leaked each time would make 80
#endif
  uint32_t tickets = 0, serving = 0, guarded = 0;
  launch(2, 256, {.threads = 2}, [&] { kernels::ticket_lock(&tickets, &serving, &guarded, 2); });
  CHECK(guarded == 1024);
}

TEST_CASE("an error ends blocks on other threads that wait") {
  CHECK_THROWS_WITH(launch(4, 8, {.threads = 4},
                           [] {
                             if (blockIdx.x == 2 && threadIdx.x == 7) fail("block 2 gives up");
                             for (relax relax;;) relax();
                           }),
                    contains_text("block 2 gives up"));
}

TEST_CASE("lanes wait inside catch blocks, each with its own exception") {
  with_some_seeds([](simt::launch_options options) {
    std::vector<int> got(64, -1);
    launch(1, 64, options, [&] {
      const int mine = static_cast<int>(threadIdx.x);
      try {
        try {
          throw mine;
        } catch (int) {
          __syncthreads();
          relax{}();
          throw;
        }
      } catch (int value) {
        got[threadIdx.x] = value;
      }
    });
    for (int t = 0; t < 64; ++t) REQUIRE(got[static_cast<size_t>(t)] == t);
  });
}

namespace {
GRAVEL_NOINLINE unsigned deep(unsigned depth) {
  volatile char frame[1024];
  frame[depth % 1024] = 1;
  return depth == 0 ? 0u : deep(depth - 1) + static_cast<unsigned>(frame[depth % 1024]);
}
}  // namespace

TEST_CASE("larger stacks on demand") {
  std::vector<unsigned> out(8);
  launch(1, 8, {.threads = 1}, [&] { out[threadIdx.x] = deep(8); });
  for (unsigned n : out) CHECK(n == 8);
  launch(1, 8, {.threads = 1, .stack_bytes = 4 << 20}, [&] { out[threadIdx.x] = deep(900); });
  for (unsigned n : out) CHECK(n == 900);
}

// ---- stacks that are used up: the process ends, so each of the hidden cases runs in a process of its own

namespace {
struct ended {
  int status;
  std::string text;
};
/// Runs a hidden test case of this program.
ended run_case(const std::string& name) {
  // A program that ends on a lane's stack has left the other stacks as they were: not a leak. And Catch's handler of
  // signals allocates.
  const std::string command =
      "export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 TSAN_OPTIONS=$TSAN_OPTIONS:report_signal_unsafe=0; exec " +
      std::filesystem::read_symlink("/proc/self/exe").string() + " '" + name + "' 2>&1";
  ended result{-1, {}};
  FILE* out = popen(command.c_str(), "r");
  REQUIRE(out);
  char some[4096];
  while (const size_t n = fread(some, 1, sizeof some, out)) result.text.append(some, n);
  result.status = pclose(out);
  return result;
}

volatile unsigned endless_depth = 1u << 30;
char* volatile nowhere = reinterpret_cast<char*>(4096);
GRAVEL_NOINLINE unsigned large_frame(unsigned i) {
  volatile char frame[200 * 1024];
  frame[i] = 1;
  return static_cast<unsigned>(frame[i]);
}
}  // namespace

TEST_CASE("case: recursion without end", "[.]") {
  launch(4, 8, {.threads = 1}, [] {
    if (blockIdx.x == 2 && threadIdx.x == 5) deep(endless_depth);
  });
}
TEST_CASE("case: a frame larger than the stack of a helping thread", "[.]") {
  const auto caller = std::this_thread::get_id();
  launch(4, dim3(4, 2), {.threads = 4, .stack_bytes = 32 * 1024}, [&] {
    __syncthreads();
    if (std::this_thread::get_id() != caller && threadIdx.y == 1 && threadIdx.x == 1) large_frame(0);
    for (relax relax;;) relax();
  });
}
TEST_CASE("case: a lane writes to no memory", "[.]") {
  launch(1, 8, {.threads = 1}, [] {
    if (threadIdx.x == 5) *nowhere = 1;
  });
}
TEST_CASE("case: a handler of the program", "[.]") {
  struct sigaction mine {};
  mine.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_addr == nowhere) (void)!write(1, "my handler\n", 11);
    _exit(7);
  };
  mine.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &mine, nullptr);
  launch(1, 8, {.threads = 1}, [] {
    if (threadIdx.x == 5) *nowhere = 1;
  });
}

namespace {
/// A lane ends the program while others wait.
void exit_in_lane(const simt::launch_options& options, bool on_helper) {
  std::atexit([] {
    if (!simt::in_kernel() && !relax_hook) std::puts("at exit, no lane");
    std::fflush(stdout);
  });
  const auto caller = std::this_thread::get_id();
  int exits = 0;  // exit() from two threads at once is undefined
  launch(3, 8, options, [&] {
    if (threadIdx.x == 5 && on_helper == (std::this_thread::get_id() != caller) && atomicAdd(&exits, 1) == 0)
      std::exit(5);
    if (threadIdx.x == 6) __syncthreads();
    for (relax relax;;) relax();
  });
}
}  // namespace
TEST_CASE("case: exit in a lane", "[.]") { exit_in_lane({.threads = 1}, false); }
TEST_CASE("case: exit in a lane with a seed", "[.]") { exit_in_lane({.seed = 4}, false); }
TEST_CASE("case: exit in a lane of a helping thread", "[.]") { exit_in_lane({.threads = 3}, true); }
TEST_CASE("case: exit in a lane of blocks in turns", "[.]") { exit_in_lane({.seed = 4, .cooperative = true}, true); }

TEST_CASE("a lane may end the program") {
  for (const char* where : {"", " with a seed", " of a helping thread", " of blocks in turns"}) {
    INFO(where);
    const ended result = run_case(std::string("case: exit in a lane") + where);
    CHECK(result.status == 5 << 8);
    CHECK_THAT(result.text, contains_text("at exit, no lane"));
  }
}

namespace {
struct waits_when_destroyed {
  ~waits_when_destroyed() { __syncthreads(); }
};
void fail_in_lane_5() {
  if (threadIdx.x == 5) throw std::runtime_error("lane 5 has its reason");
}
}  // namespace
TEST_CASE("case: lanes wait in destructors", "[.]") {
  install_terminate_handler();
  launch(1, 8, {.threads = 1}, [] {
    if (threadIdx.x < 5) waits_when_destroyed waiting;
    fail_in_lane_5();
  });
}
TEST_CASE("case: lanes catch all", "[.]") {
  install_terminate_handler();
  launch(1, 8, {.threads = 1}, [] {
    fail_in_lane_5();
    for (relax wait;;) try {
        wait();
      } catch (...) {
      }
  });
}

TEST_CASE("a lane that cannot be ended ends the program, with the reason of the lane that failed") {
  for (const char* what : {"case: lanes wait in destructors", "case: lanes catch all"}) {
    INFO(what);
    const ended result = run_case(what);
    CHECK(result.status == 1 << 8);
    CHECK_THAT(result.text, contains_text("it is to end because of this: lane 5 has its reason"));
  }
}

TEST_CASE("a lane that uses up its stack ends the process with a sentence") {
  const ended endless = run_case("case: recursion without end");
  CHECK(endless.status == 1 << 8);
  CHECK_THAT(endless.text, contains_text("gravel: error: lane 5 of block (2,0,0) has used up its stack of ") &&
                               contains_text("bytes; GRAVEL_CPU_STACK_SIZE gives lanes a larger one"));
  const ended large = run_case("case: a frame larger than the stack of a helping thread");
  CHECK(large.status == 1 << 8);
  CHECK_THAT(large.text,
             contains_text("gravel: error: lane 5 of block (") && contains_text(",0,0) has used up its stack of "));
}

TEST_CASE("another bad access of a lane is handled as if there were no lanes") {
  const ended plain = run_case("case: a lane writes to no memory");
  CHECK(plain.status != 0);
  CHECK_THAT(plain.text, contains_text("SIGSEGV") || contains_text("SEGV"));
  CHECK_THAT(plain.text, !contains_text("has used up its stack"));
  const ended own = run_case("case: a handler of the program");
  CHECK(own.status == 7 << 8);
  CHECK_THAT(own.text, contains_text("my handler"));
}

TEST_CASE("shared variables are the block's own") {
  std::vector<uint32_t> wrong(8);
  launch(8, 64, {.threads = 4}, [&] {
    __shared__ uint32_t owner;
    if (threadIdx.x == 0) owner = blockIdx.x;
    __syncthreads();
    for (int i = 0; i < 10; ++i) {
      relax{}();
      if (owner != blockIdx.x) ++wrong[blockIdx.x];
    }
  });
  for (uint32_t n : wrong) CHECK(n == 0);
}

// ---- calls of teams (lib/base/team_call.hpp)

namespace {
/// A kernel of calls of the block, and of halves and whole warps, in an order that is the same for all lanes of each
/// team. One lane leaves out its call number `skipped`, or gives other arguments.
struct team_program {
  uint64_t number;  ///< of the program
  uint32_t lanes, calls, odd_lane = ~0u, odd_call = ~0u;
  bool differs = false;  ///< else it leaves the call out

  uint32_t mask(uint32_t call) const {
    const uint32_t which = static_cast<uint32_t>(mix(number + call) % 4);
    const bool upper = simt::lane_in_warp() >= 16;
    if (which == 0) return 0;
    if (which == 1) return ~0u;
    if (which == 2) return upper ? 0xffff0000u : 0xffffu;
    return simt::lane_in_warp() % 2 ? 0xaaaaaaaau : 0x55555555u;
  }
  void operator()() const {
    for (uint32_t call = 0; call < calls; ++call) {
      const bool is_odd = threadIdx.x == odd_lane && call == odd_call;
      uint64_t argument = call / 2 + (is_odd && differs);
      if (!is_odd || differs)
        simt::enter_team(call % 2 ? team_call::put_bulk : team_call::get_bulk, mask(call), &argument, 1);
      if (mix(number + 100 + call) % 3 == 0) __syncthreads();
      interleave_point();
    }
  }
};
}  // namespace

TEST_CASE("calls of teams: no false alarm, whatever the order of lanes") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const team_program program{seed, uint32_t(1 + mix(seed) % 130), 12};
    INFO("seed " << seed);
    REQUIRE_NOTHROW(launch(2, program.lanes, {.threads = 2, .seed = seed}, program));
  }
}

TEST_CASE("calls of teams: a lane that leaves one out, or gives other arguments, is found") {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    team_program program{seed, uint32_t(40 + mix(seed) % 80), 12};
    // In a team of one no other lane can miss it.
    program.odd_lane = uint32_t(mix(seed + 1) % 32);
    program.odd_call = uint32_t(mix(seed + 2) % 12);
    program.differs = seed % 2;
    INFO("seed " << seed << ", lane " << program.odd_lane << ", call " << program.odd_call);
    const std::string error = error_of([&] { launch(1, program.lanes, {.threads = 1, .seed = seed / 2}, program); });
    CHECK_THAT(error, contains_text("All ") && contains_text("must call gravel_"));
  }
}

TEST_CASE("calls of teams: missing lanes are named") {
  const auto enter = [](team_call call, uint32_t lanes, uint64_t argument) {
    simt::enter_team(call, lanes, &argument, 1);
  };
  CHECK_THAT(error_of([&] {
               launch(1, 70, {}, [&] {
                 if (threadIdx.x % 2 || threadIdx.x > 64) return;
                 enter(team_call::barrier_block, 0, 0);
                 __syncthreads();
               });
             }),
             contains_text("gravel_barrier_block in block (0,0,0) was called by lanes 0, 2, 4,") &&
                 contains_text("65-69 ended without it"));
  // The missing lanes run for ever: they wait for a step after the call.
  CHECK_THAT(
      error_of([&] {
        uint32_t flag = 0;
        launch(1, 64, {}, [&] {
          if (threadIdx.x == 1) return;
          if (threadIdx.x != 0)
            for (relax wait; load_acquire(&flag) == 0; wait()) {
            }
          enter(team_call::put_bulk, 0, 0);
          for (relax wait; load_acquire(&flag) == 0; wait()) {
          }
        });
      }),
      contains_text(
          "gravel_put_bulk in block (0,0,0) was called by lane 0, but lanes 2-63 did not, lane 1 ended without it"));
  CHECK_THAT(error_of([&] {
               launch(1, 32, {}, [&] {
                 if (threadIdx.x < 16) enter(team_call::put_bulk_warp, ~0u, 0);
                 else __syncthreads();
                 __syncwarp();
               });
             }),
             contains_text("lanes 16-31 wait at a barrier"));
  CHECK_THAT(error_of([&] { launch(1, 32, {}, [&] { enter(team_call::put_bulk_warp, 2, 0); }); }),
             contains_text("does not name it"));
  // A block of a cooperative grid.
  CHECK_THAT(error_of([&] {
               launch(3, 32, {.cooperative = true}, [&] {
                 if (blockIdx.x != 2) enter(team_call::barrier, 0, 0);
                 if (blockIdx.x == 0)
                   for (relax wait;; wait()) {
                   }
               });
             }),
             contains_text("gravel_barrier was called by block") && contains_text("but block 2 has ended without it"));
}
