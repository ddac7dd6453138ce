// host/aggregator/gathering.*: the PEs of a node come to their aggregator, as they should and otherwise. PEs are
// threads here.
#include "host/aggregator/gathering.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <thread>

#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"

using namespace gravel::detail;

namespace {

settings values() {
  settings s = read_settings([](const char*) { return nullptr; });
  s.packet_size = 4096;
  s.slots = 8;
  s.warp_slots = 16;
  s.aggregator_threads = 1;
  s.connect_timeout_s = 20;
  return s;
}

const topology two_nodes({0, 0, 1}, 32);

hello hello_of(uint32_t pe) {
  hello h;
  h.pe = pe;
  h.node = two_nodes.node_of(pe);
  h.shape = make_segment_shape(values(), two_nodes, 0);
  h.bus_id = pe == 1 ? "0000:3B:00.0" : "";
  h.node_of_pe = {0, 0, 1};
  h.handlers = {{7, "visit"}};
  return h;
}

/// The result of gathering two PEs when these PEs have connected, or the error. With `leaves` a PE is gone again.
struct gathered {
  std::optional<local_pes> here;
  std::string error;
};
gathered gather(const std::vector<hello>& coming, bool leaves = false, pid_t parent = getppid(),
                uint64_t timeout_s = 20) {
  gathered result;
  const node_listener listener;
  std::vector<node_socket> sockets;
  std::jthread pes([&] {
    for (const hello& h : coming) try {
        const pe_segment segment = pe_segment::create(h.shape, h.pe);
        sockets.push_back(node_socket::connect(listener.name()));
        sockets.back().send(h, segment.descriptor());
      } catch (const error&) {
        // The aggregator has given up already.
      }
    if (leaves) sockets.clear();
  });
  result.error = error_of([&] {
    settings s = values();
    s.connect_timeout_s = timeout_s;
    result.here.emplace(gather_pes(listener.descriptor(), {2, 3}, parent, s));
  });
  pes.join();
  return result;
}

}  // namespace

TEST_CASE("PEs that come in any order are there in the order of PEs") {
  const gathered g = gather({hello_of(1), hello_of(0)});
  REQUIRE(g.error == "no error");
  CHECK(g.here->node == 0);
  CHECK(g.here->nodes.n_pes() == 3);
  CHECK(g.here->pes == std::vector<uint32_t>{0, 1});
  CHECK(g.here->processes == std::vector<pid_t>{getpid(), getpid()});
  CHECK(g.here->bus_ids == std::vector<std::string>{"0000:3B:00.0"});
  CHECK(g.here->segments.size() == 2);
  CHECK(g.here->sockets.size() == 2);
  CHECK(g.here->name_of_handler(7) == "visit");
  CHECK(g.here->name_of_handler(8).empty());
}

TEST_CASE("PEs that do not fit together are refused") {
  CHECK(gather({hello_of(0), hello_of(0)}).error == "PE 0 connected twice");
  CHECK(gather({hello_of(0), hello_of(2)}).error == "PE 2 of node 1 connected to the aggregator of node 0");
  hello other = hello_of(1);
  other.shape.slots = 16;
  CHECK(gather({hello_of(0), other}).error == "PE 1 has other GRAVEL_* settings than its aggregator: slots differs");
}

TEST_CASE("a PE that lies about the job or its segment is refused before any memory is taken for it, with the field") {
  const auto refusal = [](auto change, const hello* first = nullptr) {
    hello h = hello_of(1);
    change(h);
    return error_of([&] { check_hello(from_wire<hello>(to_wire(h), "process 4"), first, {2, 3}, values()); });
  };
  CHECK(refusal([](hello&) {}) == "no error");
  const std::pair<const char*, std::function<void(segment_shape&)>> shapes[] = {
      {"packet_size", [](auto& s) { s.packet_size = ~0ull; }},
      {"packets", [](auto& s) { s.packets = 0; }},
      {"streams", [](auto& s) { s.streams = 1 << 31; }},
      {"n_planes", [](auto& s) { s.n_planes = 0; }},
      {"n_pes", [](auto& s) { s.n_pes = ~0u; }},
      {"slot_size", [](auto& s) { s.slot_size = 1; }},
      {"slots", [](auto& s) { s.slots = 0; }},
      {"warp_slots", [](auto& s) { s.warp_slots = 3; }},
      {"spare", [](auto& s) { s.spare = 1; }}};
  for (const auto& [name, lie] : shapes)
    CHECK(refusal([&](hello& h) { lie(h.shape); }) ==
          fmt::format("PE 1 has other GRAVEL_* settings than its aggregator: {} differs", name));
  CHECK(refusal([](hello& h) { h.node_of_pe.assign(60'000, 0); }) ==
        "PE 1 says that its job has 60000 PEs, 60000 of them on node 0; there are 3 and 2");
  CHECK(refusal([](hello& h) {
          h.node_of_pe = {0, 0, 0};
        }) == "PE 1 says that its job has 3 PEs, 3 of them on node 0; there are 3 and 2");
  hello first = hello_of(0);
  first.node_of_pe = {0, 1, 0};
  CHECK(refusal([](hello&) {}, &first) == "PE 1 says that other PEs are on other nodes than PE 0 does");
}

TEST_CASE("one that ends before all have come, a parent that is gone, and a time that is over are errors") {
  CHECK(gather({hello_of(0)}, true).error == "PE 0 ended while the job was starting");
  CHECK_THAT(gather({hello_of(0)}, false, 1 << 30).error,
             contains_text("which started this aggregator, ended while the job was starting"));
  CHECK(gather({hello_of(0)}, false, getppid(), 0).error ==
        "only 0 of 2 PEs connected within 0 s (GRAVEL_CONNECT_TIMEOUT_S)");
}
