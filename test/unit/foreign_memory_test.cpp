// Memory that another process can write at any time: a change between its check and its use must do no harm. Each test
// changes the memory where the code reads it again later; the last test does so from another thread, at any moment.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/lone_node.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint32_t slot_units = 32 * max_small_units;

/// A slot of the host queue of PE 0 with `n` additions of 1, to word i of PE `to` for message i.
slot_header* publish_additions(fake_job& job, uint32_t to, uint32_t n) {
  const queue& q = job.pe(0).host_thread.direct;
  const uint64_t ticket = q.claim();
  slot_header* const slot = q.slot(ticket);
  q.rows(slot)[0] = {wide_kind(1), sink_of(to, sink_kind::device), n};
  for (uint32_t i = 0; i < n; ++i)
    q.payload(slot)[i] = {{make_word0(op::add, static_cast<uint8_t>(value_type::u64), i * 8), 1}};
  q.publish(ticket, slot, 1, n);
  return slot;
}

uint64_t sum_of_words(fake_job& job, uint32_t pe) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < slot_units; ++i) sum += job.pe(pe).at<uint64_t>(0)[i];
  return sum;
}

/// Values that must not be followed: rows, messages and sinks that do not exist.
void spoil(message_row& row) { row = {wide_kind(0xffff / 4), 0x7fffffff, 0x7fffffff}; }

}  // namespace

TEST_CASE("a slot that changes while it waits to be taken further is taken as it was checked") {
  const auto job = fake_job::with<>({});
  job->handlers_paused = true;
  // Two packets of 192 units are all that may be in flight: the last slot is taken in part.
  publish_additions(*job, 1, slot_units / 2);
  for (int i = 0; i < 2; ++i) publish_additions(*job, 1, slot_units);
  slot_header* const last = publish_additions(*job, 1, slot_units);
  for (int i = 0; i < 10; ++i) job->step_plane(0, 0);
  REQUIRE(job->stat_of(gravel::detail::stat::slots_taken) == 3);
  REQUIRE(job->stat_of(gravel::detail::stat::messages_taken) == 3 * slot_units);
  last->n_rows = last->n_units = ~0u;
  spoil(job->pe(0).host_thread.direct.rows(last)[0]);
  job->handlers_paused = false;
  job->settle();
  CHECK(job->stat_of(gravel::detail::stat::slots_taken) == 4);
  CHECK(sum_of_words(*job, 1) == 3 * slot_units + slot_units / 2);
}

TEST_CASE("writes of the receiver's process into a packet that is being filled do not move later messages") {
  const auto job = fake_job::with<>({});
  job->clock_step = 0;
  publish_additions(*job, 1, 3);
  job->step_plane(0, 0);
  packet_header* const open = job->pe(1).segment->landing_of(sink_kind::device).packet(0, 0);
  REQUIRE(rows_of(open)->messages == 3);
  for (uint32_t messages : {0x7fffffffu, 0xfffffff0u, 0u}) {
    rows_of(open)->messages = messages;
    std::memset(open, 0xff, sizeof(*open));
    publish_additions(*job, 1, 3);
    job->step_plane(0, 0);
  }
  job->settle();
  CHECK(sum_of_words(*job, 1) == 12);
}

TEST_CASE("a packet that changes between its arrival and its second hop is forwarded as it was checked") {
  for (const char* eager : {"0", "64K"}) {
    INFO("eager size " << eager);
    // A grid of 2 x 2 nodes: from node 0 by node 1 to node 3.
    const auto job = fake_job::with<>(
        {.nodes = 4, .pes_per_node = 1, .settings = {{"GRAVEL_TWO_HOP_NODES", "4"}, {"GRAVEL_EAGER_SIZE", eager}}});
    publish_additions(*job, 3, 5);
    job->pe(0).host_thread.direct.request_flush(1);
    job->step_plane(0, 0);
    REQUIRE(job->deliver(0, 1, 0));
    fake_node& middle = job->node(1);
    char* const slots = reinterpret_cast<char*>(middle.transit.data());
    const uint64_t at = middle.setup.transit_shape(1).slot_at(middle.setup.transit_stream_of(1, 0, 0), 0);
    auto* const packet = reinterpret_cast<packet_header*>(slots + at + sizeof(landing_header));
    REQUIRE(packet->n_messages == 5);
    spoil(*rows_of(packet));
    std::memset(packet, 0xff, sizeof(*packet));
    job->settle();
    CHECK(sum_of_words(*job, 3) == 5);
  }
}

