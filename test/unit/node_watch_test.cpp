// A ring of nodes that hear each other's pulses, until one does not.
#include "host/aggregator/node_watch.hpp"

#include "test/support/catch.hpp"
#include "test/support/fake_link.hpp"

using namespace gravel::detail;

namespace {

/// Node `node` of `n`, with a link to each other node, and a clock.
struct watched_node {
  watched_node(uint32_t n, uint32_t node, uint64_t watchdog_s) {
    std::vector<uint32_t> node_of_pe;
    for (uint32_t i = 0; i < n; ++i) node_of_pe.push_back(i);
    setup.nodes = topology(node_of_pe, 32);
    setup.node = node;
    setup.values.watchdog_s = watchdog_s;
    for (uint32_t i = 0; i < n; ++i) links.push_back(i == node ? nullptr : std::make_unique<fake_link>(3));
    std::vector<remote_link*> pointers;
    for (auto& link : links) pointers.push_back(link.get());
    watch = std::make_unique<node_watch>(setup, pointers);
  }
  /// A twentieth of the watchdog's time goes by.
  void poll() {
    for (int i = 0; i < 4; ++i) watch->step(now += setup.values.watchdog_s * 1'000'000 / 80);
  }
  uint64_t pulses_to(uint32_t other) {
    random_numbers draw(1);
    uint64_t n = 0;
    for (fake_link::delivery d; links[other]->take(draw, d); ++n) REQUIRE(d.header.kind == plane_message::pulse);
    return n;
  }
  node_setup setup;
  std::vector<std::unique_ptr<fake_link>> links;
  std::unique_ptr<node_watch> watch;
  uint64_t now = 0;
};

plane_header pulse_of(uint32_t node) { return {plane_message::pulse, node, 0, 0, 0, 0, 0}; }

}  // namespace

TEST_CASE("a node sends one pulse a poll, to the next node, and is content while the one before does") {
  watched_node node(3, 0, 2);
  for (int i = 0; i < 100; ++i) {
    node.poll();
    node.watch->receive(pulse_of(2));
  }
  CHECK(node.pulses_to(1) == 100);
  CHECK(node.pulses_to(2) == 0);
}

TEST_CASE("no pulse for twice the watchdog's time ends the job, one in time does not") {
  watched_node node(2, 1, 3);
  for (int i = 0; i < 39; ++i) node.poll();
  node.watch->receive(pulse_of(0));
  for (int i = 0; i < 40; ++i) node.poll();
  CHECK_THROWS_WITH(node.poll(), contains_text("nothing has come from node 0 for 6 s"));
}

TEST_CASE("pulses of another node are refused") {
  watched_node node(4, 2, 1);
  node.watch->receive(pulse_of(1));
  CHECK_THROWS_WITH(node.watch->receive(pulse_of(3)), contains_text("expected pulses of node 1 only"));
}

TEST_CASE("one node alone, or no watchdog: no pulses") {
  watched_node alone(1, 0, 1);
  watched_node patient(2, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    alone.poll();
    patient.watch->step(patient.now += 1'000'000);
  }
  CHECK(patient.pulses_to(1) == 0);
}
