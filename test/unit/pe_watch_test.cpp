// host/aggregator/pe_watch.*, job_state.*: how a node's aggregator notices the end of its PEs, and whom it notifies.
#include "host/aggregator/pe_watch.hpp"

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

#include "host/node/hello.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

/// A node of two PEs, whose ends of the sockets are here.
struct node {
  local_pes here;
  job_state job;
  std::vector<std::optional<node_socket>> pes;
  std::string nodes_got = "nothing";

  node() {
    settings s = read_settings([](const char*) { return nullptr; });
    s.packet_size = 4096;
    s.slots = 8;
    s.warp_slots = 16;
    s.aggregator_threads = 1;
    here.nodes = topology({0, 0}, 32);
    here.node = 0;
    for (uint32_t pe = 0; pe < 2; ++pe) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      here.pes.push_back(pe);
      here.processes.push_back(100 + static_cast<int>(pe));
      here.sockets.emplace_back(ends[0]);
      here.segments.push_back(pe_segment::create(make_segment_shape(s, here.nodes, 0), pe));
      pes.emplace_back(std::in_place, ends[1]);
    }
  }
  /// The job's last collective is over for all PEs.
  void finish() {
    for (auto& segment : here.segments) {
      segment.control()->collective_in.sequence = segment.control()->collective_out.sequence = 9;
      segment.control()->collective_out.last = 1;
    }
  }
  bool run(uint64_t watchdog_s = 0) {
    return pe_watch(here, job, watchdog_s, [this](const std::string& why) { nodes_got = why; }).run();
  }
  /// The last reason that a PE has received.
  std::string received(size_t pe) {
    pes[pe]->limit_waits(1);
    const auto word = pes[pe]->receive();
    return word && word->kind == wire_kind::abort ? word->as<abort_message>("the aggregator").why : "nothing";
  }
};

}  // namespace

TEST_CASE("PEs that say goodbye after the last collective end the watch well") {
  node n;
  n.finish();
  for (auto& pe : n.pes) pe->send(goodbye_message{});
  CHECK(n.run());
  CHECK(n.nodes_got == "nothing");
}

TEST_CASE("a PE that leaves too early ends the job for all") {
  node n;
  n.pes[1]->send(goodbye_message{});
  CHECK_FALSE(n.run());
  CHECK(n.received(0) == "PE 1 has left the job before its end");
  CHECK(n.nodes_got == "PE 1 has left the job before its end");
}

TEST_CASE("a PE that ends without a word, or with one, ends the job for all") {
  node without;
  without.pes[1].reset();
  CHECK_FALSE(without.run());
  CHECK(without.received(0) == "PE 1 (process 101) ended without gravel_finalize");
  node with;
  with.pes[1]->send(abort_message{"PE 1: it is hot"});
  CHECK_FALSE(with.run());
  CHECK(with.received(0) == "PE 1: it is hot");
  CHECK(with.nodes_got == "PE 1: it is hot");
}

TEST_CASE("a thread that finds that the job cannot continue is reported, the first of them") {
  node n;
  std::jthread planes([&] {
    n.job.fail("a plane's reason");
    n.job.fail("another reason", true);
  });
  CHECK_FALSE(n.run());
  planes.join();
  CHECK(n.received(0) == "a plane's reason");
  CHECK(n.received(1) == "a plane's reason");
  CHECK(n.job.what_failed().text == "a plane's reason");
  CHECK_FALSE(n.job.what_failed().is_from_other_node);
}

TEST_CASE("a PE whose heartbeat stands still is found, and the planes are to say how things stand") {
  node n;
  std::jthread pe_0([&](std::stop_token end) {  // the other one is stopped
    while (!end.stop_requested()) {
      fetch_add_release<scope::system>(&n.here.segments[0].control()->pe_heartbeat, uint64_t{1});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::jthread plane([&] {
    while (!n.job.has_stopped_pe()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    n.job.fail(n.job.stopped_text());
  });
  CHECK_FALSE(n.run(1));
  CHECK(n.received(0) == "PE 1 (process 101) has not run for 2 s (twice GRAVEL_WATCHDOG_S); is it stopped?");
}
