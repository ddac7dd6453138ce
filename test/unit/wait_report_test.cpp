// lib/base/wait_report.hpp, host/pe/wait_reports.hpp: how a long wait of a lane comes to the monitor, and how
// often it is reported. Ten planted faults are in test/models/wait_report.pml.
#include "lib/base/wait_report.hpp"

#include <vector>

#include "device/cpu/simt_cpu.hpp"
#include "host/pe/wait_reports.hpp"
#include "lib/base/message.hpp"
#include "test/support/catch.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {
constexpr uint64_t second = 1'000'000'000;

struct waiting_pe {
  wait_report report{};
  lane_waits lanes{10 * second, 0, 0, &report};
  wait_reports monitor{report, 10 * second};

  /// A lane that has waited since second 1 looks in second `now`.
  void wait(uint64_t now, const wait_subject& s, uint32_t thread = 0) {
    const uint32_t since = note_lane_wait(lanes, second, 0, s, {});
    CHECK(note_lane_wait(lanes, now * second, since, s, {{1, 0, 2}, {thread, 0, 0}}) == since);
  }
};

wait_subject word(uint64_t offset) {
  return {.what = awaited::word,
          .compare = comparison::lt,
          .type = uint8_t(value_type::i32),
          .offset = offset,
          .wanted = 7,
          .found = 0xffffffff};
}
}  // namespace

TEST_CASE("a wait is reported when its time has passed, then each time that it has doubled") {
  waiting_pe pe;
  for (uint64_t now = 1; now < 11; ++now) {
    pe.wait(now, word(64));
    CHECK_FALSE(pe.monitor.poll());
  }
  std::vector<uint64_t> reported;
  for (uint64_t now = 12; now < 100; ++now) {
    pe.wait(now, word(64), 5);
    const auto text = pe.monitor.poll();
    if (!text) continue;
    reported.push_back(now);
    CHECK_THAT(
        *text,
        contains_text("for the word at offset 0x40 of the symmetric heap to be < 7 (gravel_wait_until or gravel_wait); "
                      "it is -1; block (1,0,2), thread (5,0,0). It goes on waiting"));
  }
  CHECK(reported.size() == 4);
  CHECK(reported.front() == 12);
}

TEST_CASE("without a patience nothing is reported") {
  waiting_pe pe;
  pe.lanes.patience_ns = 0;
  pe.wait(1'000'000, word(64));
  CHECK_FALSE(pe.monitor.poll());
}

TEST_CASE(
    "waits for different words are reported, but not all of thousands; a new one is reported after they have ended") {
  waiting_pe pe;
  size_t reported = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    pe.wait(20, word(8 * i));
    reported += pe.monitor.poll().has_value();
  }
  CHECK(reported == 8);
  pe.wait(20, word(2048));
  CHECK_FALSE(pe.monitor.poll());
  for (int i = 0; i < 2 * heartbeat_polls + 1; ++i) CHECK_FALSE(pe.monitor.poll());
  pe.wait(20, word(2048));
  CHECK(pe.monitor.poll());
}

TEST_CASE("every text says what it can, and a damaged report does no harm") {
  for (int what = 0; what <= static_cast<int>(awaited::count); ++what) {
    wait_subject s{.what = static_cast<awaited>(what), .pe = 3, .wanted = 4, .found = 5};
    CHECK_FALSE(text_of(s).empty());
    CHECK(text_of(s).find('{') == std::string::npos);
  }
  wait_subject s = word(0);
  s.compare = static_cast<comparison>(200);
  CHECK(text_of(s) == "something: its report is damaged");
  s = word(0);
  s.type = uint8_t(value_type::f32);
  s.wanted = 0x3f800000;
  CHECK_THAT(text_of(s), contains_text("to be < 1 "));
}

TEST_CASE("lanes that report at once do not mix their reports, also where the tickets wrap") {
  const uint64_t first = GENERATE(uint64_t{0}, ~uint64_t{0} - 3);
  for (uint64_t seed = 1; seed <= of_seeds(200); ++seed) {
    waiting_pe pe;
    pe.lanes.claimed = pe.report.published = pe.report.read = first;
    constexpr uint32_t lanes = 64, rounds = 20;
    uint64_t read = 0;
    simt::launch_options options;
    options.threads = 1;
    options.seed = seed;
    simt::launch(1, lanes + 32, options, [&] {
      const uint32_t me = threadIdx.x;
      if (me < lanes) {
        for (uint32_t i = 0; i < rounds; ++i) {
          note_lane_wait(pe.lanes, 20 * second, 1, {.what = awaited::packet, .pe = me, .wanted = me, .found = me},
                         {{me, me, me}, {me, me, me}});
          relax wait;
          wait();
        }
      } else if (me == lanes) {
        relax wait;
        for (uint32_t i = 0; i < 4 * rounds; ++i, wait()) {
          if (!ring<>::arrived(&pe.report.published, pe.report.read)) continue;
          const wait_report& r = pe.report;
          const uint32_t who = r.subject.pe;
          interleave_point();
          for (uint64_t word :
               {r.subject.wanted, r.subject.found, uint64_t{r.place.block[0]}, uint64_t{r.place.thread[2]}})
            CHECK(word == who);
          ring<>::mark_done(&pe.report.read, pe.report.read + 1);
          ++read;
        }
      }
    });
    CHECK(read > 0);
    CHECK(pe.lanes.claimed - first - read <= 1);
    CHECK(pe.report.published == pe.lanes.claimed);
  }
}
