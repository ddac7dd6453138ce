// Long rows leave a slot by puts, without a copy (host/aggregator/outbound.hpp): that what arrives is what was handed
// over, and that a slot stays as it is until its puts are done.
#include <map>
#include <tuple>
#include <vector>

#include "host/aggregator/plane.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"

using namespace gravel::detail;

namespace {

constexpr row_kind increment = update_kind(op::inc, value_type::u64);

/// Hands slots over as a block does: rows one after the other, each beginning at a unit.
class slot_writer {
 public:
  slot_writer(fake_job& job, uint32_t pe) : q_(job.pe(pe).kernel.block), ticket_(q_.claim()), slot_(q_.slot(ticket_)) {}
  ~slot_writer() { q_.publish(ticket_, slot_, n_rows_, n_units_); }
  uint32_t room() const { return (q_.shape.payload_units - n_units_) * row_kind::words_of_unit; }  ///< words
  bool is_full() const { return n_rows_ == q_.shape.max_rows || room() < 64; }

  /// A row for PE `to`; word_of(message, w) gives its words.
  template <class F>
  void row(uint32_t to, row_kind kind, uint32_t messages, F word_of) {
    uint32_t* const at = words_at(q_.payload(slot_) + n_units_);
    for (uint32_t i = 0; i < messages * kind.words; ++i) at[i] = word_of(i / kind.words, i % kind.words);
    q_.rows(slot_)[n_rows_++] = {kind, sink_of(to, sink_kind::device), messages};
    n_units_ += static_cast<uint32_t>(units_for(kind, messages));
  }
  void increments(uint32_t to, uint32_t word, uint32_t messages) {
    row(to, increment, messages, [&](uint32_t, uint32_t) { return word; });
  }

 private:
  queue q_;
  uint64_t ticket_;
  slot_header* slot_;
  uint32_t n_rows_ = 0, n_units_ = 0;
};

fake_shape two_nodes(const char* zero_copy_size, const char* eager_size = "2K") {
  return {.nodes = 2,
          .pes_per_node = 1,
          .settings = {{"GRAVEL_ZERO_COPY_SIZE", zero_copy_size}, {"GRAVEL_EAGER_SIZE", eager_size}}};
}

/// Slots of PE 0's block queue that the plane has returned.
uint64_t returned_slots(fake_job& job) { return job.pe(0).kernel.block.read_consumed(); }

void expect_word(fake_job& job, uint32_t pe, uint32_t word, uint64_t value) {
  job.settle();
  CHECK(job.pe(pe).at<uint64_t>(0)[word] == value);
  CHECK_FALSE(job.plane_of(0).busy());
}

}  // namespace

