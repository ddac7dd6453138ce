// host/pe/peers.*: which PE maps whose memory, and the counts that quiet and quiescence are built on. PEs are threads
// here (test/support/shared_pes.hpp).
#include "host/pe/peers.hpp"

#include <map>

#include "host/pe/memory_domain.hpp"
#include "test/support/catch.hpp"
#include "test/support/shared_pes.hpp"

using namespace gravel::detail;

TEST_CASE("the PEs of a node map each other, and no other PE") {
  const auto pes = start({0, 0, 1, 0, 1}, {with({})});
  for (uint32_t pe = 0; pe < 5; ++pe) {
    INFO("PE " << pe);
    const peers& routes = *pes[pe]->routes;
    const bool on_node_0 = pe != 2 && pe != 4;
    REQUIRE(routes.links());
    CHECK(routes.n_mapped() == (on_node_0 ? 2 : 1));
    CHECK(routes.n_sources() == (on_node_0 ? 3 : 2));
    for (uint32_t other = 0; other < 5; ++other) {
      const bool together = other != pe && (other != 2 && other != 4) == on_node_0;
      CHECK(routes.links()[other].heap == (together ? reinterpret_cast<char*>(pes[other]->heap) : nullptr));
      CHECK((routes.links()[other].ring.slots != nullptr) == together);
    }
    for (uint32_t bin = 0; bin < routes.n_mapped(); ++bin) CHECK(routes.links()[routes.pes()[bin]].bin == bin);
  }
  // The rank of a PE on its node says which ring of its peers is its own.
  const peer_link& to_3 = pes[1]->routes->links()[3];
  const peer_ring& from_1 = pes[3]->routes->sources()[1];
  CHECK(to_3.ring.slots == from_1.slots);
  CHECK(to_3.ring.done == from_1.done);
  CHECK(to_3.doorbell == &pes[1]->doorbells[2]);
}

TEST_CASE("no two rings share a word") {
  const auto pes = start({0, 0, 0, 0}, {with({})});
  std::map<char*, uint64_t> pieces;
  for (const auto& p : pes)
    for (uint32_t other = 0; other < 4; ++other) {
      const peer_link& link = p->routes->links()[other];
      if (!link.heap) continue;
      pieces[link.ring.slots] = link.ring.chunks * peer_ring::chunk_bytes(link.ring.chunk_units);
      pieces[reinterpret_cast<char*>(link.ring.done)] = link.ring.chunks * sizeof(uint64_t);
      pieces[reinterpret_cast<char*>(link.line)] = 64;
    }
  REQUIRE(pieces.size() == 3 * 12);
  for (auto piece = pieces.begin(), next = std::next(piece); next != pieces.end(); ++piece, ++next)
    CHECK(piece->first + piece->second <= next->first);
}

TEST_CASE("what was pushed counts as applied when the destination says so") {
  const auto pes = start({0, 0, 0}, {with({})});
  peers& source = *pes[0]->routes;
  CHECK(source.applied_below(source.tickets()));
  const peer_link& link = source.links()[2];
  const peer_ring& at_destination = pes[2]->routes->sources()[0];
  for (uint64_t ticket = 0; ticket < 11; ++ticket) {
    REQUIRE(link.ring.is_free(ticket));
    ++link.line->tickets;
    CHECK_FALSE(at_destination.arrived(ticket));
    link.ring.publish(ticket, {wide_kind(1), sink_of(2, sink_kind::device), 1});
    CHECK(at_destination.arrived(ticket));
    CHECK(link.ring.words().first_missing(0, ticket + 1) == ticket);
    const uint64_t doorbell = pes[0]->doorbells[2];
    CHECK_FALSE(source.applied_below(source.tickets()));
    CHECK(pes[0]->doorbells[2] != doorbell);  // wakes the destination
    CHECK(source.read().tickets == ticket + 1);
    CHECK(source.read().applied == ticket);
    CHECK_FALSE(link.ring.is_free(ticket + 4));
    at_destination.mark_done(ticket);
    CHECK(link.ring.is_free(ticket + 4));
    CHECK(link.ring.words().first_missing(0, ticket + 1) == ticket + 1);
    CHECK(source.applied_below(source.tickets()));
  }
  CHECK(source.describe().find("11 chunks pushed to 2 peers, 11 applied") != std::string::npos);
}

