// device/outbox.cuh under seeds: lanes that diverge send to their own PE and to two others, whose rings have few chunks
// and are served slowly. Each message arrives exactly once: where it was meant to, or in the own ring to be passed on,
// or in the queue if there is no room.
#include "device/outbox.cuh"

#include <set>
#include <utility>
#include <vector>

#include "device/cpu/simt_block.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;
using simt::inner::random_numbers;

namespace {

constexpr uint32_t n_pes = 3, me = 1, chunks = 4, chunk_units = 256, senders = 32, rounds = 40;

/// The messages that are sent. The outbox chooses the open chunk by destination and size of message or handler, so some
/// share one.
constexpr row_kind kinds[] = {
    wide_kind(1),
    wide_kind(2),
    wide_kind(4),
    update_kind(op::inc, value_type::u64),
    update_kind(op::add, value_type::u64),
    update_kind(op::put, value_type::u32),
    update_kind(op::add, value_type::u32),
    wide_kind(17),  // a warp's do not fit one chunk
    am_kind(8, 8),
    am_kind(3, 5),
    am_kind(3, 56),
};
constexpr uint32_t n_kinds = std::size(kinds), n_wide = 3;
/// Ranks on the node that lie in different words of a rank_set.
constexpr uint32_t rank_of(uint32_t pe) { return pe * 45; }
static_assert(rank_of(n_pes - 1) < max_peers && rank_of(n_pes - 1) / 32 != rank_of(1) / 32);
/// All words of a message contain its number, its destination and its kind.
constexpr uint32_t code_of(uint32_t id, uint32_t pe, uint32_t kind) { return id | pe << 16 | kind << 24; }

struct world {
  std::vector<unit> slots[n_pes];
  std::vector<uint64_t> done[n_pes];
  ring_line lines[n_pes]{};
  uint64_t doorbells[n_pes]{};
  peer_link links[n_pes]{};
  device_counters counters{};
  gravel_t g{};
  std::vector<std::set<uint64_t>> arrived{n_pes};  ///< by the PE for which they were
  std::vector<std::set<uint64_t>> queued{n_pes};
  static constexpr uint32_t slots_of_queue = 2048;  ///< more than there are messages
  std::vector<char> queue_memory;
  queue_state tickets{};
  uint64_t next[n_pes]{};
  uint64_t passed_on = 0, chunks_seen = 0, empty = 0;
  deferred_tickets deferred{};
  uint32_t running = senders;

  world() {
    for (uint32_t pe = 0; pe < n_pes; ++pe) {
      slots[pe].resize(chunks * peer_ring::chunk_bytes(chunk_units) / sizeof(unit) + 4);
      done[pe].resize(chunks);
      char* const at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(slots[pe].data()) + 63) / 64 * 64);
      links[pe] = {nullptr,     {at, done[pe].data(), chunks, chunk_units}, &lines[pe],    pe,
                   rank_of(pe), pe == me ? peer_link::no_bin : pe,          &doorbells[pe]};
    }
    g.my_pe = me;
    g.n_pes = n_pes;
    g.counters = &counters;
    g.peers = links;
    const queue_shape shape = queue_shape::of_warps(slots_of_queue, 1);
    queue_memory.resize(shape.bytes() + alignof(queue_control));
    char* const at = queue_memory.data();
    g.direct = queue::in(at + -reinterpret_cast<uintptr_t>(at) % alignof(queue_control), &tickets, shape);
  }

  void take_row(const message_row& row, const uint32_t* m, std::vector<std::set<uint64_t>>& where) {
    const uint32_t pe = pe_of_sink(row.sink);
    for (uint32_t i = 0; i < row.messages; ++i, m += row.kind.words) {
      const uint32_t id = m[0] & 0xffff, kind = m[0] >> 24;
      if (kind >= n_kinds || kinds[kind] != row.kind || m[0] != code_of(id, pe, kind))
        throw std::runtime_error("a message of another destination or kind");
      for (uint32_t w = 0; w < row.kind.words; ++w)
        if (m[w] != m[0]) throw std::runtime_error("a message that is not whole");
      if (!where[pe].insert(id).second) throw std::runtime_error("a message arrived twice");
    }
  }
  /// The messages that took the queue.
  void read_queue() {
    for (uint64_t ticket = 0; ticket < tickets.tickets; ++ticket) {
      slot_header* const slot = g.direct.slot(ticket);
      if (!ring<>::arrived(&slot->published, ticket)) throw std::runtime_error("a slot that nobody published");
      const unit* at = g.direct.payload(slot);
      for (uint32_t r = 0; r < slot->n_rows; ++r) {
        const message_row& row = g.direct.rows(slot)[r];
        take_row(row, words_at(at), queued);
        at += row.units();
      }
    }
  }

  /// Takes the next chunk of a ring, if it is there. As resolver_rings.cuh.
  bool serve(uint32_t ring) {
    const peer_ring& r = links[ring].ring;
    if (!r.arrived(next[ring])) return false;
    chunk_header* const c = r.chunk(next[ring]);
    const message_row& row = c->row;
    const uint32_t pe = pe_of_sink(row.sink);
    if (!peer_ring::may_hold(row, chunk_units) || row.sink != sink_of(pe, sink_kind::device) || pe >= n_pes ||
        (ring != me && pe != ring))
      throw std::runtime_error("a corrupt chunk");
    passed_on += pe != ring;
    ++chunks_seen;
    empty += row.messages == 0;
    take_row(row, words_at(peer_ring::payload(c)), arrived);
    r.mark_done(next[ring]++);
    return true;
  }
};

