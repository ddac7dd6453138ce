// The landing ring and its credits under seeded schedules: an outbound, an inbound and a receiver, each a lane of one
// block of the CPU backend, with two packets a stream.
#include "lib/base/landing.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "device/simt.hpp"
#include "host/aggregator/inbound.hpp"
#include "host/aggregator/outbound.hpp"
#include "host/pe/receiver.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_link.hpp"
#include "test/support/rows.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t packet_size = 4096, heap_words = 512;
constexpr uint32_t packets = 2, n_sinks = 4, sink = 2;

/// Landing slots of some streams in plain memory, and the heap that the receiver applies to.
struct ring_memory {
  explicit ring_memory(uint32_t streams)
      : slots(landing_shape{streams, packets, packet_size}.bytes() / 64), done(streams * packets), heap(heap_words) {
    ring = {slots[0].bytes, done.data(), &arrivals, streams, packets, packet_size, sink, n_sinks};
    handle = {};
    handle.my_pe = sink / 2;
    handle.n_pes = n_sinks / 2;
    handle.heap = reinterpret_cast<char*>(heap.data());
    handle.heap_bytes = heap_words * 8;
    handle.from = sender::handler;
  }
  struct alignas(64) line {
    char bytes[64];
  };
  std::vector<line> slots;
  std::vector<uint64_t> done;
  uint64_t arrivals = 0;
  std::vector<uint64_t> heap;
  landing ring;
  gravel_t handle;
};

/// Appends additions of 1 to words first ... first + n, so that each word must be 1 in the end: as a row of indices, or
/// of the wide form.
uint32_t append_words(outbound& out, uint64_t first, uint64_t n, random_numbers& draw) {
  if (draw.below(2)) {
    std::vector<uint32_t> words;
    for (uint64_t i = 0; i < n; ++i) words.push_back(static_cast<uint32_t>(first + i));
    return out.append(sink, update_kind(op::inc, value_type::u64), words.data(), static_cast<uint32_t>(n), 0);
  }
  std::vector<unit> wide;
  for (uint64_t i = 0; i < n; ++i)
    wide.push_back({{make_word0(op::add, static_cast<uint8_t>(value_type::u64), (first + i) * 8), 1}});
  return out.append(sink, wide_kind(1), words_at(wide.data()), static_cast<uint32_t>(n), 0);
}

void send_words(outbound& out, uint64_t first, uint64_t n, random_numbers& draw) {
  for (uint64_t i = 0; i < n;) {
    const uint32_t took = append_words(out, first + i, std::min<uint64_t>(1 + draw.below(8), n - i), draw);
    i += took;
    if (draw.below(3) == 0) out.close(close_cause::age);
    if (out.is_local()) out.poll_done();
    if (took == 0) relax{}();
  }
  out.close(close_cause::flush);
}

/// A receiver that gives the slot back before it has read it all.
struct hasty_receiver {
  landing ring;
  uint64_t next = 0;
  bool receive(std::vector<uint64_t>& heap) {
    if (!ring.arrived(0, next)) return false;
    const packet_header* p = ring.packet(0, next);
    std::vector<message_row> rows(rows_of(p), rows_of(p) + p->n_rows);
    ring.mark_done(0, next++);
    const unit* at = payload_of(p);
    for (const message_row& row : rows) {
      interleave_point();
      each_message(row, at, [&](const unit* message, uint32_t) {
        const uint64_t offset = offset_of(message->word[0]);
        if (offset / 8 < heap.size()) ++heap[offset / 8];
      });
      at += row.units();
    }
    return true;
  }
};

bool run_local(uint64_t seed, uint32_t streams, bool planted) {
  constexpr uint64_t each = 40;
  ring_memory memory(streams);
  stats_row stats;
  spill_budget spill;
  std::vector<std::unique_ptr<outbound>> out;
  for (uint32_t c = 0; c < streams; ++c)
    out.push_back(std::make_unique<outbound>(outbound::common{0, c, packets, packet_size, 0, 0, &spill, &stats},
                                             memory.ring, c, &memory.arrivals));
  host_receiver receiver(memory.ring, sink_kind::device, memory.handle);
  hasty_receiver hasty{memory.ring};
  uint32_t ended = 0;
  simt::launch_options options{};
  options.seed = seed;
  simt::launch(1, streams + 1, options, [&] {
    const uint32_t lane = threadIdx.x;
    if (lane < streams) {
      random_numbers draw(seed * 31 + lane);
      send_words(*out[lane], lane * each, each, draw);
      for (relax wait; out[lane]->busy(); wait()) out[lane]->poll_done();
      ++ended;
    } else {
      for (relax wait; ended != streams; wait())
        if (planted ? hasty.receive(memory.heap) : receiver.receive<handler_list<>>()) wait.reset();
    }
  });
  uint64_t acked = 0;
  for (const auto& o : out) acked += o->acked_messages();
  if (!planted) REQUIRE(acked == streams * each);
  for (uint64_t w = 0; w < heap_words; ++w)
    if (memory.heap[w] != (w < streams * each)) return false;
  return true;
}