TEST_CASE("GRAVEL_ROUTES without peers, a PE alone, and a mapping that fails leave the route net") {
  for (const char* routes : {"net", "no-peer"})
    for (const auto& p : start({0, 0}, {with({{"GRAVEL_ROUTES", routes}})})) {
      CHECK(p->routes->links() == nullptr);
      CHECK(p->routes->n_sources() == 0);
      CHECK(p->routes->applied_below(p->routes->tickets()));
    }
  CHECK(start({0, 1}, {with({})})[0]->routes->links() == nullptr);
  // Nor does anybody push to one that cannot map the others: it could not say what it has applied.
  const auto pes = start({0, 0, 0}, {with({})}, 1);
  CHECK(pes[1]->routes->links() == nullptr);
  CHECK(pes[0]->routes->n_mapped() == 1);
  CHECK(pes[0]->routes->links()[1].heap == nullptr);
  CHECK(pes[0]->routes->links()[2].heap != nullptr);
}

TEST_CASE("GRAVEL_ROUTES=peer insists on the route") {
  const auto fine = start({0, 0, 1}, {with({{"GRAVEL_ROUTES", "peer"}})});
  CHECK(fine[0]->routes->n_mapped() == 1);
  CHECK(fine[2]->routes->n_mapped() == 0);  // alone on its node
  CHECK(start({0, 0}, {with({{"GRAVEL_ROUTES", "peer"}})}, 1)[1]->error ==
        "GRAVEL_ROUTES=peer: PE 0 cannot be reached on that route: no bridge");
  CHECK(
      start({0, 0}, {with({{"GRAVEL_ROUTES", "peer"}}), with({{"GRAVEL_ROUTES", "no-peer"}})})[0]->error ==
      "GRAVEL_ROUTES=peer: PE 1 cannot be reached on that route: memory of one of the two cannot be mapped by others");
  CHECK(start(std::vector<uint32_t>(max_peers + 1), {with({{"GRAVEL_ROUTES", "peer"}})})[5]->error ==
        "GRAVEL_ROUTES=peer: 129 PEs on this node; more than 128 do not use that route");
}

TEST_CASE("a link without atomic operations has rings, and no heap is mapped over it") {
  const peer_access stores_only{true, false, "no NVLink"};
  const auto check = [](const std::vector<std::unique_ptr<shared_pe>>& pes, bool others_map_heaps) {
    for (uint32_t pe = 0; pe < 3; ++pe) {
      INFO("PE " << pe);
      const peers& routes = *pes[pe]->routes;
      CHECK(routes.n_mapped() == 2);
      CHECK(routes.rendezvous().n == 3);  // its words have one writer each
      for (uint32_t other = 0; other < 3; ++other) {
        if (other == pe) continue;
        CHECK((routes.links()[other].heap != nullptr) == (pe != 0 && others_map_heaps));
        CHECK(routes.links()[other].ring.slots == pes[other]->routes->sources()[pe].slots);
      }
    }
    CHECK(pes[0]->device.mapped == 2);
    pes[0]->routes->forget();
    CHECK(pes[0]->device.mapped == 0);
  };
  check(start({0, 0, 0}, {with({})}, ~0u, 64, 0, stores_only), true);
  check(start({0, 0, 0}, {with({{"GRAVEL_ROUTES", "rings"}})}), false);
  CHECK(start({0, 0}, {with({{"GRAVEL_ROUTES", "peer"}})}, ~0u, 64, 0, stores_only)[0]->error ==
        "GRAVEL_ROUTES=peer: PE 1 cannot be reached on that route: no NVLink");
}

TEST_CASE("a link over which nothing can be mapped leaves the route net") {
  const auto pes = start({0, 0, 0}, {with({})}, ~0u, 64, 0, {false, false, "no peer access"});
  CHECK(pes[0]->routes->links() == nullptr);
  CHECK(pes[0]->device.mapped == 0);
  CHECK(pes[1]->routes->n_mapped() == 1);
  CHECK(pes[1]->routes->links()[0].heap == nullptr);
}

TEST_CASE("a node has rings for up to max_peers PEs, and a node of one more has none, not even to the PE itself") {
  const auto most = start(std::vector<uint32_t>(max_peers), {with({})}, ~0u, 64, 1 << 16);
  CHECK(most[7]->routes->n_sources() == max_peers);
  CHECK(most[7]->routes->n_mapped() == max_peers - 1);
  CHECK(most[7]->routes->own_source() == 7);
  const auto beyond = start(std::vector<uint32_t>(max_peers + 1), {with({})}, ~0u, 64, 1 << 16);
  for (const uint32_t pe : {0u, 7u, max_peers}) {
    CHECK(beyond[pe]->error.empty());
    CHECK(beyond[pe]->routes->n_sources() == 0);
    CHECK(beyond[pe]->routes->links() == nullptr);
    CHECK(beyond[pe]->routes->rendezvous().n == 0);
  }
}