template <uint32_t KIND>
void send(world&, outbox& box, uint32_t pe, uint32_t id) {
  constexpr row_kind kind = kinds[KIND];
  const uint32_t code = code_of(id, pe, KIND);
  if constexpr (kind.is_wide()) {
    unit message[kind.units()];
    for (unit& u : message) u = {{code | uint64_t{code} << 32, code | uint64_t{code} << 32}};
    box.add(active_with(kind), pe, kind, message);
  } else {
    uint32_t message[kind.words];
    for (uint32_t& word : message) word = code;
    box.add(active_with(kind), pe, kind, message);
  }
}
template <uint32_t... KINDS>
void send_one_of(std::integer_sequence<uint32_t, KINDS...>, world& w, outbox& box, uint32_t kind, uint32_t pe,
                 uint32_t id) {
  ((kind == KINDS ? send<KINDS>(w, box, pe, id) : void()), ...);
}

/// Warp 0 runs handlers; a lane of warp 1 is the resolvers of all PEs. Half of the messages are of one kind, the others
/// of the first `n_drawn`.
void kernel(world& w, uint64_t seed, uint32_t slowness, uint32_t n_drawn) {
  __shared__ outbox box;
  if (threadIdx.x < senders) box.begin(w.g, &w.deferred, threadIdx.x);
  __syncthreads();
  if (threadIdx.x == senders) {
    random_numbers draw(seed);
    for (relax wait; load_relaxed(&w.running) != 0; wait())
      if (draw.below(slowness) == 0) w.serve(draw.below(n_pes));
    return;
  }
  random_numbers draw(seed * 64 + threadIdx.x);
  const uint32_t mine = draw.below(rounds);
  for (uint32_t i = 0; i < mine; ++i) {
    if (draw.below(3) == 0) continue;
    const uint32_t pe = draw.below(n_pes);
    const uint32_t id = threadIdx.x * rounds + i, kind = draw.below(2 * n_drawn);
    send_one_of(std::make_integer_sequence<uint32_t, n_kinds>(), w, box, kind < n_drawn ? kind : 0, pe, id);
  }
  __syncwarp();
  box.flush(threadIdx.x);
  box.end(threadIdx.x);
  fetch_add<scope::system>(&w.running, ~0u);
}

/// A warp of which one lane has a handler to run.
template <class F>
void one_handler(world& w, F handler) {
  simt::launch(1, 32, {}, [&] {
    __shared__ outbox box;
    box.begin(w.g, &w.deferred, threadIdx.x);
    __syncwarp();
    if (threadIdx.x == 0) handler(box);
    __syncwarp();
    box.flush(threadIdx.x);
    box.end(threadIdx.x);
  });
}

/// The next resolver kernel: it finds the tickets that the last one deferred. True if a ticket is still deferred.
bool run_again(world& w) {
  bool deferred = false;
  simt::launch(1, 32, {}, [&] {
    __shared__ outbox box;
    box.begin(w.g, &w.deferred, threadIdx.x);
    __syncwarp();
    box.flush(threadIdx.x);
    deferred |= box.end(threadIdx.x);
  });
  return deferred;
}

