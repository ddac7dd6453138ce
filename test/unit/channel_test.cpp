// Channels under seeded schedules: producers and consumers are lanes of one block of the CPU backend, which switches
// between them at every atomic; planted bugs show that the schedules find some (test/models/channel.pml finds more).
// Sequence words of 8 bits wrap within a run.
#include "lib/channel/channel.cuh"
#include "lib/taskgraph/frames.cuh"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "device/simt.hpp"
#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

enum class bug {
  none,
  committed_before_written,
  freed_before_read,
  no_spare_chunk,
  too_much_room,
  bits_by_load_and_store,
  claim_kept,
  ends_when_empty,
  closed_by_a_word
};

/// An element of three words, the last of them half used.
struct element {
  uint32_t producer, number;
  uint16_t check;
};

template <class Word, scope S = scope::device, count_order ORDER = count_order::none>
struct rig {
  using channel_type = channel<element, Word, S, ORDER>;
  uint32_t capacity;
  std::unique_ptr<char, void (*)(void*)> memory;
  channel_type c;
  std::vector<uint32_t> holder;  ///< [row] the lane that may touch it; 0: none
  uint64_t base;

  /// `laps`: times that all slots have been used before.
  explicit rig(uint32_t capacity_, uint64_t laps = 0)
      : capacity(capacity_),
        memory(static_cast<char*>(std::aligned_alloc(128, channel_type::bytes(capacity_))), &std::free) {
    std::memset(memory.get(), 0, channel_type::bytes(capacity));
    c = channel_type::in(memory.get(), capacity);
    base = laps * c.space.rows();
    holder.resize(c.space.rows());
    auto& state = c.state();
    state.room = capacity;
    state.tail = state.freed = base;
    state.ready = base << 32;  // the cursor is there, modulo 2^32
    for (uint32_t i = 0; i < c.ready.chunks; ++i) c.space.done.word[i] = c.space.done.before(base);
  }
};

/// A lane that is slow now and then: what others do meanwhile it must not see.
void dawdle(uint64_t salt) {
  const uint64_t random = mix(salt);
  if (random % 8 == 0)
    for (uint32_t i = 0; i < (random >> 32) % 256; ++i) interleave_point();
}

/// Takes elements with the bits of a chunk loaded, and then stored.
template <class Word>
channel_batch take_by_store(const channel<element, Word>& c, uint32_t most) {
  const channel_claim mine = c.ready.claim(most);
  if (mine.n == 0) return {};
  for (uint32_t chunk = mine.cursor / 32;; ++chunk) {
    uint32_t* const word = &c.ready.bits[chunk % c.ready.chunks];
    const uint32_t bits = load_acquire(word);
    interleave_point();
    if (bits == 0) continue;
    store_release(word, bits & (bits - 1));
    fetch_add(c.ready.count, uint64_t{0} - ready_count::claim_of(mine.n - 1));
    return {uint64_t{chunk} * 32 + lane_group::lowest(bits), 1};
  }
}
struct shape {
  uint32_t producers, consumers, each, capacity, most;
};

