// All rings (lib/base/ring.hpp) by one table: places and freedom of slots where numbers pass 2^32, 2^48 and 2^62, and
// the protocol under seeded schedules. Sources and destinations are lanes of one block of the CPU backend, which
// switches between them at every atomic; planted bugs show that the schedules find some.
#include "lib/base/ring.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "device/lane_group.cuh"
#include "device/simt.hpp"
#include "lib/base/error.hpp"
#include "lib/base/landing.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/queue_consumer.hpp"
#include "lib/base/service_rings.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t bases[] = {0, (1ull << 32) - 12, (1ull << 48) - 12, 1ull << 62};

enum class bug { none, published_before_written, done_before_read, one_slot_too_many };

/// Memory that begins on a line.
struct lines {
  struct alignas(64) line {
    char bytes[64];
  };
  std::vector<line> memory;
  explicit lines(uint64_t bytes) : memory((bytes + 63) / 64) {}
  char* data() { return memory[0].bytes; }
};

// Each instance: how many lanes take from it (takers), which tickets taker i gets in which order, and the words. Ticket
// 0 of the test is ticket `base` of the ring.

/// Planes take the tickets of their class in order.
template <uint32_t PLANES>
struct queue_instance {
  static constexpr uint32_t sources = 6, takers = PLANES, slots = 4;
  queue_shape shape{slots, 8, 4, PLANES};
  lines memory{shape.bytes()};
  queue_state state{};
  queue q = queue::in(memory.data(), &state, shape);
  queue_consumer planes[PLANES];

  explicit queue_instance(uint64_t& base) {
    base = base / PLANES * PLANES;
    state.tickets = state.consumed_below = base;
    for (uint32_t p = 0; p < PLANES; ++p) {
      q.control->plane[p].consumed = base / PLANES;
      planes[p] = queue_consumer(q, p);
    }
  }
  uint64_t claim(uint32_t) { return q.claim(); }
  uint64_t take_ticket(uint32_t) { return fetch_add(&state.tickets, uint64_t{1}); }
  bool is_free(uint64_t t, uint32_t more) { return slot_is_free(t, q.read_consumed(), slots + more); }
  uint64_t* words(uint64_t t) { return q.payload(q.slot(t))->word; }
  void publish(uint32_t, uint64_t t) { q.publish(t, q.slot(t), 1, 1); }
  uint64_t next(uint32_t taker) { return planes[taker].next(); }
  bool arrived(uint32_t taker, uint64_t) { return planes[taker].arrived(); }
  void mark_done(uint32_t taker, uint64_t) { planes[taker].take_and_release(); }
  void advance(uint32_t) {}
};

/// One source for each stream, which counts its packets itself; one taker.
struct landing_instance {
  static constexpr uint32_t sources = 1, takers = 1, slots = 3;
  static constexpr landing_shape shape{2, slots, 1024};
  lines memory{shape.bytes()};
  std::vector<uint64_t> done = std::vector<uint64_t>(shape.n_slots());
  uint64_t sequence, taken;
  landing ring{memory.data(), done.data(), nullptr, shape.streams, shape.packets, shape.packet_size, 0, 2};
  static constexpr uint32_t stream = 1;

  explicit landing_instance(uint64_t& base) : sequence(base), taken(base) {
    for (uint64_t t = base - slots; t != base; ++t) *ring.done_of(stream, t) = t + 1;
  }
  uint64_t claim(uint32_t) {
    const uint64_t t = sequence++;
    for (relax wait; !is_free(t, 0); wait()) {
    }
    return t;
  }
  uint64_t take_ticket(uint32_t) { return sequence++; }
  bool is_free(uint64_t t, uint32_t more) {
    const uint64_t before = t - slots - more;
    return before > t || ring.is_done(stream, before) || ring.is_done(stream, before + slots);
  }
  uint64_t* words(uint64_t t) { return reinterpret_cast<uint64_t*>(ring.packet(stream, t)); }
  void publish(uint32_t, uint64_t t) { ring.publish(stream, t); }
  uint64_t next(uint32_t) { return taken; }
  bool arrived(uint32_t, uint64_t t) { return ring.arrived(stream, t); }
  void mark_done(uint32_t, uint64_t t) { ring.mark_done(stream, t); }
  void advance(uint32_t) { ++taken; }
};

