// host/aggregator/peer_doorbells.*
#include "host/aggregator/peer_doorbells.hpp"

#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("what rings is passed on to the one that is called, once") {
  settings s = read_settings([](const char*) { return nullptr; });
  s.packet_size = 4096;
  s.slots = 8;
  s.warp_slots = 16;
  s.aggregator_threads = 1;
  const topology nodes({0, 0, 0}, 32);
  std::vector<pe_segment> segments;
  std::vector<pe_segment*> local;
  for (uint32_t pe = 0; pe < 3; ++pe) segments.push_back(pe_segment::create(make_segment_shape(s, nodes, 0), pe));
  for (auto& segment : segments) local.push_back(&segment);
  peer_doorbells doorbells(local);
  const auto heard = [&](size_t pe) { return segments[pe].control()->peer_doorbell; };
  CHECK_FALSE(doorbells.pass_on());
  segments[0].control()->peer_doorbells[2] = 1234;  // the time
  segments[1].control()->peer_doorbells[2] = 1234;
  CHECK(doorbells.pass_on());
  CHECK(heard(2) == 2);
  CHECK_FALSE(doorbells.pass_on());
  segments[2].control()->peer_doorbells[0] = 1;
  CHECK(doorbells.pass_on());
  CHECK(heard(0) == 1);
  CHECK(heard(1) == 0);
  CHECK(heard(2) == 2);
}
