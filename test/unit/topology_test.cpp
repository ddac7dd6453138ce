#include "lib/base/topology.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

topology one_pe_per_node(uint32_t nodes, uint64_t two_hop_nodes) {
  std::vector<uint32_t> node_of_pe(nodes);
  std::iota(node_of_pe.begin(), node_of_pe.end(), 0);
  return {node_of_pe, two_hop_nodes};
}
bool has(const std::vector<uint32_t>& v, uint32_t x) { return std::binary_search(v.begin(), v.end(), x); }

}  // namespace

TEST_CASE("with one hop everybody reaches everybody directly") {
  for (uint32_t n = 1; n <= 200; ++n) {
    const topology t = one_pe_per_node(n, 1000);
    REQUIRE_FALSE(t.two_hop());
    bool direct = true;
    for (uint32_t a = 0; a < n; ++a)
      for (uint32_t b = 0; b < n; ++b) direct &= t.next_hop(a, b) == b;
    REQUIRE(direct);
    REQUIRE(t.sources_of(n - 1).size() == n);
    REQUIRE(t.targets_of(0).size() == n);
    REQUIRE(t.transits_of(0).empty());
    REQUIRE(t.transit_sources_of(0).empty());
  }
}

TEST_CASE("with two hops every pair is reached in at most two") {
  for (uint32_t n = 4; n <= 200; ++n) {
    const topology t = one_pe_per_node(n, 4);
    INFO(n << " nodes");
    REQUIRE(t.two_hop());
    bool reached = true, itself = true;
    for (uint32_t a = 0; a < n; ++a) {
      itself &= t.next_hop(a, a) == a;
      for (uint32_t b = 0; b < n; ++b) {
        const uint32_t hop = t.next_hop(a, b);
        reached &= hop < n && t.next_hop(hop, b) == b && (hop != a || a == b);
      }
    }
    REQUIRE(reached);
    REQUIRE(itself);
  }
}

TEST_CASE("sources, targets and intermediate nodes agree with the hops, from both ends") {
  for (uint32_t n = 1; n <= 200; n += n < 60 ? 1 : 7) {
    const topology t = one_pe_per_node(n, 4);
    INFO(n << " nodes");
    std::vector<std::vector<uint32_t>> sources, targets, transits, transit_sources;
    for (uint32_t a = 0; a < n; ++a) {
      sources.push_back(t.sources_of(a));
      targets.push_back(t.targets_of(a));
      transits.push_back(t.transits_of(a));
      transit_sources.push_back(t.transit_sources_of(a));
      for (const auto* list : {&sources[a], &targets[a], &transits[a], &transit_sources[a]})
        REQUIRE(std::is_sorted(list->begin(), list->end()));
      REQUIRE(has(sources[a], a));
      REQUIRE(has(targets[a], a));
      REQUIRE_FALSE(has(transits[a], a));
    }
    bool agree = true;
    for (uint32_t a = 0; a < n; ++a)
      for (uint32_t b = 0; b < n; ++b) {
        const uint32_t hop = t.next_hop(a, b);
        agree &= has(targets[a], b) == (hop == b);
        agree &= has(sources[b], a) == (hop == b);
        if (hop != b) agree &= has(transits[a], hop) && has(transit_sources[hop], a);
        agree &= has(transits[a], b) == has(transit_sources[b], a);
        // An intermediate node hands on to its own targets, so it needs no third hop.
        if (hop != b) agree &= has(targets[hop], b);
      }
    REQUIRE(agree);
  }
}

TEST_CASE("two hops bound the streams of a node by about twice the square root of the nodes") {
  for (uint32_t n = 4; n <= 200; n += n < 60 ? 1 : 7) {
    const topology t = one_pe_per_node(n, 4);
    const auto bound = static_cast<size_t>(2 * std::ceil(std::sqrt(n)));
    INFO(n << " nodes");
    for (uint32_t a = 0; a < n; ++a) {
      INFO("node " << a);
      REQUIRE(t.targets_of(a).size() <= bound);
      REQUIRE(t.sources_of(a).size() <= bound);
      REQUIRE(t.transits_of(a).size() <= bound);
      REQUIRE(t.transit_sources_of(a).size() <= bound);
    }
  }
}

TEST_CASE("PEs of a node") {
  const topology t({0, 0, 1, 0, 1}, 32);
  CHECK(t.n_pes() == 5);
  CHECK(t.n_nodes() == 2);
  CHECK(t.pes_of(0) == std::vector<uint32_t>{0, 1, 3});
  CHECK(t.pes_of(1) == std::vector<uint32_t>{2, 4});
  CHECK(t.node_of(4) == 1);
}

TEST_CASE("invalid topologies") {
  CHECK_THROWS_WITH(topology({}, 32), contains_text("at least one PE"));
  CHECK_THROWS_WITH(topology({0, 2}, 32), contains_text("not dense"));
  CHECK_THROWS_WITH(topology(std::vector<uint32_t>(65536), 32), contains_text("65536 PEs"));
}

TEST_CASE("PEs are split into emulated nodes, numbered by first PE") {
  using v = std::vector<uint32_t>;
  CHECK(assign_nodes({0, 0, 0, 0}, 1) == v{0, 0, 0, 0});
  CHECK(assign_nodes({0, 0, 0, 0}, 2) == v{0, 0, 1, 1});
  CHECK(assign_nodes({0, 0, 0, 0}, 4) == v{0, 1, 2, 3});
  CHECK(assign_nodes({0, 0, 0}, 2) == v{0, 0, 1});
  CHECK_THROWS_WITH(assign_nodes({0, 0}, 3),
                    "GRAVEL_NODES=3: a node needs at least one PE, but a host of this job has only 2");
  CHECK_THROWS_WITH(assign_nodes({0, 0, 1}, 2), contains_text("has only 1"));
  CHECK(assign_nodes({7, 7, 3, 3}, 1) == v{0, 0, 1, 1});
  CHECK(assign_nodes({7, 3, 7, 3}, 1) == v{0, 1, 0, 1});
  CHECK(assign_nodes({7, 3, 7, 3}, 2) == v{0, 1, 2, 3});
}

TEST_CASE("every assignment is dense, and parts differ by at most one PE") {
  for (uint32_t pes = 1; pes <= 40; ++pes)
    for (uint64_t parts = 1; parts <= std::min(12u, pes); ++parts) {
      const auto nodes = assign_nodes(std::vector<uint32_t>(pes, 9), parts);
      const topology t(nodes, 1000);  // throws unless dense
      REQUIRE(t.n_nodes() == parts);
      REQUIRE(std::is_sorted(nodes.begin(), nodes.end()));
      size_t least = pes, most = 0;
      for (uint32_t n = 0; n < t.n_nodes(); ++n) {
        least = std::min(least, t.pes_of(n).size());
        most = std::max(most, t.pes_of(n).size());
      }
      REQUIRE(most - least <= 1);
    }
}
