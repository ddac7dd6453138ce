// Who of a block's warps looks, and what it leaves for others, under seeded schedules: each lane of a block of the CPU
// backend is a warp. Planted bugs show that the schedules find some (test/models/block_poller.pml finds them all).
#include "lib/channel/block_poller.cuh"

#include <string>
#include <vector>

#include "device/simt.hpp"
#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/base/relax.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

enum class bug { none, read_late, counted_late, polls_while_left, takes_though_counted, reported_before_written };

using turn = block_poller::turn;

/// As block_poller, but for the bug.
struct broken_poller : block_poller {
  bug planted = bug::none;

  answer ask_wrongly(bool counted) {
    if (planted == bug::polls_while_left) {
      const uint32_t now = load_relaxed(&state), left = now % one_reads / one_left;
      if (left != 0 && mix(now + waiting) % 2 && compare_swap_acquire(&state, now, +somebody)) {
        if (counted) fetch_add(&waiting, ~0u);
        return {turn::polls, 0, 0};
      }
    }
    if (planted == bug::read_late || planted == bug::counted_late) {
      const uint32_t now = load_relaxed(&state), left = now % one_reads / one_left;
      if (left != 0) {
        if (!compare_swap_acquire(&state, now, now - one_left)) return {turn::none, 0, 0};
        answer mine{turn::given, channel, first + left - 1};
        if (planted == bug::read_late) {
          interleave_point();
          mine.channel = load_relaxed(&channel), mine.ticket = load_relaxed(&first) + left - 1;
        }
        if (counted) fetch_add(&waiting, ~0u);
        return mine;
      }
    }
    return ask(counted);
  }
  void leave_wrongly(uint32_t left, uint32_t channel_, uint64_t first_) {
    if (planted != bug::reported_before_written || left == 0) return leave(left, channel_, first_);
    store_release(&state, left * one_left);
    interleave_point();
    store_relaxed(&channel, channel_), store_relaxed(&first, first_);
  }
};

struct shape {
  uint32_t warps, tickets, batches, share;
};

/// Warps run tickets, `batches` each at most, or until all have been run. Each look is a channel. An empty text: all is
/// as it must be.
std::string run(const shape& s, uint64_t seed, bug planted = bug::none) {
  broken_poller block{};
  block.planted = planted;
  std::vector<uint32_t> channel_of(s.tickets), ran(s.tickets);
  uint32_t next = 0, looks = 0, finished = 0, gone = 0, at_once = 0;
  const auto run_it = [&](uint32_t channel, uint64_t ticket) {
    if (ticket >= next) fail("ticket {} has not been taken", ticket);
    if (channel_of[ticket] != channel)
      fail("ticket {} is of channel {}, and is run as of {}", ticket, channel_of[ticket], channel);
    if (++ran[ticket] != 1) fail("ticket {} is run twice", ticket);
    fetch_add(&finished, 1u);
  };
  const auto take = [&](uint32_t n) {  // no interleaving point: a channel's own affair
    const uint32_t first = next;
    ++looks;
    for (; next < first + n; ++next) channel_of[next] = looks;
    return first;
  };
  const auto warp = [&](uint32_t me) {
    bool counted = false;
    uint32_t done = 0, rounds = 0;
    while (done < s.batches) {
      if (++rounds > 20'000) fail("warp {} gets nothing", me);
      const block_poller::answer a = planted == bug::none ? block.ask(counted) : block.ask_wrongly(counted);
      if (a.is == turn::none) {
        const bool may = !counted || planted == bug::takes_though_counted;
        if (may && next < s.tickets && mix(seed * 31 + rounds * 7 + me) % 4 == 0) {
          const uint32_t ticket = take(1);
          if (counted) fetch_add(&block.waiting, ~0u);
          counted = false;
          run_it(channel_of[ticket], ticket), ++done;
          continue;
        }
        if (!counted) block.wait();
        counted = true;
        relax{}();
        continue;
      }
      counted = false;
      if (a.is == turn::ended) break;
      if (a.is == turn::given) {
        run_it(a.channel, a.ticket), ++done;
        continue;
      }
      if (++at_once != 1) fail("two look at once");
      uint32_t n = block.others();
      for (uint32_t i = 0; i < mix(seed + looks) % 16; ++i) interleave_point();
      if (next == s.tickets) {
        for (relax wait; load_relaxed(&finished) != s.tickets; wait())
          if (++rounds > 20'000) fail("warp {} waits for the end", me);
        --at_once;
        block.end();
        break;
      }
      n = std::min({n, s.share, s.tickets - next - 1});
      const uint32_t first = take(n + 1), channel = looks;
      --at_once;
      if (planted == bug::none) block.leave(n, channel, first + 1);
      else block.leave_wrongly(n, channel, first + 1);
      run_it(channel, first), ++done;
    }
    ++gone;
  };
  simt::launch_options options{};
  options.seed = seed;
  try {
    simt::launch(1, s.warps, options, [&] { warp(threadIdx.x); });
  } catch (const error& e) {
    return e.what();
  }
  if (finished != next) return "something has stayed behind";
  if (block.state != block_poller::all_done && block.state != block_poller::nobody)
    return "the state at the end is another one";
  return {};
}

constexpr shape shapes[] = {{4, 60, 1000, 3}, {8, 60, 1000, 7}, {8, 100, 1, 7},
                            {5, 40, 3, 2},    {2, 30, 1000, 1}, {32, 200, 4, 31}};

}  // namespace

TEST_CASE("each ticket that a block takes is run once, by who knows where it is from, under 200 schedules") {
  for (const shape& s : shapes)
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      INFO("warps " << s.warps << ", batches " << s.batches << ", seed " << seed);
      REQUIRE(run(s, seed) == "");
    }
}

TEST_CASE("some schedule finds each planted bug of a block's poller") {
  for (bug planted : {bug::read_late, bug::counted_late, bug::polls_while_left, bug::takes_though_counted,
                      bug::reported_before_written}) {
    INFO("bug " << static_cast<int>(planted));
    bool found = false;
    for (uint64_t seed = 1; seed <= 400 && !found; ++seed)
      for (const shape& s : shapes) found |= run(s, seed, planted) != "";
    CHECK(found);
  }
}

TEST_CASE("turns of a block's poller, one after the other") {
  block_poller block{};
  CHECK(block.ask(false).is == turn::polls);
  CHECK(block.ask(false).is == turn::none);
  block.wait(), block.wait();
  CHECK(block.others() == 2);
  block.leave(2, 7, 100);
  block_poller::answer a = block.ask(true);
  CHECK((a.is == turn::given && a.channel == 7 && a.ticket == 101));
  CHECK(block.others() == 1);
  a = block.ask(false);  // one who has just come is as good: the one that waits gets the next turn
  CHECK((a.is == turn::given && a.channel == 7 && a.ticket == 100));
  CHECK(block.ask(true).is == turn::polls);
  CHECK(block.others() == 0);
  block.leave();
  CHECK(block.ask(false).is == turn::polls);
  block.end();
  CHECK(block.ask(false).is == turn::ended);
}