TEST_CASE("rows of any kind and length arrive, whether put from their slots or copied") {
  using shape = std::tuple<uint32_t, uint32_t, const char*>;
  for (auto [nodes, pes_per_node, planes] : {shape{2, 2, "1"}, shape{3, 1, "2"}, shape{5, 1, "1"}})
    for (const char* size : {"0", "1", "100", "1K"})
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        INFO(nodes << " nodes, " << planes << " planes, from " << size << " bytes, seed " << seed);
        const auto job = fake_job::with<>({.nodes = nodes,
                                           .pes_per_node = pes_per_node,
                                           .seed = seed,
                                           .settings = {{"GRAVEL_ZERO_COPY_SIZE", size},
                                                        {"GRAVEL_TWO_HOP_NODES", "4"},
                                                        {"GRAVEL_AGGREGATOR_THREADS", planes},
                                                        {"GRAVEL_TIMEOUT_US", seed % 2 ? "125" : "10000000"},
                                                        {"GRAVEL_EAGER_SIZE", seed % 3 ? "2K" : "0"}}});
        const uint32_t n = job->n_pes();
        random_numbers draw(seed);
        std::vector<std::map<uint32_t, uint64_t>> expected(n);
        constexpr row_kind kinds[] = {increment, update_kind(op::add, value_type::u64),
                                      update_kind(op::add, value_type::u32), wide_kind(1)};
        for (uint32_t i = 0; i < 120; ++i) {
          slot_writer slot(*job, draw.below(n));
          const uint32_t most_rows = 1 + draw.below(6);
          for (uint32_t r = 0; r < most_rows && !slot.is_full(); ++r) {
            const row_kind kind = kinds[draw.below(4)];
            const uint32_t to = draw.below(n), most = slot.room() / kind.words;
            const uint32_t messages = 1 + draw.below(draw.below(2) ? most : std::min(most, 20u));
            std::vector<uint32_t> words;
            // Words of 8 bytes from 0 on, of 4 bytes from 4096 on.
            const bool is_short = kind == kinds[2];
            for (uint32_t m = 0; m < messages; ++m) {
              const uint32_t word = draw.below(500), value = draw.below(1000);
              const uint32_t index = is_short ? 1024 + word : word;
              expected[to][is_short ? 4096 + word * 4 : word * 8] += kind == increment ? 1 : value;
              if (kind.is_wide()) {
                const uint64_t first = make_word0(op::add, static_cast<uint8_t>(value_type::u64), word * 8);
                words.insert(words.end(), {static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32), value, 0});
              } else {
                words.push_back(index);
                if (kind.words > 1) words.push_back(value);
                if (kind.words > 2) words.push_back(0);
              }
            }
            slot.row(to, kind, messages, [&](uint32_t m, uint32_t w) { return words[m * kind.words + w]; });
          }
        }
        job->quiet_all();
        for (uint32_t pe = 0; pe < n; ++pe)
          for (const auto& [at, value] : expected[pe])
            REQUIRE((at < 4096 ? *job->pe(pe).at<uint64_t>(at) : *job->pe(pe).at<uint32_t>(at)) == value);
        job->settle();
        for (uint32_t pe = 0; pe < n; ++pe)
          CHECK(job->pe(pe).kernel.block.read_consumed() >= job->pe(pe).kernel.block.state->tickets);
        for (uint32_t node = 0; node < nodes; ++node) CHECK_FALSE(job->plane_of(node).busy());
        CHECK((job->stat_of(gravel::detail::stat::bytes_from_slots) != 0) == (*size != '0'));
      }
}

TEST_CASE("pieces of at least GRAVEL_ZERO_COPY_SIZE are put, all others are copied") {
  for (auto [messages, put] : {std::tuple{255u, 0u}, {256u, 1024u}, {257u, 1028u}}) {
    INFO(messages << " messages of 4 bytes");
    const auto job = fake_job::with<>(two_nodes("1K"));
    slot_writer(*job, 0).increments(1, 3, messages);
    expect_word(*job, 1, 3, messages);
    CHECK(job->stat_of(gravel::detail::stat::bytes_from_slots) == put);
  }
}

TEST_CASE("a short packet with a row that was put goes by puts, too") {
  const auto job = fake_job::with<>(two_nodes("64", "64K"));
  slot_writer(*job, 0).increments(1, 3, 20);
  expect_word(*job, 1, 3, 20);
  CHECK(job->stat_of(gravel::detail::stat::packets_put) == 1);
}

TEST_CASE("rows to PEs of the node, and those of small slots, are copied") {
  const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 2, .settings = {{"GRAVEL_ZERO_COPY_SIZE", "1"}}});
  slot_writer(*job, 0).increments(1, 3, 900);
  CHECK(returned_slots(*job) == 0);
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 1);
  expect_word(*job, 1, 3, 900);
  CHECK(job->stat_of(gravel::detail::stat::bytes_from_slots) == 0);
}

TEST_CASE("a slot is returned when its puts are done, not before, and not only when its packet leaves") {
  const auto job = fake_job::with<>(two_nodes("1K"));
  job->clock_step = 0;
  slot_writer(*job, 0).increments(1, 3, 700);
  job->step_plane(0, 0);
  REQUIRE(job->stat_of(gravel::detail::stat::slots_taken) == 1);
  for (int i = 0; i < 10; ++i) job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 0);
  CHECK_THAT(job->plane_of(0).describe(), contains_text("1 slots taken, 1 of them being sent"));
  REQUIRE(job->deliver(0, 1, 0));
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 1);
  CHECK(job->stat_of(gravel::detail::stat::packets) == 0);
  expect_word(*job, 1, 3, 700);
}

TEST_CASE("a slot that puts have read when they return goes back as soon as it is taken") {
  const auto job = fake_job::with<>(two_nodes("1K"));
  job->clock_step = 0;
  job->node(0).links[0][1]->reads_at_once = true;
  slot_writer(*job, 0).increments(1, 3, 700);
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 1);
  CHECK(job->stat_of(gravel::detail::stat::packets) == 0);
  expect_word(*job, 1, 3, 700);
}