/// Each producer pushes `each` elements, up to three at once; consumers take up to `most` until all have come. An empty
/// text: all is as it must be.
template <class Word>
std::string run(const shape& s, uint64_t seed, uint64_t laps = 0, bug planted = bug::none) {
  rig<Word> r(s.capacity, laps);
  if (planted == bug::no_spare_chunk) r.c.state().room = r.c.space.rows();
  if (planted == bug::too_much_room) r.c.state().room = r.c.space.rows() + 8;
  const uint32_t total = s.producers * s.each;
  std::vector<uint32_t> seen(total);
  uint32_t taken = 0, live = 0, looked = 0;  // live: reserved and not done
  simt::launch_options options{};
  options.seed = seed;
  const auto produce = [&](uint32_t me) {
    uint32_t rounds = 0;
    for (uint32_t i = 0, draws = 0; i < s.each;) {
      const auto n = std::min(s.each - i, static_cast<uint32_t>(mix(seed * 977 + me * 31 + 1024 * draws++) % 4));
      const lane_group group = lane_group::active();
      const channel_reservation mine = r.c.reserve(group, n);
      if (!mine.granted) {
        if (++rounds > 20'000) fail("producer {} finds no room", me);
        relax{}();
        continue;
      }
      if (group.is_leader()) live += mine.total;
      if (live > s.capacity) fail("{} elements are reserved and not done", live);
      if (planted == bug::committed_before_written) r.c.commit(group, mine);
      dawdle(seed * 3 + mine.mine);
      for (uint32_t k = 0; k < n; ++k) {
        interleave_point();
        uint32_t& holder = r.holder[r.c.space.row(mine.mine + k)];
        if (std::exchange(holder, 1 + me) != 0) fail("ticket {}: its slot is in use", mine.mine + k);
        r.c.write(mine.mine + k, {me, i + k, static_cast<uint16_t>(me * 7 + i + k)});
      }
      if (planted != bug::committed_before_written) r.c.commit(group, mine);
      i += n;
    }
  };
  const auto consume = [&](uint32_t me) {
    uint32_t rounds = 0;
    while (load_relaxed(&taken) < total) {
      const lane_group group = lane_group::active();
      channel_batch b;
      if (planted == bug::bits_by_load_and_store) {
        if (group.is_leader()) b = take_by_store(r.c, s.most);
        b.count = group.from_leader(b.count);
        b.first = group.from_leader(b.first);
      } else {
        if (planted == bug::claim_kept && group.is_leader()) r.c.ready.claim(1);
        b = r.c.take(group, s.most);
      }
      if (b.count == 0) {
        if (++rounds > 20'000) fail("consumer {} finds nothing", me);
        relax{}();
        continue;
      }
      if (group.is_leader() && planted == bug::freed_before_read) live -= b.count;
      if (planted == bug::freed_before_read) r.c.free(group, b);
      dawdle(seed * 5 + b.first);
      for (uint32_t k = group.rank(); k < b.count; k += group.size()) {
        interleave_point();
        const uint64_t ticket = b.first + k;
        const element e = r.c.read(ticket);
        uint32_t& holder = r.holder[r.c.space.row(ticket)];
        if (holder != 1 + e.producer) fail("ticket {} is read before it is written", ticket);
        if (e.producer >= s.producers || e.number >= s.each ||
            e.check != static_cast<uint16_t>(e.producer * 7 + e.number))
          fail("ticket {} holds what nobody wrote", ticket);
        if (++seen[e.producer * s.each + e.number] != 1) fail("an element was taken twice");
        holder = 0;
      }
      if (planted != bug::freed_before_read) {
        group.sync();
        if (group.is_leader()) live -= b.count;
        r.c.free(group, b);
      }
      if (group.is_leader()) fetch_add(&taken, b.count);
    }
  };
  // At most the capacity is reserved and not done, and no room is reported that does not exist. No interleaving point
  // lies between these reads: they are of one moment.
  const auto observe = [&] {
    for (auto& now = r.c.state(); load_relaxed(&taken) < total; relax{}()) {
      const auto left = static_cast<int64_t>(static_cast<int32_t>(now.room)),
                 unclaimed = static_cast<int64_t>(ready_count{now.ready}.unclaimed());
      if (now.freed > now.tail) fail("done {}, reserved {}", now.freed, now.tail);
      if (left + static_cast<int64_t>(now.tail - now.freed) > s.capacity)
        fail("room for {} beside {}", left, now.tail - now.freed);
      uint32_t set = 0;
      for (uint32_t c = 0; c < r.c.ready.chunks; ++c) set += lane_group::popcount(r.c.ready.bits[c]);
      if (set > live) fail("{} are ready of {} that are reserved", set, live);
      if (unclaimed > static_cast<int64_t>(now.tail - now.freed))
        fail("{} are unclaimed of {} that are reserved", unclaimed, now.tail - now.freed);
      ++looked;
    }
  };
  const uint32_t observers = planted == bug::none;
  try {
    simt::launch(1, s.producers + s.consumers + observers, options, [&] {
      const uint32_t me = threadIdx.x;
      if (me < s.producers) produce(me);
      else if (me < s.producers + s.consumers) consume(me - s.producers);
      else observe();
    });
  } catch (const error& e) {
    return e.what();
  }
  if (observers && seed != 0 && looked < 8) return "nobody has looked";
  auto& state = r.c.state();
  while (r.c.space.refresh()) {
  }
  if (state.tail != r.base + total || state.freed != state.tail || state.ready != state.tail << 32)
    return "tickets are missing";
  if (state.room != s.capacity) return "room is missing";
  for (uint32_t c = 0; c < r.c.ready.chunks; ++c)
    if (r.c.ready.bits[c] != 0) return "a bit is left";
  for (uint32_t n : seen)
    if (n != 1) return "an element was lost";
  return {};
}

/// Producers put up to `each` elements, one by one. A lane closes the channel when `closes_at` elements have been put,
/// or when all producers have ended. Consumers take until the channel has ended. An empty text: all is as it must be.
template <count_order ORDER = count_order::none>
std::string run_to_the_end(const shape& s, uint32_t closes_at, uint64_t seed, bug planted = bug::none) {
  rig<uint32_t, scope::system, ORDER> r(s.capacity);
  auto& state = r.c.state();
  std::vector<uint32_t> put(s.producers), seen(s.producers * s.each);
  uint32_t all_put = 0, producing = s.producers, last = 0;
  const auto produce = [&](uint32_t me) {
    for (relax wait; put[me] < s.each;) {
      if (planted == bug::closed_by_a_word) {
        if (r.c.is_closed()) break;
        dawdle(seed * 7 + put[me]);
      }
      const channel_reservation mine = r.c.reserve(lone_lane{}, 1);
      if (!mine.granted) {
        if (r.c.is_closed()) break;
        wait();
        continue;
      }
      dawdle(seed * 3 + mine.mine);
      r.c.write(mine.mine, {me, put[me], static_cast<uint16_t>(me + put[me])});
      r.c.commit(lone_lane{}, mine);
      ++put[me];
      fetch_add(&all_put, 1u);
    }
    fetch_add(&producing, ~0u);
  };
  const auto consume = [&] {
    for (relax wait;;) {
      const channel_batch b = r.c.take(lone_lane{}, s.most);
      for (uint32_t k = 0; k < b.count; ++k) {
        const element e = r.c.read(b.first + k);
        if (e.producer >= s.producers || e.number >= s.each || e.check != static_cast<uint16_t>(e.producer + e.number))
          fail("ticket {} holds what nobody wrote", b.first + k);
        ++seen[e.producer * s.each + e.number];
        if (ORDER == count_order::kept && e.number != std::exchange(last, e.number + 1)) fail("out of order");
      }
      r.c.free(lone_lane{}, b);
      if (b.count != 0) continue;
      bool has_ended = false;
      if (planted == bug::ends_when_empty) has_ended = r.c.is_closed() && r.c.waiting() == 0;
      else if (planted != bug::closed_by_a_word) has_ended = r.c.has_ended();
      else if (r.c.is_closed()) {
        r.c.space.refresh();
        has_ended = load_acquire(&state.room) == s.capacity;
      }
      if (has_ended) return;
      wait();
    }
  };
  const auto close = [&] {
    for (relax wait; load_relaxed(&producing) != 0 && load_relaxed(&all_put) < closes_at;) wait();
    if (planted == bug::closed_by_a_word) store_release(&state.closing, 2u);
    else r.c.close();
  };
  simt::launch_options options{};
  options.seed = seed;
  try {
    simt::launch(1, s.producers + s.consumers + 1, options, [&] {
      const uint32_t me = threadIdx.x;
      if (me < s.producers) produce(me);
      else if (me < s.producers + s.consumers) consume();
      else close();
    });
  } catch (const error& e) {
    return e.what();
  }
  for (uint32_t p = 0; p < s.producers; ++p)
    for (uint32_t i = 0; i < s.each; ++i)
      if (seen[p * s.each + i] != (i < put[p])) return "an element was lost, or came twice";
  if (planted != bug::none) return {};
  if (!r.c.has_ended() || !r.c.is_closed() || r.c.room() != 0) return "it has not ended";
  r.c.close();
  if (!r.c.has_ended() || r.c.reserve(lane_group::active(), 1).granted || !r.c.reserve(lane_group::active(), 0).granted)
    return "closed twice";
  return {};
}

constexpr shape shapes[] = {
    {4, 3, 40, 64, 32}, {6, 2, 25, 32, 5}, {1, 1, 100, 33, 32}, {3, 4, 40, 21, 7}, {5, 3, 30, 256, 32}};

}  // namespace

TEST_CASE("each element is taken once and as it was written, under 100 schedules") {
  for (const shape& s : shapes)
    for (uint64_t seed = 0; seed <= 100; ++seed) {
      INFO("capacity " << s.capacity << ", seed " << seed);
      REQUIRE(run<uint32_t>(s, seed) == "");
    }
}

TEST_CASE("the same where sequence words wrap, and where tickets pass 2^32 and 2^48") {
  for (const shape& s : shapes)
    for (uint64_t laps : {uint64_t{0}, uint64_t{5}, uint64_t{7}, (uint64_t{1} << 27) - 1, uint64_t{1} << 43})
      for (uint64_t seed = 1; seed <= 8; ++seed) {
        INFO("capacity " << s.capacity << ", laps " << laps << ", seed " << seed);
        REQUIRE(run<uint8_t>({s.producers, s.consumers, s.each * 4, s.capacity, s.most}, seed, laps) == "");
        REQUIRE(run<uint32_t>(s, seed, laps) == "");
      }
}

TEST_CASE("some schedule finds each planted bug") {
  struct row {
    bug planted;
    shape at;
  };
  for (const row& r : std::vector<row>{{bug::committed_before_written, {6, 4, 30, 33, 5}},
                                       {bug::freed_before_read, {6, 4, 60, 33, 5}},
                                       {bug::no_spare_chunk, {6, 4, 60, 33, 5}},
                                       {bug::too_much_room, {6, 4, 60, 33, 5}},
                                       {bug::bits_by_load_and_store, {6, 4, 30, 33, 5}},
                                       {bug::claim_kept, {6, 4, 30, 33, 5}}}) {
    uint64_t finding = 0;
    for (uint64_t seed = 1; seed <= 1000 && !finding; ++seed)
      if (run<uint32_t>(r.at, seed, 0, r.planted) != "") finding = seed;
    INFO("bug " << static_cast<int>(r.planted));
    CHECK(finding != 0);
  }
}

TEST_CASE("a channel that is closed ends when all that was put has been taken, under 60 schedules") {
  for (const shape& s : {shape{3, 3, 20, 5, 3}, shape{3, 3, 20, 64, 32}, shape{1, 3, 40, 1, 1}, shape{3, 1, 20, 33, 7}})
    for (uint32_t closes_at : {0u, 1u, s.capacity, ~0u})
      for (uint64_t seed = 0; seed <= 60; ++seed) {
        INFO("capacity " << s.capacity << ", closed at " << closes_at << ", seed " << seed);
        REQUIRE(run_to_the_end(s, closes_at, seed) == "");
      }
  for (bug planted : {bug::ends_when_empty, bug::closed_by_a_word}) {
    uint64_t finding = 0;
    for (uint64_t seed = 1; seed <= 1000 && !finding; ++seed)
      if (run_to_the_end({3, 3, 20, 33, 3}, 30, seed, planted) != "") finding = seed;
    INFO("bug " << static_cast<int>(planted));
    CHECK(finding != 0);
  }
}

TEST_CASE("one consumer gets the elements of one producer in order, also where slots are used again") {
  for (uint32_t capacity : {1u, 5u, 33u, 97u})
    for (uint32_t most : {1u, 32u})
      for (uint64_t seed = 0; seed <= 40; ++seed) {
        INFO("capacity " << capacity << ", takes " << most << ", seed " << seed);
        REQUIRE(run_to_the_end<count_order::kept>({1, 1, 150, capacity, most}, ~0u, seed) == "");
      }
}

TEST_CASE("a sequence word of 8 bits gives the state of a ticket's chunk") {
  struct row {
    uint64_t ticket;
    uint32_t word, count;
  };
  // Two chunks: tickets 0 to 63 are round 0, and a word gains 32 in each.
  for (const row& r : std::vector<row>{{0, 0, 0},
                                       {31, 5, 5},
                                       {33, 32, 32},
                                       {64, 32, 0},
                                       {64, 33, 1},
                                       {100, 64, 32},
                                       {64 * 7, 224, 0},
                                       {64 * 7 + 40, 255, 31},
                                       {64 * 7 + 40, 0, 32},
                                       {64 * 8, 0, 0},
                                       {64 * 8, 3, 3},
                                       {64 * 7, 3, 35},  // its round is over
                                       {(uint64_t{1} << 32) + 64, 40, 8}}) {
    uint8_t words[2] = {};
    const sequence<uint8_t> s{words, 2};
    *s.of(r.ticket) = static_cast<uint8_t>(r.word);
    INFO("ticket " << r.ticket << ", word " << r.word);
    CHECK(s.count(r.ticket) == r.count);
  }
}

TEST_CASE("room is all or nothing, comes back in the order of tickets, and is promised once") {
  rig<uint32_t> r(40);
  const lane_group me = lane_group::active();
  CHECK(!r.c.reserve(me, 41).granted);
  const auto a = r.c.reserve(me, 30);
  CHECK(a.granted);
  CHECK(!r.c.reserve(me, 11).granted);
  const auto b = r.c.reserve(me, 10);
  CHECK(b.granted);
  CHECK(!r.c.reserve(me, 1).granted);
  CHECK(r.c.reserve(me, 0).granted);
  CHECK(r.c.take(me, 32).count == 0);
  r.c.commit(me, b);
  r.c.commit(me, a);
  const auto first = r.c.take(me, 20), second = r.c.take(me, 32), third = r.c.take(me, 32);
  CHECK((first.first == 0 && first.count == 20));
  CHECK((second.first == 20 && second.count == 12));  // to the end of its chunk
  CHECK((third.first == 32 && third.count == 8));
  CHECK(r.c.take(me, 32).count == 0);
  r.c.free(me, third);
  CHECK(!r.c.take_room(1));  // of an older chunk nothing is done
  r.c.free(me, second);
  CHECK(!r.c.take_room(13));
  CHECK(r.c.take_room(12));
  r.c.free(me, first);
  CHECK(r.c.take_room(28));
  CHECK(!r.c.take_room(1));
  r.c.return_room(40);
  CHECK(r.c.state().room == 40);
}

TEST_CASE("frames of a graph if nothing is said") {
  struct row {
    uint64_t wanted;
    uint32_t most, expected;  ///< the most that there is room for
  };
  for (const row& r : {row{0, ~0u, 4065},
                       {4065, ~0u, 4065},
                       {4066, ~0u, 8161},
                       {2 * 131 * 14 * 32, ~0u, 131041},
                       {131041, ~0u, 131041},
                       {131042, 262112, 131041},
                       {117376, 100000, 65505},
                       {117376, 33, 33},
                       {0, 1000, 993},
                       {0, 0, 33},
                       {uint64_t{1} << 40, ~0u, (1u << 29) - 31}})
    CHECK(usual_frames(r.wanted, [&](uint32_t n) { return n <= r.most; }) == r.expected);
}

TEST_CASE("what is written can be taken, whatever was reserved before it, also where words wrap") {
  struct row {
    std::vector<uint32_t> reserved;   ///< so many tickets at once, one after the other
    std::vector<uint32_t> committed;  ///< which of them, in this order
    uint32_t batches;                 ///< a warp then takes all that is written in so many batches, or in fewer
  };
  for (const row& at : {row{{5}, {}, 0},
                        {{5}, {0}, 1},
                        {{5, 6}, {1}, 2},
                        {{5, 6}, {1, 0}, 1},
                        {{5, 6, 7}, {2, 0}, 3},
                        {{20, 30, 30}, {1, 2}, 3},
                        {{20, 12, 1024, 40}, {0, 1, 2, 3}, 2},
                        {{1024, 500, 30}, {2}, 2},
                        {{1024, 500, 30}, {2, 0}, 3}})
    for (uint64_t laps : {uint64_t{0}, uint64_t{7}, uint64_t{255}, (uint64_t{1} << 27) - 1})
      for (bool by_warp : {true, false}) {
        INFO("reserved " << at.reserved.size() << ", committed " << at.committed.size() << ", laps " << laps
                         << ", warp " << by_warp);
        rig<uint8_t> r(64 * 32 - 31, laps);
        const lane_group me = lane_group::active();
        std::vector<channel_reservation> all;
        for (uint32_t n : at.reserved) all.push_back(r.c.reserve(me, n));
        std::vector<uint32_t> missing(r.c.space.rows());
        const uint32_t reserved = std::accumulate(at.reserved.begin(), at.reserved.end(), 0u);
        uint32_t left = 0, batches = 0;
        for (uint32_t i : at.committed) {
          r.c.commit(me, all[i]);
          for (uint32_t k = 0; k < at.reserved[i]; ++k) ++missing[r.c.space.row(all[i].first + k)];
          left += at.reserved[i];
          CHECK((r.c.waiting() == left && r.c.reserved() == reserved));
        }
        const auto take = [&](const lane_group& group) {
          for (uint32_t misses = 0; group.from_leader(r.c.waiting()) != 0;) {
            const channel_batch b = r.c.take(group, 1024);
            misses = b.count == 0 ? misses + 1 : 0;
            if (misses * 8 > r.c.ready.chunks) fail("the sweep has passed elements over");
            if (!group.is_leader() || b.count == 0) continue;
            CHECK((by_warp || b.count <= 32));
            ++batches;
            for (uint32_t k = 0; k < b.count; ++k) --missing[r.c.space.row(b.first + k)];
          }
        };
        if (by_warp) simt::launch(1, 32, {}, [&] { take(lane_group::converged_warp(threadIdx.x, 32)); });
        else take(me);
        if (by_warp) CHECK(batches <= at.batches);
        for (uint32_t n : missing) REQUIRE(n == 0);
        CHECK((r.c.waiting() == 0 && r.c.reserved() == reserved - left));
      }
}

TEST_CASE("a warp collects the room of all chunks up to the first that is not done") {
  for (uint32_t hole :  // the first ticket of what is not done
       {0u, 5u * 32 + 7, 31u * 32, 32u * 32 + 9, 40u * 32, 288u * 32 + 31, 289u * 32 + 1, 299u * 32})
    for (uint64_t laps : {uint64_t{0}, uint64_t{7}, (uint64_t{1} << 27) - 1}) {
      rig<uint8_t> r(512 * 32 - 31, laps);
      simt::launch(1, 32, {}, [&] {
        const lane_group warp = lane_group::converged_warp(threadIdx.x, 32);
        const channel_reservation all = r.c.reserve(warp, 300);
        r.c.commit(warp, all);
        for (channel_batch b; (b = r.c.take(warp, 32)).count != 0;) {
          const uint32_t begin = static_cast<uint32_t>(b.first - r.base), end = begin + b.count;
          // In the chunk with the hole, the elements before the hole; in all other chunks all elements, also after it.
          if (end <= hole || begin / 32 > hole / 32) r.c.free(warp, b);
          else if (begin < hole) r.c.free(warp, {b.first, hole - begin});
        }
        CHECK(r.c.space.refresh(warp) == (hole != 0));
        warp.sync();
        if (warp.is_leader()) {
          CHECK(r.c.state().freed - r.base == hole);
          CHECK(r.c.state().room == r.capacity - 300 * 32 + hole);
        }
        warp.sync();
        while (r.c.space.refresh(warp)) {
        }
        if (warp.is_leader()) CHECK(r.c.state().freed - r.base == hole);
      });
    }
}

TEST_CASE("warps and single lanes at one channel, under 40 schedules") {
  constexpr uint32_t each = 6;
  for (uint32_t capacity : {33u, 97u, 1024u})
    for (uint64_t seed = 0; seed <= 40; ++seed) {
      INFO("capacity " << capacity << ", seed " << seed);
      rig<uint8_t> r(capacity, 7);
      constexpr uint32_t total = 32 * each + 5 * each;  // a warp, and five lanes that are alone
      std::vector<uint32_t> seen(total);
      uint32_t taken = 0;
      simt::launch_options options{};
      options.seed = seed;
      simt::launch(1, 64, options, [&] {
        const bool by_warp = threadIdx.x < 32;
        const uint32_t lane = threadIdx.x % 32;
        if (!by_warp && lane >= 5) return;
        const lane_group group = by_warp ? lane_group::converged_warp(threadIdx.x, 64) : lane_group::of(1u << lane);
        const uint32_t mine = by_warp ? lane * each : (32 + lane) * each;
        uint32_t sent = 0;
        for (uint32_t rounds = 0; group.from_leader(load_relaxed(&taken)) < total; ++rounds) {
          if (rounds > 100'000) fail("{} of {} elements come through", taken, total);
          if (sent < each) {
            const channel_reservation room = r.c.reserve(group, 1);
            if (room.granted) r.c.write(room.mine, {mine + sent, 0, 0});
            r.c.commit(group, room);
            sent += room.granted;
          }
          const channel_batch b = r.c.take(group, group.size());
          if (group.rank() < b.count) {
            const uint32_t n = r.c.read(b.first + group.rank()).producer;
            if (n >= total || ++seen[n] != 1) fail("element {} comes twice, or was never sent", n);
          }
          r.c.free(group, b);
          if (group.is_leader()) fetch_add(&taken, b.count);
          if (b.count == 0) relax{}();
        }
      });
      for (uint32_t n : seen) REQUIRE(n == 1);
      while (r.c.space.refresh()) {
      }
      REQUIRE(r.c.state().room == capacity);
    }
}

TEST_CASE("host threads fill and empty one channel") {
  constexpr uint32_t each = 5000, threads = 2;
  rig<uint32_t> r(97);
  std::vector<uint32_t> seen(threads * each);
  uint32_t taken = 0;
  const auto work = [&](uint32_t me) {
    const lane_group alone = lane_group::active();
    uint32_t sent = 0;
    for (relax wait; load_relaxed(&taken) < threads * each;) {
      channel_reservation room{};
      if (sent < each) room = r.c.reserve(alone, std::min(each - sent, 1 + sent % 3));
      for (uint32_t k = 0; room.granted && k < room.total; ++k)
        r.c.write(room.mine + k, {me, sent + k, static_cast<uint16_t>(me + sent + k)});
      r.c.commit(alone, room);
      if (room.granted) sent += room.total;
      const channel_batch b = r.c.take(alone, 7);
      for (uint32_t k = 0; k < b.count; ++k) {
        const element e = r.c.read(b.first + k);
        if (e.check == static_cast<uint16_t>(e.producer + e.number))
          fetch_add(&seen[(e.producer * each + e.number) % (threads * each)], 1u);
      }
      r.c.free(alone, b);
      fetch_add(&taken, b.count);
      if (b.count == 0 && !room.granted) wait();
    }
  };
  {
    std::vector<std::jthread> all;
    for (uint32_t t = 0; t < threads; ++t) all.emplace_back(work, t);
  }
  for (uint32_t n : seen) REQUIRE(n == 1);
  while (r.c.space.refresh()) {
  }
  CHECK((r.c.waiting() == 0 && r.c.state().room == r.capacity));
}

TEST_CASE("elements of any size are columns of words") {
  struct wide {
    uint64_t a;
    uint8_t b[5];
  };
  static_assert(columns<wide>::words == 4 && columns<uint8_t>::words == 1 && columns<element>::words == 3);
  std::vector<uint32_t> memory(columns<wide>::bytes(3) / 4);
  const columns<wide> c{memory.data(), 3};
  for (uint8_t i = 0; i < 3; ++i) c.store(i, {uint64_t{i} << 32 | 7, {i, 1, 2, 3, 4}});
  for (uint8_t i = 0; i < 3; ++i) {
    CHECK(c.load(i).a == (uint64_t{i} << 32 | 7));
    CHECK(c.load(i).b[0] == i);
    CHECK(c.load(i).b[4] == 4);
    CHECK(memory[i] == 7);  // the first words of all lie together
    CHECK(memory[3 + i] == i);
  }
}

TEST_CASE("blocks reserve for all their threads at once") {
  for (uint64_t seed : {0, 1, 2, 3, 4, 5})
    for (unsigned threads : {1u, 32u, 70u}) {
      constexpr unsigned blocks = 3;
      rig<uint32_t> r(1024);
      std::vector<uint32_t> refused(blocks);
      simt::launch_options options{.threads = 2, .seed = seed};
      simt::launch(blocks, threads, options, [&] {
        __shared__ channel_block together;
        const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
        for (uint32_t round = 0; round < 2; ++round) {
          const uint32_t n = (me + round) % 3;
          const channel_reservation mine = together.reserve(r.c, n);
          if (!mine.granted) ++refused[blockIdx.x];
          for (uint32_t k = 0; k < n; ++k) r.c.write(mine.mine + k, {me, round * 2 + k, 0});
          together.commit(r.c, mine);
        }
        const channel_reservation none = together.reserve(r.c, 2000);
        if (none.granted) fail("more than there is room for");
        together.commit(r.c, none);
      });
      INFO("seed " << seed << ", threads " << threads);
      uint64_t expected = 0;
      for (uint32_t t = 0; t < blocks * threads; ++t) expected += t % 3 + (t + 1) % 3;
      std::vector<uint32_t> seen(blocks * threads * 4);
      uint64_t got = 0;
      const lane_group host = lane_group::active();
      for (channel_batch b; (b = r.c.take(host, 32)).count != 0; r.c.free(host, b))
        for (uint32_t k = 0; k < b.count; ++k) {
          const element e = r.c.read(b.first + k);
          CHECK(++seen[e.producer * 4 + e.number] == 1);
          ++got;
        }
      CHECK(got == expected);
      for (uint32_t n : refused) CHECK(n == 0);
    }
}
