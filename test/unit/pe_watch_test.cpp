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
  pe_watch watch(uint64_t watchdog_s) {
    return pe_watch(here, job, watchdog_s, [this](const std::string& why) { nodes_got = why; });
  }
  bool run(uint64_t watchdog_s = 0) { return watch(watchdog_s).run(); }
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

TEST_CASE("samples are given while the watch runs, and do not put off the search for PEs that are stopped") {
  node n;
  n.here.segments[1].control()->counts[0] = {};
  n.here.segments[0].control()->counts[0].taken = 7;
  n.here.segments[1].messages_taken_by(0)[0] = 5;
  pe_watch watch = n.watch(1);
  size_t samples = 0;
  std::jthread curious([&] {
    while (!n.job.has_stopped_pe()) {
      const auto message = node_socket::connect(watch.name_of_samples()).receive();
      if (!message) break;
      const auto sample = message->as<node_sample>("the aggregator");
      samples += sample.planes.at(0).taken == 7 && sample.pes.at(1).messages_to == std::vector<uint64_t>{5, 0};
    }
    n.job.fail(n.job.stopped_text());
  });
  CHECK_FALSE(watch.run());
  curious.join();
  CHECK(samples > 1);
  CHECK_THAT(n.received(0), contains_text("has not run for 2 s"));
}

TEST_CASE("a sample says in which call a PE waits, and what its kernels have reported") {
  node n;
  pe_control& shared = *n.here.segments[1].control();
  shared.collective_in.call = {4, collective_kind::barrier, 1, {0, 0}};
  shared.collective_in.sequence = 9;
  shared.collective_out.sequence = 8;
  shared.report.long_wait = {awaited::collective, comparison::ge, 3, 0};
  shared.report.long_wait_us = now_us();
  shared.report.long_wait_writes = 2;
  const pe_sample waits = sample_of(n.here, 60).pes.at(1);
  CHECK(waits.call == 4);
  CHECK(waits.call_text == "gravel_barrier_all");
  CHECK_THAT(waits.long_wait, contains_text("PE 0 to call a collective of kernels"));
  shared.report.long_wait_writes = 3;  // it is being written
  shared.collective_out.sequence = 9;
  const pe_sample goes_on = sample_of(n.here, 60).pes.at(1);
  CHECK(goes_on.long_wait.empty());
  CHECK(goes_on.call_text.empty());
  shared.collective_in.sequence = 10;
  shared.collective_in.call.kind = collective_kind::count;  // no PE of this program writes that
  CHECK(sample_of(n.here, 60).pes.at(1).call_text.empty());
}