TEST_CASE("slots are returned in order, whichever puts are done first") {
  const auto job = fake_job::with<>(two_nodes("1K"));
  job->clock_step = 0;
  for (int i = 0; i < 3; ++i) slot_writer(*job, 0).increments(1, 3, i == 1 ? 10 : 300);  // the second is copied
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 0);
  fake_link& link = *job->node(0).links[0][1];
  std::map<const void*, fake_link::delivery> puts;
  for (fake_link::delivery d; link.take(job->draw(), d);)
    if (d.puts) puts[d.local] = d;
  REQUIRE(puts.size() == 2);
  link.arrived(puts.rbegin()->second.puts);
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 0);
  link.arrived(puts.begin()->second.puts);
  job->step_plane(0, 0);
  CHECK(returned_slots(*job) == 3);
}

TEST_CASE("a slot of several rows waits for the puts of all, and of both packets that one row fills") {
  const auto job = fake_job::with<>(two_nodes("64"));
  job->clock_step = 0;
  slot_writer(*job, 0).increments(1, 1, 700);  // the first packet has 768 words
  {
    slot_writer slot(*job, 0);
    slot.increments(1, 2, 300);
    slot.increments(0, 1, 5);
    slot.increments(1, 4, 100);
  }
  job->step_plane(0, 0);
  CHECK(job->stat_of(gravel::detail::stat::packets) == 1);
  CHECK(returned_slots(*job) == 0);
  uint64_t seen = 0;
  while (job->deliver(0, 1, 0)) {
    job->step_plane(0, 0);
    REQUIRE(returned_slots(*job) >= seen);
    seen = returned_slots(*job);
  }
  CHECK(seen == 2);
  expect_word(*job, 1, 2, 300);
  expect_word(*job, 1, 4, 100);
  expect_word(*job, 1, 1, 700);
  expect_word(*job, 0, 1, 5);
}

TEST_CASE("a producer that waits for a slot gets it when puts are done") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    fake_shape shape = two_nodes("64");
    shape.seed = seed;
    const auto job = fake_job::with<>(shape);
    for (auto& of_plane : job->node(0).links)
      if (of_plane[1]) of_plane[1]->reads_at_once = seed % 2 == 0;
    // Each slot has other words: one that is written too early shows.
    constexpr uint32_t slots = 60;
    for (uint32_t i = 0; i < slots; ++i) slot_writer(*job, 0).increments(1, i, 100 + i);
    job->quiet(0);
    for (uint32_t i = 0; i < slots; ++i) REQUIRE(job->pe(1).at<uint64_t>(0)[i] == 100 + i);
    CHECK(job->stat_of(gravel::detail::stat::bytes_from_slots) > 0);
  }
}

TEST_CASE("rows for one destination that goes on, however slowly, stay in their slots; others do not wait for it") {
  for (bool alone : {true, false}) {
    INFO((alone ? "alone" : "with others"));
    const auto job = fake_job::with<>({.nodes = 3, .pes_per_node = 1, .settings = {{"GRAVEL_ZERO_COPY_SIZE", "1"}}});
    job->clock_step = 0;
    uint32_t sent = 0;
    const auto hand_over = [&](uint32_t to) {
      if (job->pe(0).kernel.block.state->tickets - returned_slots(*job) < 4)
        slot_writer(*job, 0).increments(to, 3, to == 1 ? ++sent, 900 : 10);
    };
    // PE 1 applies a packet each 100 us, less than GRAVEL_TIMEOUT_US; 900 increments are more than a packet.
    for (int packets = 0; packets < 40; ++packets, job->now += 100) {
      for (int i = 0; i < 20; ++i) {
        hand_over(alone || i % 2 ? 1 : 2);
        job->step_plane(0, 0);
        for (uint32_t to : {1u, 2u}) {
          job->deliver(0, to, 0);
          job->step_plane(to, 0);
          job->deliver(to, 0, 0);
        }
        job->step_receiver(2, sink_kind::device);
      }
      job->step_receiver(1, sink_kind::device);
    }
    // But for what the queue still holds.
    CHECK((job->stat_of(gravel::detail::stat::bytes_from_slots) >= (sent - 4) * uint64_t{3600}) == alone);
    CHECK(job->stat_of(gravel::detail::stat::stalls) > 0);
    expect_word(*job, 1, 3, sent * 900);
  }
}