/// Serves the rings until all tickets are published and applied.
void settle(world& w) {
  for (bool more = true; more;) {
    more = run_again(w);  // the tickets that it retires are there to be served
    for (uint32_t ring = 0; ring < n_pes; ++ring)
      while (w.serve(ring)) more = true;
  }
}

std::vector<std::set<uint64_t>> sent_by_all(uint64_t seed, uint32_t n_drawn) {
  std::vector<std::set<uint64_t>> sent(n_pes);
  for (uint32_t lane = 0; lane < senders; ++lane) {
    random_numbers draw(seed * 64 + lane);
    const uint32_t mine = draw.below(rounds);
    for (uint32_t i = 0; i < mine; ++i) {
      if (draw.below(3) == 0) continue;
      const uint32_t pe = draw.below(n_pes);
      sent[pe].insert(uint64_t{lane} * rounds + i);
      draw.below(2 * n_drawn);
    }
  }
  return sent;
}

}  // namespace

TEST_CASE("what handlers send arrives once, or is in the queue") {
  uint64_t queued = 0, passed_on = 0, empty = 0;
  for (uint32_t slowness : {2, 50, 100000})
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const uint32_t n_drawn = seed % 2 ? n_wide : n_kinds;
      INFO("seed " << seed << ", slowness " << slowness);
      world w;
      simt::launch_options options{};
      options.seed = seed;
      simt::launch(1, senders + 1, options, [&] { kernel(w, seed, slowness, n_drawn); });
      settle(w);
      w.read_queue();
      const auto sent = sent_by_all(seed, n_drawn);
      uint64_t counted = 0;
      for (uint32_t pe = 0; pe < n_pes; ++pe) {
        std::set<uint64_t> all = w.arrived[pe];
        all.insert(w.queued[pe].begin(), w.queued[pe].end());
        REQUIRE(all == sent[pe]);
        REQUIRE(all.size() == w.arrived[pe].size() + w.queued[pe].size());
        counted += w.arrived[pe].size();
        queued += w.queued[pe].size();
        REQUIRE(w.lines[pe].tickets == w.next[pe]);  // all that was claimed was published
        empty += w.empty;
      }
      CHECK(w.counters.in_place() + w.counters.to_peers() == counted);
      passed_on += w.passed_on;
    }
  CHECK(queued != 0);
  CHECK(passed_on != 0);
  CHECK(empty != 0);
}

TEST_CASE("messages that lanes send one after the other share chunks") {
  world w;
  simt::launch(1, senders + 1, {}, [&] { kernel(w, 7, 2, n_wide); });
  settle(w);
  uint64_t messages = 0;
  for (const auto& some : w.arrived) messages += some.size();
  CHECK(messages > 100);
  CHECK(w.chunks_seen * 6 < messages);
}

TEST_CASE("a chunk stays open for each destination and kind; kinds that share a place close each other's") {
  constexpr uint32_t inc = 3, add = 4, put32 = 5, add32 = 6, each = 10;
  const auto rows_after = [](auto sends) {
    world w;
    one_handler(w, [&](outbox& box) {
      for (uint32_t i = 0; i < each; ++i) {
        sends(w, box, 2 * i);
        for (uint32_t ring = 0; ring < n_pes; ++ring)  // so that there is room whatever is published
          while (w.serve(ring)) {
          }
      }
    });
    settle(w);
    uint64_t messages = 0;
    for (uint32_t pe = 0; pe < n_pes; ++pe) {
      messages += w.arrived[pe].size();
    }
    CHECK(messages == 2 * each);
    return w.chunks_seen;
  };
  CHECK(rows_after([](world& w, outbox& box, uint32_t id) {
          send<inc>(w, box, 0, id);
          send<inc>(w, box, 2, id + 1);
        }) == 2);
  CHECK(rows_after([](world& w, outbox& box, uint32_t id) {
          send<inc>(w, box, 0, id);
          send<add>(w, box, 0, id + 1);
        }) == 2);
  CHECK(rows_after([](world& w, outbox& box, uint32_t id) {
          send<inc>(w, box, 0, id);
          send<inc>(w, box, 0, id + 1);
        }) == 1);
  CHECK(rows_after([](world& w, outbox& box, uint32_t id) {
          send<put32>(w, box, 0, id);
          send<add32>(w, box, 0, id + 1);
        }) == 2 * each);
}