TEST_CASE("a receiver applies a packet as it was checked, and each message from memory of its own") {
  const auto job = fake_job::with<>({});
  job->handlers_paused = true;
  publish_additions(*job, 1, 2);
  const uint32_t small = 7;
  const gravel_t& g = job->pe(0).host_thread;
  gravel_put(g, reinterpret_cast<uint32_t*>(g.heap), small, 1);
  job->settle();
  const landing ring = job->pe(1).segment->landing_of(sink_kind::device);
  REQUIRE(ring.arrived(0, 0));
  packet_header* const packet = ring.packet(0, 0);
  REQUIRE(packet->n_rows == 2);
  const auto begin = reinterpret_cast<uintptr_t>(packet), end = begin + ring.packet_size;
  uint32_t messages = 0;
  host_receiver receiver(ring, sink_kind::device, job->pe(1).device_handler);
  receiver.receive([&](const gravel_t&, sink_kind, const unit* message, uint32_t) {
    const auto at = reinterpret_cast<uintptr_t>(message);
    CHECK((at < begin || at >= end));
    ++messages;
    spoil(rows_of(packet)[0]);
    spoil(rows_of(packet)[1]);
    std::memset(packet, 0xff, sizeof(*packet));
    return message_fault::fine;
  });
  CHECK(messages == 2);
  CHECK(job->pe(1).at<uint32_t>(0)[0] == small);
}

TEST_CASE("contributions to a collective, and its results, are checked") {
  const auto job = fake_job::with<>({});
  const auto refused = [&](const char* what, const collective_call& call) {
    job->pe(1).segment->control()->collective_in.call = call;
    store_release(&job->pe(1).segment->control()->collective_in.sequence, uint64_t{1});
    CHECK_THROWS_WITH(job->step_collective(0),
                      contains_text("PE 1 contributed to an unknown collective") && contains_text(what));
  };
  refused("kind 4711", {1, static_cast<collective_kind>(4711), 1, {}});
  refused("of PE 9", {1, collective_kind::barrier, 9, {}});
  store_release(&job->pe(1).segment->control()->collective_in.sequence, uint64_t{0});
  job->combine(std::vector<collective_words>(2));
  job->pe(0).segment->control()->collective_out.bytes = 1ull << 40;
  CHECK_THROWS_WITH(job->pe(0).collectives->result_data(), contains_text("1099511627776 bytes"));
}

TEST_CASE("slots that change at any moment are taken as they were read, or refused") {
#if !defined(__SANITIZE_THREAD__)  // which knows that this is a race
  lone_node node;
  const queue& q = node.queue_of(lone_node::pes[0], static_cast<uint32_t>(queue_kind::host));
  std::atomic<bool> stop{false};
  std::jthread other([&] {
    const uint32_t wrong[] = {0xffffffffu, 0x7fffffffu, 0x10000, 33, 0};
    for (uint32_t i = 0; !stop; ++i) {
      slot_header* const slot = q.slot(i);
      volatile uint32_t* const words[] = {&slot->n_rows, &slot->n_units, &q.rows(slot)->sink, &q.rows(slot)->messages};
      volatile uint32_t* const word = words[i / 4 % 4];
      const uint32_t right = *word;
      *word = wrong[i / 16 % 5];
      *word = right;
    }
  });
  uint64_t taken = 0, refused = 0;
  for (uint64_t round = 0; round < of_seeds(20'000); ++round) {
    const uint64_t ticket = q.claim();
    slot_header* const slot = q.slot(ticket);
    q.rows(slot)[0] = {wide_kind(1), sink_of(3, sink_kind::device), 4};
    for (uint32_t i = 0; i < 4; ++i)
      q.payload(slot)[i] = {{make_word0(op::add, static_cast<uint8_t>(value_type::u64), i * 8), 1}};
    q.publish(ticket, slot, 1, 4);
    for (int tries = 0; q.read_consumed() != ticket + 1; ++tries) try {
        if (tries > 1000) q.publish(ticket, slot, 0, 0);  // the other thread may have put an old value back
        node.drain();
        ++taken;
      } catch (const error& e) {
        ++refused;
        if (std::string(e.what()).find("PE 2 handed over a corrupt slot") != 0) FAIL(e.what());
      }
    node.apply();
  }
  stop = true;
  CHECK(taken != 0);
#endif
}