/// Takers draw tickets.
struct peer_instance {
  static constexpr uint32_t sources = 6, takers = 3, slots = 4, units = 4;
  lines memory{peer_ring::bytes(slots, units)};
  peer_ring ring = peer_ring::in(memory.data(), slots, units);
  ring_line line{};
  uint64_t drawn;
  ring_place places[takers];

  explicit peer_instance(uint64_t& base) : drawn(base) {
    line.tickets = base;
    for (uint64_t t = base < slots ? base : base - slots; t != base; ++t) *ring.words().of(t) = t + 1;
  }
  uint64_t claim(uint32_t source) {
    const uint64_t t = take_ticket(source);
    for (relax wait; !ring.is_free(t); wait()) {
    }
    return t;
  }
  uint64_t take_ticket(uint32_t) { return fetch_add(&line.tickets, uint64_t{1}); }
  bool is_free(uint64_t t, uint32_t more) {
    return t < slots + more || *ring.words().of(t - more) >= t - slots - more + 1;
  }
  uint64_t* words(uint64_t t) { return peer_ring::payload(ring.chunk(t))->word; }
  void publish(uint32_t, uint64_t t) { ring.publish(t, {wide_kind(1), 0, 1}); }
  uint64_t next(uint32_t taker) {
    places[taker].begin(&drawn);
    return places[taker].ticket;
  }
  bool arrived(uint32_t, uint64_t t) { return ring.arrived(t); }
  void mark_done(uint32_t, uint64_t t) { ring.mark_done(t); }
  void advance(uint32_t taker) {
    places[taker].draw_next(&drawn);
    places[taker].advance();
  }
};

/// A service block takes chunks in order; the word of each has its number of messages.
struct near_instance {
  static constexpr uint32_t sources = 6, takers = 1, slots = 4, units = 4;
  lines memory{slots * service_near_ring::chunk_bytes(units)};
  service_near_ring ring{memory.data(), slots, units};
  service_block block{};

  explicit near_instance(uint64_t& base) {
    block.near.tickets = block.near_done = taken = base;
    for (uint64_t t = base < slots ? base : base - slots; t != base; ++t)
      *ring.word(t) = service_near_ring::word_of(t, 3);
  }
  uint64_t claim(uint32_t) { return claim_near(block, slots); }
  uint64_t take_ticket(uint32_t) { return fetch_add(&block.near.tickets, uint64_t{1}); }
  bool is_free(uint64_t t, uint32_t more) { return near_is_free(block, t, slots + more); }
  uint64_t* words(uint64_t t) { return ring.messages(t)->word; }
  void publish(uint32_t, uint64_t t) { ring.publish(t, static_cast<uint32_t>(1 + t % 1024)); }
  uint64_t next(uint32_t) { return taken; }
  bool arrived(uint32_t, uint64_t t) {
    const uint32_t messages = ring.arrived(t);
    if (messages != 0 && messages != 1 + t % 1024) fail("ticket {} was published with {} messages", t, messages);
    return messages != 0;
  }
  void mark_done(uint32_t, uint64_t t) { gravel::detail::ring<scope::device>::mark_done(&block.near_done, t + 1); }
  void advance(uint32_t) { ++taken; }
  uint64_t taken;
};

constexpr uint32_t each = 5;

/// Two words, with a switch possible before each, as another processor would see them.
template <class Ring>
void hand_over(Ring& r, uint32_t source, uint64_t number, bug planted) {
  uint64_t ticket;
  if (planted == bug::one_slot_too_many) {
    ticket = r.take_ticket(source);
    for (relax wait; !r.is_free(ticket, 1); wait()) {
    }
  } else {
    ticket = r.claim(source);
  }
  if (planted == bug::published_before_written) r.publish(source, ticket);
  store_relaxed(&r.words(ticket)[0], uint64_t{source} << 32 | number);
  store_relaxed(&r.words(ticket)[1], ticket);
  if (planted != bug::published_before_written) r.publish(source, ticket);
}

struct taken_slot {
  uint64_t ticket, word[2];
};

