#include "host/aggregator/placement.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <memory>
#include <thread>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

#if defined(__SANITIZE_ADDRESS__)
/// hwloc's plugins keep some memory when they are unloaded.
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

namespace {

cpu_set cpus(const char* text) { return cpu_set::parse(text); }

/// Two sockets of 8 processors; GPUs 0 and 1 near the first, 2 near the second.
machine_places two_sockets(std::vector<std::vector<uint32_t>> near) {
  return {cpus("0-15"), {cpus("0-7"), cpus("8-15")}, std::move(near)};
}

class topology {
 public:
  template <class Set>
  explicit topology(Set source) {
    REQUIRE(hwloc_topology_init(&raw_) == 0);
    REQUIRE(hwloc_topology_set_type_filter(raw_, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0);
    REQUIRE(source(raw_) == 0);
    REQUIRE(hwloc_topology_load(raw_) == 0);
  }
  ~topology() { hwloc_topology_destroy(raw_); }
  topology(const topology&) = delete;
  operator hwloc_topology_t() const { return raw_; }

 private:
  hwloc_topology_t raw_ = nullptr;
};

std::string sets(unsigned cpus, unsigned nodes) {
  return fmt::format(R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="{1:#x}" complete_nodeset="{1:#x}")", cpus,
                     nodes);
}

std::string gpu(const char* bus_id, unsigned number) {
  return fmt::format(
      R"(<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[{1:02x}-{1:02x}]" gp_index="{0}">)"
      R"(<object type="PCIDev" gp_index="{2}" pci_busid="{3}" pci_type="0302 [10de:2335] [10de:18be] a1"/>)"
      "</object>",
      100 + 2 * number, std::stoul(std::string(bus_id).substr(5, 2), nullptr, 16), 101 + 2 * number, bus_id);
}

/// As hwloc writes it: two sockets of two processors, a GPU at each, and one of which only the machine is known.
std::string machine_with_gpus() {
  std::string xml = R"(<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">)"
                    R"(<object type="Machine" os_index="0" allowed_cpuset="0xf" allowed_nodeset="0x3" gp_index="1" )" +
                    sets(0xf, 3) + ">";
  for (unsigned socket = 0; socket < 2; ++socket) {
    const std::string here = sets(3u << 2 * socket, 1u << socket);
    xml += fmt::format(R"(<object type="Package" os_index="{0}" gp_index="{1}" {2}>)"
                       R"(<object type="NUMANode" os_index="{0}" gp_index="{3}" local_memory="1048576" {2}/>)",
                       socket, 10 + socket, here, 20 + socket);
    for (unsigned cpu = 2 * socket; cpu < 2 * socket + 2; ++cpu)
      xml += fmt::format(R"(<object type="PU" os_index="{}" gp_index="{}" {}/>)", cpu, 30 + cpu,
                         sets(1u << cpu, 1u << socket));
    xml += gpu(socket ? "0000:d8:00.0" : "0000:3b:00.0", socket) + "</object>";
  }
  return xml + gpu("0000:05:00.0", 2) + "</object></topology>";
}

}  // namespace

TEST_CASE("one GPU: all threads run on the processors of its NUMA node") {
  for (uint32_t node : {0u, 1u}) {
    const placement p = place_near_gpus(two_sockets({{node}}), 3);
    CHECK(p.threads == std::vector<cpu_set>(3, cpus(node ? "8-15" : "0-7")));
    CHECK(p.reason == "near the GPUs");
  }
  CHECK(place_near_gpus(two_sockets({{1}, {1}, {1}}), 2).threads == std::vector<cpu_set>(2, cpus("8-15")));
}

TEST_CASE("GPUs on several NUMA nodes: threads take turns") {
  const placement p = place_near_gpus(two_sockets({{0}, {0}, {1}}), 3);
  CHECK(p.threads == std::vector<cpu_set>{cpus("0-7"), cpus("8-15"), cpus("0-7")});
  // A GPU near two of four nodes, as where a socket is split.
  machine_places four{cpus("0-7"), {cpus("0-1"), cpus("2-3"), cpus("4-5"), cpus("6-7")}, {{2, 3}}};
  CHECK(place_near_gpus(four, 2).threads == std::vector<cpu_set>{cpus("4-5"), cpus("6-7")});
}

TEST_CASE("nothing is bound where nothing is known or nothing is nearer") {
  const auto reason = [](const machine_places& m, uint32_t threads = 2) {
    const placement p = place_near_gpus(m, threads);
    CHECK(p.threads.empty());
    return p.reason;
  };
  CHECK(reason({}) == "no PE has a GPU");
  CHECK(reason(two_sockets({})) == "no PE has a GPU");
  CHECK(reason(two_sockets({{}})) == "hwloc does not know a GPU of this node's PEs");
  CHECK(reason(two_sockets({{0}, {}})) == "hwloc does not know a GPU of this node's PEs");
  const std::string everywhere = "no part of the machine is nearer to the GPUs than another";
  CHECK(reason(two_sockets({{0, 1}})) == everywhere);
  CHECK(reason(two_sockets({{1}, {0, 1}})) == everywhere);
  CHECK(reason({cpus("0-7"), {cpus("0-7")}, {{0}}}) == everywhere);
}

