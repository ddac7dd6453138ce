// The limit of gets under way and the wait for them, under seeded schedules: lanes of one block of the CPU backend get,
// answer and wait, and are switched at every atomic.
#include "lib/base/get_window.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "device/cpu/simt_block.hpp"
#include "device/simt.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

/// A get under way: the answer raises `*answered`.
struct request {
  uint32_t parity;
  uint64_t* answered;
};

struct network {
  get_window gets{};
  std::vector<request> under_way;
  uint64_t most = 0;
  void send(request r) {
    under_way.push_back(r);
    most = std::max<uint64_t>(most, under_way.size());
  }
  void answer(size_t which) {
    const request r = under_way[which];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    ++*r.answered;
    fetch_add_release(&gets.done[r.parity], uint64_t{1});
  }
  /// The steps of a lane of a kernel (begin_gets in device/fetch.cuh).
  void get(uint64_t n, uint64_t limit, uint64_t* answered) {
    const uint64_t end = gets.claim(n);
    for (relax wait; !gets.may_send(end, limit); wait()) {
    }
    const uint32_t parity = gets.count(n);
    for (uint64_t i = 0; i < n; ++i) send({parity, answered});
  }
};

enum class bug { none, counts_alone, two_epochs, issued_first };

void wait_for(network& net, bug planted) {
  get_window& gets = net.gets;
  switch (planted) {
    case bug::none: return wait_for_gets(gets, [] {});
    case bug::two_epochs: {
      if (gets.all_done()) return;
      const uint64_t wanted = gets.epoch_after() - 1;
      for (relax wait; !gets.reached(wanted); wait()) {
      }
      return;
    }
    case bug::issued_first:
      for (relax wait;; wait()) {
        const uint64_t issued = load_acquire(&gets.issued[0]) + load_acquire(&gets.issued[1]);
        if (load_acquire(&gets.done[0]) + load_acquire(&gets.done[1]) >= issued) return;
      }
    case bug::counts_alone:
      for (relax wait;; wait()) {
        const uint64_t done = load_acquire(&gets.done[0]) + load_acquire(&gets.done[1]);
        if (done >= load_acquire(&gets.issued[0]) + load_acquire(&gets.issued[1])) return;
      }
  }
}

/// Six lanes get and wait, in turn and in different measure; two answer, in any order. Is everything as it should be?
bool run_schedule(uint64_t seed, uint64_t limit, bug planted) {
  constexpr uint32_t askers = 6, answerers = 2, rounds = 8;
  network net;
  uint32_t left = askers;
  bool early = false;
  simt::launch_options options{};
  options.seed = seed;
  simt::launch(1, askers + answerers, options, [&] {
    const uint32_t lane = threadIdx.x;
    simt::inner::random_numbers draw(seed * 100 + lane);
    if (lane >= askers) {
      for (relax wait; left != 0 || !net.under_way.empty(); wait())
        if (!net.under_way.empty() && draw.below(3) == 0)
          net.answer(draw.below(static_cast<uint32_t>(net.under_way.size())));
      return;
    }
    uint64_t answered = 0, sent = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
      const uint64_t n = 1 + draw.below(3);
      net.get(n, limit, &answered);
      sent += n;
      if (draw.below(2)) continue;
      wait_for(net, planted);
      early |= answered != sent;
    }
    wait_for_gets(net.gets, [] {});
    if (answered != sent) early = true;
    for (relax wait; answered != sent; wait()) {  // `answered` lives on this lane's stack
    }
    --left;
  });
  return !early && net.most <= limit && net.gets.all_done();
}

}  // namespace

TEST_CASE("gets: never more under way than the limit, none missing after the wait, under 300 schedules") {
  for (uint64_t limit : {3u, 4u, 7u, 1000u})
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      INFO("limit " << limit << ", seed " << seed);
      REQUIRE(run_schedule(seed, limit, bug::none));
    }
}

TEST_CASE("some schedule finds a wait that ends too early") {
  for (bug planted : {bug::two_epochs, bug::issued_first}) {
    uint64_t finding = 0;
    for (uint64_t seed = 1; seed <= 5000 && !finding; ++seed)
      if (!run_schedule(seed, 1000, planted)) finding = seed;
    INFO("bug " << static_cast<int>(planted));
    CHECK(finding != 0);
  }
}

TEST_CASE("a wait for gets does not wait for later gets of others") {
  for (bug planted : {bug::none, bug::counts_alone})
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      INFO("bug " << static_cast<int>(planted) << ", seed " << seed);
      network net;
      bool waited = false;
      uint64_t issued = 0;
      simt::launch_options options{};
      options.seed = seed;
      simt::launch(1, 3, options, [&] {
        uint64_t mine = 0;
        if (threadIdx.x == 0) {
          // An answer comes only when the next get is on its way: there is no moment without any.
          while (!waited && issued < 3000) {
            net.get(1, 1000, &mine);
            ++issued;
            while (net.under_way.size() > 1) net.answer(0);
          }
          while (!net.under_way.empty()) net.answer(0);
        } else if (threadIdx.x == 1) {
          for (relax wait; issued == 0; wait()) {
          }
          wait_for(net, planted);
          waited = true;
        }
      });
      CHECK(waited);
      CHECK((issued < 3000) == (planted == bug::none));
    }
}

TEST_CASE("the words pass 2^32") {
  for (uint64_t base : {(1ull << 31) - 3, (1ull << 32) - 3, 1ull << 62}) {
    network net;
    net.gets.tickets = 2 * base;
    net.gets.issued[0] = net.gets.done[0] = base;
    net.gets.issued[1] = net.gets.done[1] = base;
    net.gets.epoch = base;
    uint64_t answered = 0;
    for (int i = 0; i < 10; ++i) {
      net.get(2, 4, &answered);
      CHECK_FALSE(net.gets.all_done());
      net.answer(1);
      net.answer(0);
      CHECK(net.gets.all_done());
      CHECK(net.gets.reached(net.gets.epoch_after()));
    }
    CHECK(net.most == 2);
  }
}