/// Two aggregators: a sender with staging memory, the destination's plane, and its receiver.
void run_remote(uint64_t seed, uint64_t eager_size, bool prefers_messages = false) {
  constexpr uint64_t n = 60;
  ring_memory memory(1);
  stats_row stats;
  spill_budget spill;
  fake_link there(packets, prefers_messages), back(packets);
  std::vector<ring_memory::line> staging(packets * packet_size / 64);
  outbound out({0, 0, packets, packet_size, eager_size, 0, &spill, &stats}, sink, there, {0, 0}, staging[0].bytes);
  inbound in(memory.ring, 0, &memory.arrivals, 0, back);
  host_receiver receiver(memory.ring, sink_kind::device, memory.handle);
  bool ended = false;
  simt::launch_options options{};
  options.seed = seed;
  simt::launch(1, 3, options, [&] {
    if (threadIdx.x == 0) {
      random_numbers draw(seed);
      const auto take_credits = [&] {
        for (fake_link::delivery d; back.take(draw, d);) {
          there.credit(d.header);
          out.credit(d.header.a, d.header.b);
        }
      };
      for (uint64_t i = 0; i < n;) {
        i += append_words(out, i, 1, draw);
        if (draw.below(2)) out.close(close_cause::age);
        take_credits();
        relax{}();
      }
      out.close(close_cause::flush);
      for (relax wait; out.busy(); wait()) take_credits();
      ended = true;
    } else if (threadIdx.x == 1) {
      random_numbers draw(seed + 1);
      for (relax wait; !ended; wait()) {
        fake_link::delivery d;
        if (draw.below(2) && there.take(draw, d)) {
          if (d.local) {
            std::memcpy(reinterpret_cast<char*>(memory.slots.data()) + d.offset, d.local, d.bytes);
            in.on_notice(d.header.sequence, d.header.a);
          } else {
            in.on_packet(d.header.sequence, d.data);
          }
        }
        in.report({plane_message::credit, 1, 0, 0, 0, 0, 0});
      }
    } else {
      for (relax wait; !ended; wait()) receiver.receive<handler_list<>>();
    }
  });
  CHECK(out.acked_messages() == n);
  CHECK(in.expected() == out.sequence());
  CHECK(stats[gravel::detail::stat::packets_put] + stats[gravel::detail::stat::packets_eager] == out.sequence());
  if (prefers_messages) CHECK(stats[gravel::detail::stat::packets_put] == 0);
  else if (eager_size == 0) CHECK(stats[gravel::detail::stat::packets_eager] == 0);
  for (uint64_t w = 0; w < heap_words; ++w) REQUIRE(memory.heap[w] == (w < n));
}

}  // namespace

TEST_CASE("slots of streams do not overlap and are aligned") {
  ring_memory memory(3);
  for (uint32_t c = 0; c < 3; ++c)
    for (uint64_t s = 0; s < packets; ++s) {
      CHECK(reinterpret_cast<uintptr_t>(memory.ring.packet(c, s)) % 64 == 0);
      CHECK(memory.ring.slot(c, s) == memory.ring.slot(c, s + packets));
      CHECK(reinterpret_cast<char*>(memory.ring.slot(c, s)) ==
            reinterpret_cast<char*>(memory.slots.data()) + (c * packets + s) * (sizeof(landing_header) + packet_size));
    }
}

TEST_CASE("on one node every message is applied once, under 200 schedules") {
  for (uint32_t streams : {1u, 3u})
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      INFO("streams " << streams << ", seed " << seed);
      REQUIRE(run_local(seed, streams, false));
    }
}

TEST_CASE("some schedule finds a receiver that frees a slot too early") {
  uint64_t finding = 0;
  for (uint64_t seed = 1; seed <= 200 && !finding; ++seed)
    if (!run_local(seed, 1, true)) finding = seed;
  CHECK(finding != 0);
}

TEST_CASE("over a link that prefers messages packets of any size travel in them") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    run_remote(seed, 0, true);
  }
}

TEST_CASE("between nodes every message is applied once, whatever overtakes what, under 200 schedules") {
  // Only puts, only packets inside messages, and both, where a short packet may overtake a put's notice.
  for (uint64_t eager_size : {uint64_t{0}, packet_size, uint64_t{packet_payload_offset + 4 * sizeof(unit)}})
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      INFO("eager size " << eager_size << ", seed " << seed);
      REQUIRE_NOTHROW(run_remote(seed, eager_size));
    }
}
