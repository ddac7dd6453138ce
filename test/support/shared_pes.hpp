// PEs that are threads of one process and reach each other on the route peer: "mapping" another PE's memory gives its
// own address.
#pragma once
#include <sys/mman.h>

#include <barrier>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "host/pe/memory_domain.hpp"
#include "host/pe/peers.hpp"

namespace gravel::detail {

/// Memory of this process; a backend that `refuses` can map nothing.
class shared_backend final : public backend {
 public:
  const char* name() const override { return kind; }
  std::string describe() const override { return "fake"; }
  handler_table handlers() const override { return listed; }
  void open(uint32_t, uint32_t) override {}
  void* allocate(uint64_t bytes, const char*) override {
    if (bytes >= large) {
      void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) throw std::bad_alloc();
      large_pieces.emplace_back(static_cast<char*>(at), unmap{bytes});
      return at;
    }
    pieces.emplace_back(new (std::align_val_t{64}) char[bytes]());
    return pieces.back().get();
  }
  void release(void*) override {}
  void zero(void* at, uint64_t bytes) override { std::memset(at, 0, bytes); }
  void pin(void*, uint64_t) override {}
  void unpin(void*) override {}
  void read_words(uint64_t* to, const uint64_t* from, uint64_t n) override {
    for (uint64_t i = 0; i < n; ++i) to[i] = load_acquire(from + i);
  }
  void copy(void* to, const void* from, uint64_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);  // of nothing, `from` may be null
  }
  void synchronize() override {}
  uint64_t own_ring_bytes() const override { return own_ring; }
  std::string export_memory(void* at) override { return {reinterpret_cast<const char*>(&at), sizeof(at)}; }
  void* import_memory(const std::string& exported, std::string* why) override {
    if (refuses || exported.size() != sizeof(void*)) {
      *why = "no bridge";
      return nullptr;
    }
    void* at;
    std::memcpy(&at, exported.data(), sizeof(at));
    ++mapped;
    return at;
  }
  void forget_memory(void*) override { --mapped; }
  peer_access access_to(const std::string&) override { return link; }
  void start_receiver(const receiver_setup&) override {}
  bool receive() override { return false; }
  void stop_receiver() override {}

  struct release_aligned {
    void operator()(char* at) const { operator delete[](at, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<char[], release_aligned>> pieces;
  /// Pieces of at least `large` bytes: only the pages that are touched use memory.
  static constexpr uint64_t large = 1ull << 30;
  struct unmap {
    uint64_t bytes;
    void operator()(char* at) const { munmap(at, bytes); }
  };
  std::vector<std::unique_ptr<char, unmap>> large_pieces;
  handler_table listed{};
  const char* kind = "fake";
  int mapped = 0;
  bool refuses = false;
  peer_access link;  ///< to all other devices
  uint64_t own_ring = 0;
};

/// Settings, with rings of four chunks if nothing else is said.
inline settings with(std::map<std::string, std::string> values) {
  values.try_emplace("GRAVEL_PEER_CHUNKS", "4");
  return read_settings([&](const char* name) { return values.count(name) ? values.at(name).c_str() : nullptr; });
}

struct shared_pe {
  shared_backend device;
  uint64_t* heap = nullptr;  ///< memory of `device`
  std::unique_ptr<uint64_t[]> doorbells{new uint64_t[max_peers]()};
  std::unique_ptr<peers> routes;
  std::string error;
};

/// Makes the routes of all PEs, at once, as the exchange is collective. Each has its heap already; `values` are dealt
/// to them in turns.
/// `reach`: for pes_of_domain(); empty: each node is a domain.
inline void connect(const topology& nodes, const std::vector<settings>& values, const std::vector<shared_pe*>& pes,
                    std::vector<std::string> reach = {}) {
  const auto n = static_cast<uint32_t>(pes.size());
  reach.resize(n);
  std::vector<std::vector<std::byte>> blobs(n);
  std::barrier all_here(n);
  std::vector<std::jthread> threads;
  for (uint32_t pe = 0; pe < n; ++pe)
    threads.emplace_back([&, pe] {
      shared_pe& p = *pes[pe];
      const peers_setup setup{n,
                              pe,
                              pes_of_domain(nodes, pe, reach),
                              &values[pe % values.size()],
                              reinterpret_cast<char*>(p.heap),
                              p.doorbells.get()};
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
}

/// PEs with heaps of so many words, connected. PE `refusing` can map nothing; `link` is how PE 0 reaches the others.
inline std::vector<std::unique_ptr<shared_pe>> start(const std::vector<uint32_t>& node_of_pe,
                                                     const std::vector<settings>& values, uint32_t refusing = ~0u,
                                                     uint64_t heap_words = 64, uint64_t own_ring = 0,
                                                     const peer_access& link = {},
                                                     const std::vector<std::string>& reach = {}) {
  std::vector<std::unique_ptr<shared_pe>> pes;
  std::vector<shared_pe*> all;
  for (uint32_t pe = 0; pe < node_of_pe.size(); ++pe) {
    all.push_back(pes.emplace_back(std::make_unique<shared_pe>()).get());
    all[pe]->device.refuses = pe == refusing;
    all[pe]->device.own_ring = own_ring;
    if (pe == 0) all[pe]->device.link = link;
    all[pe]->heap = static_cast<uint64_t*>(all[pe]->device.allocate(heap_words * sizeof(uint64_t), "heap"));
  }
  connect(topology(node_of_pe, 32), values, all, reach);
  return pes;
}

}  // namespace gravel::detail
