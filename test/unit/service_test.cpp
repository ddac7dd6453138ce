// Services within one process: service blocks on threads of their own, clients and the handler that delivers on others,
// with seeds; rings of the smallest size, positions that go beyond 32 bits, service blocks that are sent to sleep while
// messages arrive.
#include "device/service_kernel.cuh"

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/service_sender.cuh"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

struct adder {
  static constexpr const char* name = "adder";
  static constexpr uint32_t threads = 64;
  struct message {
    uint32_t block, amount;
  };
  /// Written by one lane of one block.
  struct tally {
    uint64_t messages, sum, wrong, batches;
  };
  tally* tallies;
  void operator()(const gravel_service_block<adder>& here, const gravel_service_batch<message>& batch) const {
    tally& mine = tallies[here.number()];
    if (here.rank() != 0) return;
    uint32_t in_chunks = 0;
    for (uint32_t c = 0; c < batch.chunks(); ++c) in_chunks += batch.messages_of(c);
    mine.wrong += in_chunks != batch.size() || batch.chunks() == 0;
    for (uint32_t i = 0; i < batch.size(); ++i) {
      ++mine.messages;
      mine.sum += batch[i].amount;
      mine.wrong += batch[i].block != here.number();
    }
    ++mine.batches;
  }
};

/// A service of one PE without a host. `from`: the tickets so far.
struct rig {
  service_shape shape;
  device_counters counters{};
  device_error error{};
  alignas(64) service_life life{};
  service_control control{};
  std::unique_ptr<char, void (*)(void*)> memory;
  std::vector<adder::tally> tallies;
  gravel_service_handle<adder> handle{};
  uint64_t launches = 0;

  explicit rig(service_shape s, uint64_t from = 0)
      : shape(s),
        memory(static_cast<char*>(std::aligned_alloc(64, (s.bytes() + 63) / 64 * 64)), &std::free),
        tallies(s.blocks) {
    std::memset(memory.get(), 0, shape.bytes());
    handle.g.stamp = valid_stamp;
    handle.g.n_pes = 1;
    handle.g.heap_bytes = 8;
    handle.g.counters = &counters;
    handle.g.error = &error;
    handle.view = {memory.get(), &control, shape};
    for (uint32_t i = 0; i < shape.blocks; ++i) {
      service_block& block = handle.view.block(i);
      block.room = shape.far_messages();
      block.near.tickets = block.far_tickets = block.near_done = block.far_done = from;
    }
  }
  /// The kernel, from its start to its end.
  void serve_all(uint64_t seed) {
    store_relaxed(&life.resident, uint64_t{0});
    store_relaxed(&life.stop, uint64_t{0});
    simt::launch_options how{};
    how.seed = seed;
    how.cooperative = true;
    const uint64_t number = ++launches;
    simt::launch(shape.blocks, adder::threads, how,
                 [&] { serve<adder>(handle, adder{tallies.data()}, &life, number); });
  }
  /// All that has a ticket is applied.
  bool is_done() const {
    uint64_t applied = 0, tickets = 0;
    for (uint32_t s = 0; s < shape.blocks; ++s) {
      const service_block& block = handle.view.block(s);
      applied += block.applied();
      tickets += block.tickets();
    }
    return applied == tickets;
  }
  void wait_until_done() const {
    for (relax wait; !is_done(); wait.attentively()) {
    }
  }
  void stop() { store_relaxed(&life.stop, uint64_t{1}); }
  adder::tally total() const {
    adder::tally t{};
    for (const auto& one : tallies) {
      t.messages += one.messages;
      t.sum += one.sum;
      t.wrong += one.wrong;
    }
    return t;
  }
};

/// A thread that stands for the resolver: delivers, and tries again what found no room.
void deliver_all(const rig& r, uint32_t messages, uint32_t first) {
  for (uint32_t i = 0; i < messages; ++i) {
    const uint32_t block = (first + i) % r.shape.blocks;
    for (relax wait; !deliver(r.handle.view, lane_group::active(), block, adder::message{block, i + 1}); wait()) {
    }
  }
}

/// Lanes of a warp that stand for the resolver's: with a seed they deliver together, to different service blocks.
void deliver_by_warps(const rig& r, uint32_t lanes, uint32_t each, uint64_t seed) {
  simt::launch_options how{};
  how.threads = 1;
  how.seed = seed;
  simt::launch(1, lanes, how, [&] {
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t block = (threadIdx.x / 3 + i) % r.shape.blocks;
      for (relax wait; !deliver(r.handle.view, lane_group::active(), block, adder::message{block, i + 1}); wait()) {
      }
    }
  });
}