template <class Ring>
void take_all(Ring& r, uint32_t taker, uint64_t end, bug planted, std::vector<taken_slot>& got) {
  for (uint64_t ticket; (ticket = r.next(taker)) < end; r.advance(taker)) {
    uint32_t rounds = 0;
    for (relax wait; !r.arrived(taker, ticket); wait())
      if (planted != bug::none && ++rounds > 500) fail("ticket {} was overwritten, or never comes", ticket);
    if (planted == bug::done_before_read) r.mark_done(taker, ticket);
    const taken_slot now{ticket, {load_relaxed(&r.words(ticket)[0]), load_relaxed(&r.words(ticket)[1])}};
    if (planted != bug::done_before_read) r.mark_done(taker, ticket);
    got.push_back(now);
    if (now.word[1] != ticket) fail("ticket {} was read before it was written, or when it was overwritten", ticket);
  }
}

/// One schedule: was each slot read as it was written, each ticket once, and those of one source in their order?
template <class Ring>
bool run_schedule(uint64_t seed, uint64_t base, bug planted) {
  Ring r(base);
  const uint64_t end = base + Ring::sources * each;
  std::vector<taken_slot> got[Ring::takers];
  simt::launch_options options{};
  options.seed = seed;
  try {
    simt::launch(1, Ring::sources + Ring::takers, options, [&] {
      const uint32_t lane = threadIdx.x;
      if (lane >= Ring::sources) return take_all(r, lane - Ring::sources, end, planted, got[lane - Ring::sources]);
      for (uint64_t i = 0; i < each; ++i) hand_over(r, lane, i, planted);
    });
  } catch (const error&) {
    return false;
  }
  std::map<uint64_t, uint64_t> by_ticket;
  for (const auto& some : got)
    for (const taken_slot& s : some)
      if (!by_ticket.emplace(s.ticket, s.word[0]).second) return false;
  if (by_ticket.size() != Ring::sources * each) return false;
  uint64_t ticket = base, latest[Ring::sources] = {};
  for (const auto& [t, word] : by_ticket) {
    const uint64_t source = word >> 32, number = word & 0xffffffff;
    if (t != ticket++ || source >= Ring::sources || number != latest[source]++) return false;
  }
  return true;
}

struct instance {
  const char* name;
  bool (*run)(uint64_t seed, uint64_t base, bug);
};
template <class Ring>
constexpr instance named(const char* name) {
  return {name, &run_schedule<Ring>};
}
constexpr instance instances[] = {
    named<queue_instance<1>>("queue, 1 plane"),  named<queue_instance<2>>("queue, 2 planes"),
    named<queue_instance<3>>("queue, 3 planes"), named<landing_instance>("landing ring"),
    named<peer_instance>("peer ring"),           named<near_instance>("near ring of a service"),
};

}  // namespace

TEST_CASE("every slot is read once and as it was written, under 200 schedules") {
  for (const instance& i : instances)
    for (uint64_t seed = 0; seed <= 200; ++seed) {
      INFO(i.name << ", seed " << seed);
      REQUIRE(i.run(seed, 0, bug::none));
    }
}

TEST_CASE("the same where tickets pass 2^32, 2^48 and 2^62") {
  for (const instance& i : instances)
    for (uint64_t base : bases)
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        INFO(i.name << ", base " << base << ", seed " << seed);
        REQUIRE(i.run(seed, base, bug::none));
      }
}

TEST_CASE("some schedule finds each planted bug in each ring") {
  for (const instance& i : instances)
    for (bug planted : {bug::published_before_written, bug::done_before_read, bug::one_slot_too_many}) {
      uint64_t finding = 0;
      for (uint64_t seed = 1; seed <= 400 && !finding; ++seed)
        if (!i.run(seed, 0, planted)) finding = seed;
      INFO(i.name << ", bug " << static_cast<int>(planted));
      CHECK(finding != 0);
    }
}

TEST_CASE("slot_is_free, also where tickets pass 2^32, 2^63 and 2^64") {
  struct row {
    uint64_t ticket, done_below;
    bool free;
  };
  constexpr uint32_t slots = 8;
  constexpr uint64_t top = ~0ull;
  std::vector<row> table;
  for (uint64_t base :
       {0ull, 1ull * slots, 1ull << 32, (1ull << 32) - 3, 1ull << 63, (1ull << 63) - 3, 1ull * top, top - 3ull}) {
    table.push_back({base, base, true});
    table.push_back({base + slots - 1, base, true});
    table.push_back({base + slots, base, false});
    table.push_back({base + 2 * slots, base, false});
    table.push_back({base, base + 1, true});  // a cached count may be ahead of an old ticket
    table.push_back({base, base + slots, true});
  }
  for (const row& r : table) {
    INFO("ticket " << r.ticket << ", done below " << r.done_below);
    CHECK(slot_is_free(r.ticket, r.done_below, slots) == r.free);
  }
}