TEST_CASE("only processors that may be used count") {
  machine_places m = two_sockets({{0}});
  m.allowed = cpus("4-11");
  CHECK(place_near_gpus(m, 2).threads == std::vector<cpu_set>(2, cpus("4-7")));
  m.allowed = cpus("2-5");  // near as it is
  CHECK(place_near_gpus(m, 2).reason == "all usable processors are near the GPUs");
  m.allowed = cpus("3");  // a launcher's binding
  CHECK(place_near_gpus(m, 4).reason == "all usable processors are near the GPUs");
  m.allowed = cpus("8-15");
  CHECK(place_near_gpus(m, 2).reason == "the processors near the GPUs may not be used");
  CHECK(place_near_gpus(m, 2).threads.empty());
  m.allowed = {};
  CHECK(place_near_gpus(m, 2).threads.empty());
}

TEST_CASE("threads do not share processors for the sake of nearness") {
  machine_places m = two_sockets({{0}});
  m.allowed = cpus("7-15");
  CHECK(place_near_gpus(m, 1).threads == std::vector<cpu_set>{cpus("7")});
  CHECK(place_near_gpus(m, 2).threads.empty());
  CHECK(place_near_gpus(m, 2).reason == "only processors 7 are near the GPUs, for 2 threads");
  // Two nodes, one of them too small for its share: all threads on both.
  machine_places three{cpus("0-23"), {cpus("0-7"), cpus("8-15"), cpus("16-23")}, {{0}, {1}}};
  three.allowed = cpus("7-23");
  CHECK(place_near_gpus(three, 2).threads == std::vector<cpu_set>{cpus("7"), cpus("8-15")});
  CHECK(place_near_gpus(three, 4).threads == std::vector<cpu_set>(4, cpus("7-15")));
  CHECK(place_near_gpus(three, 10).threads.empty());
}

TEST_CASE("hwloc's GPUs and NUMA nodes") {
  const std::string xml = machine_with_gpus();
  const topology machine([&](hwloc_topology_t t) {
    return hwloc_topology_set_xmlbuffer(t, xml.c_str(), static_cast<int>(xml.size()) + 1);
  });
  // As CUDA writes bus ids, in capitals.
  const auto near = [&](std::vector<std::string> ids) { return find_places(machine, ids, cpus("0-3")).near; };
  CHECK(find_places(machine, {}, cpus("0-3")).numa_nodes == std::vector<cpu_set>{cpus("0-1"), cpus("2-3")});
  CHECK(near({"0000:3B:00.0"}) == std::vector<std::vector<uint32_t>>{{0}});
  CHECK(near({"0000:D8:00.0", "0000:3B:00.0"}) == std::vector<std::vector<uint32_t>>{{1}, {0}});
  CHECK(near({"0000:05:00.0"}) == std::vector<std::vector<uint32_t>>{{0, 1}});
  CHECK(near({"0000:77:00.0", "nonsense", ""}) == std::vector<std::vector<uint32_t>>(3));
  const auto place = [&](std::vector<std::string> ids) {
    return place_near_gpus(find_places(machine, ids, cpus("0-3")), 2).threads;
  };
  CHECK(place({"0000:D8:00.0"}) == std::vector<cpu_set>(2, cpus("2-3")));
  CHECK(place({"0000:D8:00.0", "0000:3B:00.0"}) == std::vector<cpu_set>{cpus("0-1"), cpus("2-3")});
  CHECK(place({"0000:D8:00.0", "0000:05:00.0"}).empty());
}

TEST_CASE("hwloc's NUMA nodes: those without processors do not count, those with the same count once") {
  const auto nodes = [](const char* description) {
    return find_places(topology([&](hwloc_topology_t t) { return hwloc_topology_set_synthetic(t, description); }), {},
                       {})
        .numa_nodes;
  };
  CHECK(nodes("pack:2 [numa] core:2 pu:2") == std::vector<cpu_set>{cpus("0-3"), cpus("4-7")});
  CHECK(nodes("[numa] pack:2 core:4 pu:1") == std::vector<cpu_set>{cpus("0-7")});
  CHECK(nodes("pack:2 [numa] [numa] core:2 pu:1") == std::vector<cpu_set>{cpus("0-1"), cpus("2-3")});
}

TEST_CASE("the setting, on this machine") {
  const cpu_set here = binding_of_this_thread();
  REQUIRE_FALSE(here.empty());
  CHECK(place_threads("none", {"0000:3b:00.0"}, 2).threads.empty());
  CHECK(place_threads("auto", {}, 2).reason == "no PE has a GPU");
  CHECK(place_threads("auto", {"0000:ff:1f.7"}, 2).threads.empty());  // hardly a GPU
  const placement one = place_threads(std::to_string(here.last()), {}, 2);
  CHECK(one.threads == std::vector<cpu_set>(2, cpu_set::parse(std::to_string(here.last()))));
  CHECK_THROWS_WITH(place_threads("0,65535", {}, 2), contains_text("GRAVEL_AGGREGATOR_BIND") && contains_text("65535"));
  CHECK_THROWS_WITH(place_threads("3-1", {}, 2),
                    contains_text("GRAVEL_AGGREGATOR_BIND: neither auto nor none, and '3-1' is not a list"));
}

TEST_CASE("a thread is bound, and a refused binding is a text") {
  std::thread([] {
    const cpu_set before = binding_of_this_thread();
    const cpu_set first = cpu_set::parse(std::to_string(before.first()));
    CHECK(bind_this_thread(first).empty());
    CHECK(binding_of_this_thread() == first);
    CHECK_FALSE(bind_this_thread(cpu_set::parse("65535")).empty());
    CHECK_FALSE(bind_this_thread(cpu_set()).empty());
    CHECK(binding_of_this_thread() == first);
  }).join();
}