/// Kernels send one by one and gathered, two threads and two warps deliver.
void send_from_all(service_shape shape, uint64_t seed, uint64_t from) {
  constexpr uint32_t blocks = 2, lanes = 64, each = 12, delivered = 150;
  rig r(shape, from);
  std::jthread kernel([&] { r.serve_all(seed); });
  {
    std::vector<std::jthread> clients;
    clients.emplace_back([&] {
      simt::launch_options how{};
      how.threads = 1;
      how.seed = seed;
      simt::launch(blocks, lanes, how, [&] {
        __shared__ gravel_service_sender<adder, 4> sender;
        sender.begin(r.handle, static_cast<uint32_t>(from));
        for (uint32_t i = 0; i < each; ++i) {
          const uint32_t block = (threadIdx.x + i) % r.shape.blocks;
          if (threadIdx.x % 4 != i % 4) sender.send(0, block, {block, i + 1});
          gravel_service_send(r.handle, 0, block, {block, i + 1});
        }
        sender.end();
      });
    });
    for (uint32_t t = 0; t < 2; ++t) clients.emplace_back([&, t] { deliver_all(r, delivered, t); });
    clients.emplace_back([&] { deliver_by_warps(r, lanes, each, seed); });
  }
  r.wait_until_done();
  r.stop();
  kernel.join();
  const adder::tally t = r.total();
  uint64_t messages = 2 * delivered + lanes * each,
           sum = uint64_t{delivered} * (delivered + 1) + uint64_t{lanes} * each * (each + 1) / 2;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < each; ++i) {
      const uint64_t times = blocks * (lane % 4 != i % 4 ? 2 : 1);
      messages += times;
      sum += times * (i + 1);
    }
  CHECK(t.messages == messages);
  CHECK(t.sum == sum);
  CHECK(t.wrong == 0);
  CHECK(r.error.code == 0);
  CHECK(r.control.resident == 1);
  for (uint32_t s = 0; s < shape.blocks; ++s) CHECK(r.handle.view.block(s).room == shape.far_messages());
}

}  // namespace

TEST_CASE("all that kernels and handlers send is applied once") {
  send_from_all({3, 4, 32, 8}, 0, 0);
  send_from_all({6, 8, 64, 8}, 0, 0);  // more service blocks than the sender gathers for
}
TEST_CASE("rings of one chunk, one service block") { send_from_all({1, 1, 32, 8}, 0, 0); }
TEST_CASE("positions of rings go beyond 32 bits, and those of a sender's bins come to 0 again") {
  for (const uint64_t seed : {0, 3}) send_from_all({2, 2, 32, 8}, seed, (uint64_t{1} << 32) - 3);
  send_from_all({1, 2, 32, 8}, 0, (uint64_t{1} << 32) - 35);
  send_from_all({1, 4, 32, 8}, 0, (uint64_t{1} << 48) - 20);  // the bits of a ticket in a chunk's word come to 0 again
}
TEST_CASE("all is applied once whatever the order of lanes") {
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t seeds = 0;  // too slow there; what can race are the cases without
#else
  constexpr uint64_t seeds = 12;
#endif
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    send_from_all({static_cast<uint32_t>(seed % 3 + 1), static_cast<uint32_t>(1u << seed % 3), 32, 8}, seed,
                  seed % 2 ? 0 : 1000);
  }
}

TEST_CASE("a far ring holds what it has room for, and no more") {
  rig r({1, 2, 32, 8});
  service_block& block = r.handle.view.block(0);
  const auto send = [&] { return deliver(r.handle.view, lane_group::active(), 0, adder::message{0, 1}); };
  for (uint32_t i = 0; i < 64; ++i) CHECK(send());
  CHECK_FALSE(send());
  CHECK_FALSE(send());
  CHECK(block.room == 0);
  CHECK(block.far_tickets == 64);
  std::jthread kernel([&] { r.serve_all(0); });
  r.wait_until_done();
  CHECK(send());
  r.wait_until_done();
  r.stop();
  kernel.join();
  CHECK(r.total().messages == 65);
}

TEST_CASE("a sleeping service block is woken for messages") {
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t seeds = 1;
#else
  constexpr uint64_t seeds = 4;
#endif
  for (uint64_t seed = 0; seed < seeds; ++seed) {
#if defined(__SANITIZE_THREAD__)
    constexpr uint32_t messages = 40;
#else
    constexpr uint32_t messages = 400;
#endif
    rig r({2, 4, 32, 8});
    std::atomic<bool> ends{false};
    // The keeper: another launch only when the doorbell has changed since the one before.
    std::jthread keeper([&] {
      uint64_t seen = load_acquire(&r.control.doorbell);
      r.serve_all(seed);
      for (relax wait; !ends; wait()) {
        const uint64_t doorbell = load_acquire(&r.control.doorbell);
        if (doorbell == seen) continue;
        seen = doorbell;
        r.serve_all(seed ? seed + r.launches : 0);
        wait.reset();
      }
    });
    for (relax wait; load_acquire(&r.control.resident) == 0; wait()) {
    }
    r.stop();  // the first messages find both asleep
    for (uint32_t s = 0; s < 2; ++s)
      for (relax wait; load_acquire(&r.handle.view.block(s).state) != service_block::asleep; wait()) {
      }
    std::jthread sandman([&] {
      std::mt19937_64 random(seed);
      uint64_t stopped = 0;
      while (!ends) {  // each launch once, when it is resident, as the host does
        const uint64_t resident = load_acquire(&r.control.resident);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        if (resident > stopped) r.stop();
        stopped = resident;
      }
    });
    {
      std::vector<std::jthread> clients;
      for (uint32_t t = 0; t < 2; ++t) clients.emplace_back([&, t] { deliver_all(r, messages, t); });
    }
    r.wait_until_done();
    ends = true;
    sandman.join();
    r.stop();
    keeper.join();
    INFO("seed " << seed << ", launches " << r.launches);
    CHECK(r.total().messages == 2 * messages);
    CHECK(r.total().wrong == 0);
    CHECK(r.launches > 1);
  }
}