TEST_CASE("a slot's place follows the ticket round the ring, on lines of its own") {
  uint64_t base = 0;
  queue_instance<1> queue_ring(base);
  landing_instance landing_ring(base);
  peer_instance peers(base);
  const near_instance near(base);
  for (uint64_t b : {0ull, 12ull, (1ull << 32) - 4, 3ull << 40}) {
    const auto check = [b](uint32_t slots, auto at) {
      for (uint64_t t = b; t < b + slots; ++t) {
        CHECK(at(t) == at(t + slots));
        CHECK(at(t) != at(t + 1));
        CHECK(reinterpret_cast<uintptr_t>(at(t)) % 64 == 0);
      }
    };
    check(4, [&](uint64_t t) { return reinterpret_cast<char*>(queue_ring.q.slot(t)); });
    check(3, [&](uint64_t t) { return reinterpret_cast<char*>(landing_ring.ring.slot(1, t)); });
    check(4, [&](uint64_t t) { return reinterpret_cast<char*>(peers.ring.chunk(t)); });
    check(4, [&](uint64_t t) { return reinterpret_cast<char*>(near.ring.word(t)); });
  }
}

TEST_CASE("the word of a service's chunk has its ticket and its messages, also where tickets pass 2^48 and 2^64") {
  for (uint64_t base : {0ull, (1ull << 32) - 2, (1ull << 48) - 3, 5ull << 48, ~0ull - 3})
    for (uint64_t t = base; t != base + 6; ++t)
      for (uint32_t messages : {1u, 32u, 1024u, 65535u}) {
        const uint64_t word = service_near_ring::word_of(t, messages);
        CHECK(service_near_ring::messages_in(word, t) == messages);
        for (uint64_t chunks : {1ull, 2ull, 1ull << 20}) CHECK(service_near_ring::messages_in(word, t + chunks) == 0);
        CHECK(service_near_ring::messages_in(0, t) == 0);
      }
}

TEST_CASE("a word for each slot says which tickets are done, in any order of completion") {
  for (const auto& [done, count] : std::vector<std::pair<std::vector<uint64_t>, uint64_t>>{{{0, 0, 0, 0}, 0},
                                                                                           {{1, 0, 0, 0}, 1},
                                                                                           {{0, 2, 0, 4}, 2},
                                                                                           {{5, 2, 3, 4}, 5},
                                                                                           {{9, 10, 7, 8}, 10},
                                                                                           {{5, 0, 0, 0}, 2}}) {
    std::vector<uint64_t> words = done;
    const done_words<> all{words.data(), 4};
    CHECK(all.count() == count);
    for (uint64_t t = 0; t < 14; ++t) CHECK(all.is_free(t) == (t < 4 || done[t % 4] == t - 3));
  }
}

TEST_CASE("lanes that poll together find the first ticket that is not done") {
  for (uint32_t lanes : {1, 5, 32})
    for (uint64_t target : {0, 1, 3, 40, 250, 256, 300, 700}) {
      constexpr uint32_t many = 256;
      std::vector<uint64_t> done(many);
      for (uint64_t missing : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{31}, uint64_t{39}, uint64_t{255},
                               uint64_t{260}, uint64_t{699}, uint64_t{700}}) {
        if (missing + many < target) continue;  // that slot has been used again
        INFO(lanes << " lanes, target " << target << ", missing " << missing);
        std::fill(done.begin(), done.end(), 0);
        for (uint64_t t = 0; t < target; ++t)
          if (t < missing || (t - missing) % many != 0) done[t % many] = t + 1;
        const done_words<> words{done.data(), many};
        const uint64_t expected = missing < target ? missing : target;
        CHECK(words.first_missing(0, target) == expected);
        std::vector<uint64_t> found(lanes);
        simt::launch_options options{};
        options.seed = 3;
        simt::launch(1, lanes, options, [&] {
          found[threadIdx.x] = words.first_missing(0, target, lane_group::converged_warp(threadIdx.x, lanes));
        });
        for (uint64_t f : found) CHECK(f == expected);
      }
    }
}