TEST_CASE("a chunk takes as many messages as its words hold") {
  world w;
  constexpr uint32_t largest = n_kinds - 1, most = chunk_units * row_kind::words_of_unit / kinds[largest].words;
  static_assert(most * kinds[largest].words % row_kind::words_of_unit != 0);  // the last unit is not full
  one_handler(w, [&](outbox& box) {
    for (uint32_t i = 0; i <= most; ++i) send<largest>(w, box, 0, i);
  });
  const peer_ring& ring = w.links[0].ring;
  REQUIRE(ring.arrived(1));
  CHECK(ring.chunk(0)->row.messages == most);
  CHECK(ring.chunk(0)->row.units() == chunk_units);
  CHECK(ring.chunk(1)->row.messages == 1);
  settle(w);
  CHECK(w.arrived[0].size() == most + 1);
}

TEST_CASE("a ticket whose chunk is not free is deferred, used next, and published empty if it is not used") {
  world w;
  const peer_link& link = w.links[0];
  simt::launch(1, 1, {}, [&] {
    __shared__ outbox box;
    box.begin(w.g, &w.deferred, 0);
    uint64_t ticket = 99;
    for (uint64_t i = 0; i < chunks; ++i) {
      REQUIRE(box.claim(link, &ticket));
      REQUIRE(ticket == i);
      link.ring.publish(ticket, {wide_kind(1), sink_of(0, sink_kind::device), 1});
    }
    CHECK_FALSE(box.claim(link, &ticket));
    CHECK_FALSE(box.claim(link, &ticket));
    CHECK(w.lines[0].tickets == chunks + 1);  // one debt, however often it is asked for
    link.ring.mark_done(1);
    CHECK_FALSE(box.claim(link, &ticket));  // the next one is chunk 0
    link.ring.mark_done(0);
    CHECK(box.claim(link, &ticket));
    CHECK(ticket == chunks);
    link.ring.publish(ticket, {wide_kind(1), sink_of(0, sink_kind::device), 1});
    CHECK(box.claim(link, &ticket));
    link.ring.publish(ticket, {wide_kind(1), sink_of(0, sink_kind::device), 1});
    CHECK_FALSE(box.claim(link, &ticket));
    CHECK(box.end(0));
  });
  const uint64_t doorbells = w.doorbells[0];
  CHECK(run_again(w));
  CHECK(w.doorbells[0] != doorbells);  // the party that has to free the chunk is woken
  link.ring.mark_done(2);
  CHECK_FALSE(run_again(w));
  CHECK(link.ring.arrived(chunks + 2));
  CHECK(link.ring.chunk(chunks + 2)->row.messages == 0);
}

TEST_CASE("a handler that sends for long to other PEs keeps no ring from going on") {
  world w;
  const uint32_t before = chunks - 1;
  simt::launch(1, 1, {}, [&] {
    __shared__ outbox box;
    box.begin(w.g, &w.deferred, 0);
    uint64_t ticket = 0;
    for (uint32_t i = 0; i < before; ++i) {  // all chunks of the ring to PE 2 but one are in use
      REQUIRE(box.claim(w.links[2], &ticket));
      w.links[2].ring.publish(ticket, {wide_kind(1), sink_of(2, sink_kind::device), 1});
    }
    send<0>(w, box, 2, 0);  // opens the last one
    send<0>(w, box, 0, 1);
    CHECK_FALSE(box.claim(w.links[2], &ticket));  // deferred
    w.links[2].ring.mark_done(0);
    // All of one kind, so that nothing else closes the chunk of PE 2.
    for (uint64_t i = 0; i < 2 * outbox::adds_of_a_turn + 2; ++i) {
      send<0>(w, box, me, 2 + i);
      while (w.serve(me)) {
      }
    }
    CHECK(w.links[2].ring.arrived(before));
    CHECK(w.links[2].ring.arrived(chunks));  // what was deferred, empty
    CHECK(w.links[2].ring.chunk(chunks)->row.messages == 0);
    CHECK(w.links[0].ring.arrived(0));
    CHECK_FALSE(box.end(0));
  });
}
