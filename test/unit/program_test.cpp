// host/pe/program.*: what differs between PEs that cannot be one job.
#include "host/pe/program.hpp"

#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

program_description sample() {
  return {"1.0", "cpu", {1, 2, 3, 4, 5, 6, 7}, {{"visit", 16, false}, {"count", 8, true}}};
}

/// Between a PE that was changed so, and PE 0.
template <class F>
std::string changed(F change) {
  program_description here = sample();
  change(here);
  return difference(here, sample());
}

}  // namespace

TEST_CASE("the same program has no difference") { CHECK(difference(sample(), sample()).empty()); }

TEST_CASE("the first difference is named, with both sides") {
  CHECK(changed([](auto& p) { p.version = "1.1"; }) == "the version of Gravel differs: '1.1' here, '1.0' at PE 0");
  CHECK(changed([](auto& p) { p.backend = "cuda"; }) == "the backend differs: 'cuda' here, 'cpu' at PE 0");
  const char* const names[] = {
      "SYMMETRIC_SIZE", "PACKET_SIZE", "PACKETS_PER_DESTINATION", "AGGREGATOR_THREADS", "TWO_HOP_NODES",
      "REPLY_CELLS",    "NODES"};
  for (size_t i = 0; i < 7; ++i)
    CHECK(changed([&](auto& p) { p.settings[i] = 99; }) ==
          "GRAVEL_" + std::string(names[i]) + " differs: 99 here, " + std::to_string(i + 1) + " at PE 0");
  CHECK(changed([](auto& p) { p.settings.pop_back(); }) == "this PE and PE 0 have different versions of Gravel");
}

TEST_CASE("handlers are compared one by one") {
  CHECK(changed([](auto& p) { p.handlers[1].name = "other"; }) ==
        "handler 1 differs: 'other' here, 'count' at PE 0; all PEs must register the same handlers");
  CHECK(changed([](auto& p) { p.handlers.pop_back(); }) ==
        "handler 1 differs: '(none)' here, 'count' at PE 0; all PEs must register the same handlers");
  CHECK(changed([](auto& p) {
          p.handlers.push_back({"more", 1, false});
        }) == "handler 2 differs: 'more' here, '(none)' at PE 0; all PEs must register the same handlers");
  CHECK(changed([](auto& p) { p.handlers[0].bytes = 8; }) ==
        "handler 'visit' differs: 8 bytes of arguments here, 16 at PE 0");
  CHECK(changed([](auto& p) { p.handlers[0].on_host = true; }) ==
        "handler 'visit' differs: 16 bytes of arguments on the host here, 16 at PE 0");
}