TEST_CASE("rings of different sizes are an error that names the variables") {
  const auto pes = start({0, 0}, {with({}), with({{"GRAVEL_PEER_CHUNKS", "8"}})});
  CHECK(pes[0]->error ==
        "GRAVEL_PEER_CHUNKS or GRAVEL_PEER_CHUNK_SIZE differ: 4 chunks of 256 units here, 8 of 256 at PE 1");
}

TEST_CASE("a domain is made of whole nodes whose handles reach each other") {
  const topology nodes({0, 1, 0, 1, 2}, 32);
  using list = std::vector<uint32_t>;
  const auto domain = [&](uint32_t pe, const std::vector<std::string>& reach) {
    return pes_of_domain(nodes, pe, reach);
  };
  const std::vector<std::string> unknown(5);
  CHECK(domain(0, unknown) == list{0, 2});
  CHECK(domain(4, unknown) == list{4});
  const std::vector<std::string> all(5, "a/1");
  for (uint32_t pe = 0; pe < 5; ++pe) CHECK(domain(pe, all) == list{0, 1, 2, 3, 4});
  CHECK(describe_domain(nodes, domain(0, all), "a/1") == "5 PEs of 3 nodes can map each other's memory: a/1");
  // The PEs of node 1 do not agree, so it is a domain by itself. Nodes 0 and 2 agree.
  const std::vector<std::string> mixed{"a/1", "a/1", "a/1", "a/2", "a/1"};
  CHECK(domain(0, mixed) == list{0, 2, 4});
  CHECK(domain(4, mixed) == list{0, 2, 4});
  CHECK(domain(1, mixed) == list{1, 3});
  CHECK(domain(3, mixed) == list{1, 3});
  CHECK(describe_domain(nodes, domain(3, mixed), "a/2").empty());
  // Too many for the route: each node is a domain.
  std::vector<uint32_t> node_of_pe(max_peers + 1);
  node_of_pe.back() = 1;
  const topology large(node_of_pe, 32);
  const std::vector<std::string> one(max_peers + 1, "a/1");
  CHECK(pes_of_domain(large, 0, one).size() == max_peers);
  CHECK(pes_of_domain(large, max_peers, one) == list{max_peers});
}

TEST_CASE("PEs of other nodes are peers if they are in the domain") {
  const auto pes = start({0, 1, 0, 1, 2}, {with({})}, ~0u, 64, 0, {}, {"a", "a", "a", "a", ""});
  for (uint32_t pe = 0; pe < 4; ++pe) {
    INFO("PE " << pe);
    const peers& routes = *pes[pe]->routes;
    CHECK(routes.n_mapped() == 3);
    CHECK(routes.n_sources() == 4);
    CHECK(routes.rendezvous().n == 0);  // PE 4 is no peer
    for (uint32_t other = 0; other < 4; ++other) {
      if (other == pe) continue;
      const peer_link& to = routes.links()[other];
      CHECK(to.heap == reinterpret_cast<char*>(pes[other]->heap));
      CHECK(to.ring.slots == pes[other]->routes->sources()[pe].slots);
      CHECK(to.doorbell == &pes[pe]->doorbells[other]);
    }
    CHECK(routes.links()[4].ring.slots == nullptr);
  }
  CHECK(pes[4]->routes->links() == nullptr);
  CHECK(start({0, 1}, {with({})}, ~0u, 64, 0, {}, {"a", "a"})[1]->routes->rendezvous().n == 2);
}

TEST_CASE("mappings are released") {
  auto pes = start({0, 0, 0}, {with({})});
  CHECK(pes[1]->device.mapped == 4);
  pes[1]->routes->forget();
  CHECK(pes[1]->device.mapped == 0);
  CHECK(pes[1]->routes->read().applied == 0);  // of its own memory
  pes[1]->routes.reset();
  CHECK(pes[1]->device.mapped == 0);
  pes[0]->routes.reset();
  CHECK(pes[0]->device.mapped == 0);
}
