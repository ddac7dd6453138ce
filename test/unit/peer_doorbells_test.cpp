// host/aggregator/peer_doorbells.*
#include "host/aggregator/peer_doorbells.hpp"

#include <optional>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

/// Notes what is sent.
struct noted final : remote_link {
  void put(const void*, uint64_t, uint32_t, uint64_t, uint32_t*) override {}
  void put_and_notify(const void*, uint64_t, uint32_t, uint64_t, const plane_header&) override {}
  void send(const plane_header& header, std::span<const std::byte>) override { sent.push_back(header); }
  std::vector<plane_header> sent;
};

/// The aggregator of node 0. Its PEs are 0, 1 and 3; PE 2 is on node 1.
struct one_node {
  topology nodes{{0, 0, 1, 0}, 32};
  std::vector<pe_segment> segments;
  node_setup setup;
  noted link;
  std::optional<peer_doorbells> doorbells;

  one_node() {
    settings s = read_settings([](const char*) { return nullptr; });
    s.packet_size = 4096;
    s.slots = 8;
    s.warp_slots = 16;
    s.aggregator_threads = 1;
    for (uint32_t pe : nodes.pes_of(0)) segments.push_back(pe_segment::create(make_segment_shape(s, nodes, 0), pe));
    setup.nodes = nodes;
    setup.values = s;
    for (auto& segment : segments) setup.local.push_back(&segment);
    doorbells.emplace(setup, std::vector<remote_link*>{nullptr, &link});
  }
  pe_control& control(size_t local) { return *segments[local].control(); }
  uint64_t heard(size_t local) { return control(local).peer_doorbell; }
  /// The PE says who is in its domain.
  void set_domain(size_t local, std::initializer_list<uint32_t> pes) {
    std::copy(pes.begin(), pes.end(), control(local).domain);
    control(local).domain_size = pes.size();
  }
};

}  // namespace

TEST_CASE("what rings is passed on to the one that is called, once") {
  one_node job;
  for (size_t local = 0; local < 3; ++local) job.set_domain(local, {0, 1, 3});
  CHECK_FALSE(job.doorbells->pass_on(0));
  job.control(0).peer_doorbells[2] = 1234;  // the time
  job.control(1).peer_doorbells[2] = 1234;
  CHECK(job.doorbells->pass_on(0));
  CHECK(job.heard(2) == 2);
  CHECK_FALSE(job.doorbells->pass_on(0));
  job.control(2).peer_doorbells[0] = 1;
  CHECK(job.doorbells->pass_on(0));
  CHECK(job.heard(0) == 1);
  CHECK(job.heard(1) == 0);
  CHECK(job.heard(2) == 2);
  CHECK(job.link.sent.empty());
}

TEST_CASE("a PE that has named no domain rings nobody") {
  one_node job;
  job.control(0).peer_doorbells[1] = 5;
  CHECK_FALSE(job.doorbells->pass_on(0));
  job.set_domain(0, {0, 1});
  CHECK(job.doorbells->pass_on(0));
  CHECK(job.heard(1) == 1);
}

TEST_CASE("a doorbell of a PE of another node is a message, and none is lost while messages pause") {
  one_node job;
  job.set_domain(0, {0, 1, 2, 3});
  job.set_domain(2, {0, 1, 2, 3});
  job.control(0).peer_doorbells[2] = 7;
  CHECK(job.doorbells->pass_on(100));
  REQUIRE(job.link.sent.size() == 1);
  CHECK(job.link.sent[0].kind == plane_message::doorbell);
  CHECK(job.link.sent[0].sequence == 2);
  job.control(2).peer_doorbells[2] = 8;
  CHECK_FALSE(job.doorbells->pass_on(100 + peer_doorbells::pause_us - 1));
  CHECK(job.doorbells->pass_on(100 + peer_doorbells::pause_us));
  CHECK(job.link.sent.size() == 2);
  CHECK_FALSE(job.doorbells->pass_on(1000));
  CHECK(job.heard(0) + job.heard(1) + job.heard(2) == 0);
}

TEST_CASE("a doorbell from another node is rung, if the PE is here") {
  one_node job;
  const auto receive = [&](uint64_t pe) { job.doorbells->receive({plane_message::doorbell, 1, 0, 0, pe, 0, 0}); };
  receive(3);
  CHECK(job.heard(2) == 1);
  for (const uint64_t pe : {2ull, 4ull, ~0ull})
    CHECK_THROWS_WITH(receive(pe), contains_text("node 1 rang the doorbell of PE"));
}

TEST_CASE("a PE that names peers that it cannot have is an error") {
  one_node job;
  job.set_domain(1, {0, 4});
  CHECK_FALSE(job.doorbells->pass_on(0));
  job.control(1).peer_doorbells[1] = 1;
  CHECK_THROWS_WITH(job.doorbells->pass_on(0), contains_text("PE 1 says that PE 4 is its peer"));
  job.control(1).domain_size = max_peers + 1;
  CHECK_THROWS_WITH(job.doorbells->pass_on(0), contains_text("PE 1 says that it has 129 peers"));
}
