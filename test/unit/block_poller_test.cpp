// The block poller under seeded schedules: which warp polls, and which hand-offs it leaves for others. Each lane of a
// block of the CPU backend stands for a warp. Planted bugs show that the schedules find errors
// (test/models/block_poller.pml finds all of them).
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

enum class bug { none, read_late, counted_late, polls_while_handoffs, takes_though_counted, reported_before_written };

using turn = block_poller::turn;

/// As block_poller, but for the bug.
struct broken_poller : block_poller {
  bug planted = bug::none;

  answer try_acquire_wrongly(bool counted) {
    if (planted == bug::polls_while_handoffs) {
      const uint32_t now = load_relaxed(&state), handoffs = handoffs_in(now);
      if (handoffs != 0 && mix(now + waiting) % 2 && compare_swap_acquire(&state, now, +polling)) {
        if (counted) fetch_add(&waiting, ~0u);
        return {turn::polls, 0, 0};
      }
    }
    if (planted == bug::read_late || planted == bug::counted_late) {
      const uint32_t now = load_relaxed(&state), handoffs = handoffs_in(now);
      if (handoffs != 0) {
        if (!compare_swap_acquire(&state, now, now - one_handoff)) return {turn::none, 0, 0};
        answer mine{turn::has_handoff, handoff_channel, handoff_first + handoffs - 1};
        if (planted == bug::read_late) {
          interleave_point();
          mine.channel = load_relaxed(&handoff_channel);
          mine.ticket = load_relaxed(&handoff_first) + handoffs - 1;
        }
        if (counted) fetch_add(&waiting, ~0u);
        return mine;
      }
    }
    return try_acquire(counted);
  }
  void release_wrongly(uint32_t handoffs, uint32_t channel, uint64_t first) {
    if (planted != bug::reported_before_written || handoffs == 0) return release(handoffs, channel, first);
    store_release(&state, handoffs * one_handoff);
    interleave_point();
    store_relaxed(&handoff_channel, channel);
    store_relaxed(&handoff_first, first);
  }
};

struct shape {
  uint32_t warps, tickets, batches, share;
};

/// Warps run tickets, `batches` each at most, or until all have been run. Each poll stands for a channel. Returns an
/// empty text if all is as it must be.
std::string run(const shape& s, uint64_t seed, bug planted = bug::none) {
  broken_poller block{};
  block.planted = planted;
  std::vector<uint32_t> channel_of(s.tickets), ran(s.tickets);
  uint32_t next = 0, polls = 0, finished = 0, gone = 0, pollers = 0;
  const auto run_it = [&](uint32_t channel, uint64_t ticket) {
    if (ticket >= next) fail("ticket {} has not been taken", ticket);
    if (channel_of[ticket] != channel)
      fail("ticket {} is of channel {}, and is run as of {}", ticket, channel_of[ticket], channel);
    if (++ran[ticket] != 1) fail("ticket {} is run twice", ticket);
    fetch_add(&finished, 1u);
  };
  const auto take = [&](uint32_t n) {  // no interleaving point: the channel does this
    const uint32_t first = next;
    ++polls;
    for (; next < first + n; ++next) channel_of[next] = polls;
    return first;
  };
  const auto warp = [&](uint32_t me) {
    bool counted = false;
    uint32_t done = 0, rounds = 0;
    while (done < s.batches) {
      if (++rounds > 20'000) fail("warp {} gets no ticket", me);
      const block_poller::answer a =
          planted == bug::none ? block.try_acquire(counted) : block.try_acquire_wrongly(counted);
      if (a.kind == turn::none) {
        const bool may = !counted || planted == bug::takes_though_counted;
        if (may && next < s.tickets && mix(seed * 31 + rounds * 7 + me) % 4 == 0) {
          const uint32_t ticket = take(1);
          if (counted) fetch_add(&block.waiting, ~0u);
          counted = false;
          run_it(channel_of[ticket], ticket);
          ++done;
          continue;
        }
        if (!counted) block.count_as_waiting();
        counted = true;
        relax{}();
        continue;
      }
      counted = false;
      if (a.kind == turn::ended) break;
      if (a.kind == turn::has_handoff) {
        run_it(a.channel, a.ticket);
        ++done;
        continue;
      }
      if (++pollers != 1) fail("two poll at the same time");
      uint32_t n = block.waiting_warps();
      for (uint32_t i = 0; i < mix(seed + polls) % 16; ++i) interleave_point();
      if (next == s.tickets) {
        for (relax wait; load_relaxed(&finished) != s.tickets; wait())
          if (++rounds > 20'000) fail("warp {} waits for the end", me);
        --pollers;
        block.end();
        break;
      }
      n = std::min({n, s.share, s.tickets - next - 1});
      const uint32_t first = take(n + 1), channel = polls;
      --pollers;
      if (planted == bug::none) block.release(n, channel, first + 1);
      else block.release_wrongly(n, channel, first + 1);
      run_it(channel, first);
      ++done;
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
  if (finished != next) return "something was left behind";
  if (block.state != block_poller::ended && block.state != block_poller::free) return "the state at the end is wrong";
  return {};
}

constexpr shape shapes[] = {{4, 60, 1000, 3}, {8, 60, 1000, 7}, {8, 100, 1, 7},
                            {5, 40, 3, 2},    {2, 30, 1000, 1}, {32, 200, 4, 31}};

}  // namespace

TEST_CASE("each ticket that a block takes is run once, as a ticket of its channel, under 200 schedules") {
  for (const shape& s : shapes)
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      INFO("warps " << s.warps << ", batches " << s.batches << ", seed " << seed);
      REQUIRE(run(s, seed) == "");
    }
}

TEST_CASE("some schedule finds each planted bug of a block's poller") {
  for (bug planted : {bug::read_late, bug::counted_late, bug::polls_while_handoffs, bug::takes_though_counted,
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
  CHECK(block.try_acquire(false).kind == turn::polls);
  CHECK(block.try_acquire(false).kind == turn::none);
  block.count_as_waiting();
  block.count_as_waiting();
  CHECK(block.waiting_warps() == 2);
  block.release(2, 7, 100);
  block_poller::answer a = block.try_acquire(true);
  CHECK((a.kind == turn::has_handoff && a.channel == 7 && a.ticket == 101));
  CHECK(block.waiting_warps() == 1);
  a = block.try_acquire(false);  // a warp that has just come may take it: the waiting warp gets the next turn
  CHECK((a.kind == turn::has_handoff && a.channel == 7 && a.ticket == 100));
  CHECK(block.try_acquire(true).kind == turn::polls);
  CHECK(block.waiting_warps() == 0);
  block.release();
  CHECK(block.try_acquire(false).kind == turn::polls);
  block.end();
  CHECK(block.try_acquire(false).kind == turn::ended);
}
