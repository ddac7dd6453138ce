// host/peers.*: who maps whose memory, and the counts that quiet and quiescence are built on. PEs are threads here, and
// "mapping" another PE's memory gives its own address.
#include "host/peers.hpp"

#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "test/catch.hpp"

using namespace gravel;

namespace {

/// Memory of this process; what `refuses` names cannot be mapped.
class shared_backend final : public backend {
 public:
  const char* name() const override { return "fake"; }
  std::string describe() const override { return "fake"; }
  std::vector<handler_info> handlers() const override { return {}; }
  void open(uint32_t, uint32_t) override {}
  void* allocate(uint64_t bytes, const char*) override {
    pieces.emplace_back(new uint64_t[bytes / 8 + 1]());
    return pieces.back().get();
  }
  void release(void*) override {}
  void zero(void* at, uint64_t bytes) override { std::memset(at, 0, bytes); }
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  void copy(void* to, const void* from, uint64_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);  // of nothing, `from` may be null
  }
  void synchronize() override {}
  std::string export_memory(void* at) override { return {reinterpret_cast<const char*>(&at), sizeof(at)}; }
  void* import_memory(const std::string& exported, std::string* why) override {
    if (refuses || exported.size() != sizeof(void*)) return *why = "no bridge", nullptr;
    void* at;
    std::memcpy(&at, exported.data(), sizeof(at));
    ++mapped;
    return at;
  }
  void forget_memory(void*) override { --mapped; }
  void start_receiver(const receiver_setup&) override {}
  bool receive() override { return false; }
  void stop_receiver() override {}

  std::vector<std::unique_ptr<uint64_t[]>> pieces;
  int mapped = 0;
  bool refuses = false;
};

settings with(std::map<std::string, std::string> values) {
  values.try_emplace("GRAVEL_PEER_CHUNKS", "4");
  return read_settings([&](const char* name) { return values.count(name) ? values.at(name).c_str() : nullptr; });
}

struct one_pe {
  shared_backend device;
  std::unique_ptr<uint64_t[]> heap{new uint64_t[64]()};
  std::unique_ptr<uint64_t[]> bells{new uint64_t[max_peers]()};
  std::unique_ptr<peers> routes;
  std::string error;
};

/// All PEs at once, as the exchange is collective.
std::vector<std::unique_ptr<one_pe>> start(const std::vector<uint32_t>& node_of_pe, std::vector<settings> values,
                                           uint32_t refusing = ~0u) {
  const topology nodes(node_of_pe, 32);
  const auto n = static_cast<uint32_t>(node_of_pe.size());
  std::vector<std::unique_ptr<one_pe>> pes;
  std::vector<std::vector<std::byte>> blobs(n);
  std::barrier all_here(n);
  std::vector<std::jthread> threads;
  for (uint32_t pe = 0; pe < n; ++pe) pes.push_back(std::make_unique<one_pe>());
  for (uint32_t pe = 0; pe < n; ++pe)
    threads.emplace_back([&, pe] {
      one_pe& p = *pes[pe];
      p.device.refuses = pe == refusing;
      const peers_setup setup{&nodes, pe, &values[pe % values.size()], reinterpret_cast<char*>(p.heap.get()), p.bells.get()};
      try {
        p.routes = std::make_unique<peers>(p.device, setup, [&](std::span<const std::byte> mine) {
          blobs[pe].assign(mine.begin(), mine.end());
          all_here.arrive_and_wait();
          const auto theirs = blobs;
          all_here.arrive_and_wait();  // before the next exchange
          return theirs;
        });
      } catch (const std::exception& e) {
        p.error = e.what();
        all_here.arrive_and_drop();
      }
    });
  return pes;
}

}  // namespace

TEST_CASE("the PEs of a node map each other, and nobody else") {
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
      CHECK(routes.links()[other].heap == (together ? reinterpret_cast<char*>(pes[other]->heap.get()) : nullptr));
      CHECK((routes.links()[other].ring.slots != nullptr) == together);
    }
    for (uint32_t bin = 0; bin < routes.n_mapped(); ++bin) CHECK(routes.links()[routes.pes()[bin]].bin == bin);
  }
  // The rank of a PE on its node says which ring of its peers is its own.
  const peer_link& to_3 = pes[1]->routes->links()[3];
  const peer_ring& from_1 = pes[3]->routes->sources()[1];
  CHECK(to_3.ring.slots == from_1.slots);
  CHECK(to_3.ring.done == from_1.done);
  CHECK(to_3.bell == &pes[1]->bells[2]);
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
    link.ring.publish(ticket, 1, 1, 2);
    CHECK(at_destination.arrived(ticket));
    CHECK(link.ring.first_missing(0, ticket + 1) == ticket);
    const uint64_t bell = pes[0]->bells[2];
    CHECK_FALSE(source.applied_below(source.tickets()));
    CHECK(pes[0]->bells[2] != bell);  // wakes the destination
    CHECK(source.read().tickets == ticket + 1);
    CHECK(source.read().applied == ticket);
    CHECK_FALSE(link.ring.is_free(ticket + 4));
    at_destination.mark_done(ticket);
    CHECK(link.ring.is_free(ticket + 4));
    CHECK(link.ring.first_missing(0, ticket + 1) == ticket + 1);
    CHECK(source.applied_below(source.tickets()));
  }
  CHECK(source.describe().find("11 chunks pushed to 2 peers, 11 applied") != std::string::npos);
}

TEST_CASE("applied chunks are counted from the done words, in any order of completion") {
  for (const auto& [done, applied] : std::vector<std::pair<std::vector<uint64_t>, uint64_t>>{
           {{0, 0, 0, 0}, 0}, {{1, 0, 0, 0}, 1}, {{0, 2, 0, 4}, 2}, {{5, 2, 3, 4}, 5}, {{9, 10, 7, 8}, 10}, {{5, 0, 0, 0}, 2}})
    CHECK(peer_ring::applied(done.data(), 4) == applied);
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

TEST_CASE("rings of different sizes are an error that names the variables") {
  const auto pes = start({0, 0}, {with({}), with({{"GRAVEL_PEER_CHUNKS", "8"}})});
  CHECK(pes[0]->error == "GRAVEL_PEER_CHUNKS or GRAVEL_PEER_CHUNK_SIZE differ: 4 chunks of 256 units here, 8 of 256 at PE 1");
}

TEST_CASE("mappings are given back") {
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
