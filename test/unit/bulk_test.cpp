// Bulk operations: any size, any alignment, by a block, a warp or a host thread, by every route.
#include "device/bulk.cuh"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/fake_job.hpp"
#include "test/support/seeds.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t heap_bytes = 4 << 20;
fake_shape large(uint64_t seed, bool self = true) {
  return {.nodes = 2,
          .pes_per_node = 2,
          .seed = seed,
          .self_in_place = self,
          .settings = {{"GRAVEL_SYMMETRIC_SIZE", "4M"}, {"GRAVEL_PACKET_SIZE", "16K"}, {"GRAVEL_SLOT_SIZE", "16K"}}};
}

uint8_t pattern(uint64_t i, uint64_t seed) { return static_cast<uint8_t>(i * 131 + i / 255 + seed); }

/// Puts `bytes` bytes to each PE and checks them, and the bytes around them.
void put_everywhere(fake_job& job, bool in_kernel, uint64_t seed, uint64_t bytes, uint64_t source_off,
                    uint64_t dest_off) {
  std::vector<uint8_t> source(bytes + 32);
  for (uint64_t i = 0; i < bytes; ++i) source[source_off + i] = pattern(i, seed);
  for (uint32_t pe = 0; pe < job.n_pes(); ++pe) std::memset(job.pe(pe).at<char>(0), 0x55, dest_off + bytes + 64);
  const auto put = [&](const gravel_t& g) {
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
      gravel_put_bulk(g, g.heap + dest_off, source.data() + source_off, bytes, static_cast<int>(pe));
  };
  if (in_kernel) job.launch(1, 48, seed, [&] { put(job.pe(1).kernel); });
  else put(job.pe(1).host_thread);
  std::fill(source.begin(), source.end(), 0);  // may be reused on return
  job.quiet(1);
  for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
    INFO("PE " << pe);
    const uint8_t* heap = job.pe(pe).at<uint8_t>(0);
    bool same = true;
    for (uint64_t i = 0; i < bytes; ++i) same &= heap[dest_off + i] == pattern(i, seed);
    REQUIRE(same);
    for (uint64_t i = 0; i < dest_off; ++i) REQUIRE(heap[i] == 0x55);
    for (uint64_t i = 0; i < 64; ++i) REQUIRE(heap[dest_off + bytes + i] == 0x55);
    REQUIRE(job.error_of(pe).code == 0);
  }
}

/// The threads that call.
enum class caller { block, warp, some_lanes, host };
constexpr caller callers[] = {caller::block, caller::warp, caller::some_lanes, caller::host};
constexpr uint32_t some_lanes = 0x00e40121;  ///< of a warp

/// `f(g, warp, lanes)`: as that caller, at PE 1. warp: use the calls for warps.
template <class F>
void call_as(fake_job& job, caller who, uint64_t seed, F f) {
  const gravel_t& kernel = job.pe(1).kernel;
  switch (who) {
    case caller::block: return job.launch(1, 48, seed, [&] { f(kernel, false, ~0u); });
    case caller::warp:  // the second warp is half a one
      return job.launch(1, 48, seed, [&] {
        if (threadIdx.x >= 32) f(kernel, true, ~0u);
      });
    case caller::some_lanes:
      return job.launch(1, 32, seed, [&] {
        if (some_lanes >> threadIdx.x & 1) f(kernel, true, some_lanes);
      });
    case caller::host: return f(job.pe(1).host_thread, seed % 2 == 0, ~0u);
  }
}

/// Routes: in place and by queues, and the peers' memory.
template <class F>
void by_each_route(F f) {
  uint64_t seed = 1;
  for (auto [self, peers] : {std::pair{true, false}, {false, false}, {true, true}}) {
    fake_shape shape = large(seed, self);
    shape.peers = peers;
    const auto job = fake_job::with<>(shape);
    f(*job, seed);
    for (uint32_t pe = 0; pe < job->n_pes(); ++pe) REQUIRE(job->error_of(pe).code == 0);
    seed += 1000;
  }
}

constexpr uint64_t sizes[] = {0,   1,    3,    4,    15,   16,   17,    48,     64,
                              100, 1007, 1008, 1009, 2032, 4096, 16337, 40'000, 100'001};

}  // namespace

TEST_CASE("bulk puts of every awkward size and alignment") {
  uint64_t seed = 1;
  for (bool self : {true, false}) {
    const auto job = fake_job::with<>(large(seed, self));
    for (bool in_kernel : {true, false})
      for (uint64_t bytes : {0, 1, 2, 15, 16, 17, 31, 32, 47, 48, 49, 64, 65, 4095, 4096, 4097, 16384, 100'000})
        for (auto [source_off, dest_off] : {std::pair{0, 0}, {16, 48}, {1, 0}, {0, 3}, {5, 5}, {8, 15}}) {
          INFO(bytes << " bytes from +" << source_off << " to +" << dest_off << ", kernel " << in_kernel << ", seed "
                     << seed);
          put_everywhere(*job, in_kernel, seed % 2 ? seed : 0, bytes, static_cast<uint64_t>(source_off),
                         static_cast<uint64_t>(dest_off));
          ++seed;
        }
  }
}

TEST_CASE("1 MiB, unaligned") {
  const auto job = fake_job::with<>(large(7));
  for (bool in_kernel : {true, false}) put_everywhere(*job, in_kernel, 3, 1 << 20, 7, 13);
}

TEST_CASE("small bulk puts among other messages of the same size, under 100 schedules") {
  // Receivers check the first message of a row: no message of such a kind may follow another one.
  for (uint64_t seed = 1; seed <= of_seeds(100); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1, .seed = seed});
    const gravel_t& g = job->pe(0).host_thread;
    char* const heap = g.heap;
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t value = i + 1, bytes = 1 + i % 48;
      gravel_put(g, reinterpret_cast<uint64_t*>(heap) + i, value, 1);
      std::vector<uint8_t> source(bytes, static_cast<uint8_t>(i + 1));
      gravel_put_bulk(g, heap + 8192 + i * 64, source.data(), bytes, 1);
    }
    job->quiet(0);
    for (uint64_t i = 0; i < 40; ++i) {
      REQUIRE(job->pe(1).at<uint64_t>(0)[i] == i + 1);
      const uint8_t* at = job->pe(1).at<uint8_t>(8192 + i * 64);
      for (uint64_t b = 0; b < 64; ++b) REQUIRE(at[b] == (b < 1 + i % 48 ? i + 1 : 0));
    }
  }
}

TEST_CASE("the source may be reused on return, by any lane, on both routes") {
  for (bool self : {true, false})
    for (uint64_t seed = 0; seed <= of_seeds(30); ++seed) {
      INFO("in place " << self << ", seed " << seed);
      const auto job = fake_job::with<>({.nodes = 1, .pes_per_node = 1, .seed = seed + 1, .self_in_place = self});
      std::vector<uint8_t> source(5000, 1);
      job->launch(1, 48, seed, [&] {
        const gravel_t& g = job->pe(0).kernel;
        gravel_put_bulk(g, g.heap, source.data(), source.size(), 0);
        std::fill(source.begin(), source.end(), 2);
      });
      job->quiet(0);
      for (uint64_t i = 0; i < source.size(); ++i) REQUIRE(job->pe(0).at<uint8_t>(0)[i] == 1);
    }
}

TEST_CASE("bulk gets of every awkward size and alignment") {
  by_each_route([](fake_job& job, uint64_t seed) {
    constexpr uint64_t room = 400'000;
    for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
      for (uint64_t i = 0; i < room; ++i) job.pe(pe).at<uint8_t>(0)[i] = pattern(i, pe + 1);
    for (caller who : callers)
      for (uint64_t bytes : sizes)
        for (auto [source_off, dest_off] : {std::pair{0, 0}, {16, 48}, {1, 0}, {4, 8}, {5, 15}}) {
          INFO("caller " << static_cast<int>(who) << ", " << bytes << " bytes from +" << source_off << " to +"
                         << dest_off << ", seed " << seed);
          // Now and then into memory that is not symmetric.
          const bool is_outside = bytes <= 64 && seed % 4 == 0 && who != caller::host;
          const uint64_t each = bytes + 64;
          std::vector<uint8_t> outside(is_outside ? job.n_pes() * each : 0);
          uint8_t* const to = is_outside ? outside.data() : job.pe(1).at<uint8_t>(room);
          std::memset(to, 0x55, job.n_pes() * each);
          call_as(job, who, seed % 3 ? seed : 0, [&](const gravel_t& g, bool warp, uint32_t lanes) {
            for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
              char* const dest = reinterpret_cast<char*>(to) + pe * each + dest_off;
              if (warp) gravel_get_bulk_warp(g, dest, g.heap + source_off, bytes, static_cast<int>(pe), lanes);
              else gravel_get_bulk(g, dest, g.heap + source_off, bytes, static_cast<int>(pe));
            }
          });
          job.quiet(1);
          for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
            const uint8_t* const got = to + pe * each;
            bool right = true;
            for (uint64_t i = 0; i < each; ++i) {
              const uint64_t at = i - static_cast<uint64_t>(dest_off);
              right &= got[i] == (at < bytes ? pattern(at + static_cast<uint64_t>(source_off), pe + 1) : 0x55);
            }
            REQUIRE(right);
          }
          ++seed;
        }
  });
}

TEST_CASE("bulk gets are complete after gravel_quiet, under 50 schedules") {
  for (uint64_t seed = 1; seed <= of_seeds(50); ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<>({.nodes = 2, .pes_per_node = 1, .seed = seed});
    for (uint64_t i = 0; i < 9000; ++i) job->pe(1).at<uint8_t>(0)[i] = pattern(i, 3);
    job->launch(1, 40, seed, [&] {
      const gravel_t& g = job->pe(0).kernel;
      if (threadIdx.x == 0)
        gravel_get(g, reinterpret_cast<uint64_t*>(g.heap + 30'000), reinterpret_cast<uint64_t*>(g.heap), 1);
      gravel_get_bulk(g, g.heap + 10'000, g.heap, 9000, 1);
      gravel_quiet(g);
      for (uint64_t i = threadIdx.x; i < 9000; i += 40)
        if (job->pe(0).at<uint8_t>(10'000)[i] != pattern(i, 3)) fail("a bulk get was not complete after gravel_quiet");
    });
    REQUIRE(*job->pe(0).at<uint64_t>(30'000) == *job->pe(1).at<uint64_t>(0));
  }
}

TEST_CASE("answers to bulk gets that spill arrive whole") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    const auto job =
        fake_job::with<>({.nodes = 1,
                          .pes_per_node = 2,
                          .seed = seed,
                          .settings = {{"GRAVEL_SYMMETRIC_SIZE", "512K"}, {"GRAVEL_REPLY_CELLS", "4096"}}});
    constexpr uint64_t bytes = 100'000;
    for (uint64_t i = 0; i < bytes; ++i) job->pe(1).at<uint8_t>(0)[i] = pattern(i, 9);
    gravel_get_bulk(job->pe(0).host_thread, job->pe(0).at<char>(200'000), job->pe(0).at<char>(0), bytes, 1);
    job->quiet(0);
    CHECK(job->stat_of(gravel::detail::stat::messages_spilled) > 0);
    bool same = true;
    for (uint64_t i = 0; i < bytes; ++i) same &= job->pe(0).at<uint8_t>(200'000)[i] == pattern(i, 9);
    REQUIRE(same);
  }
}

TEST_CASE("pieces come in the order of the list that requests them, under 60 schedules") {
  for (uint64_t seed = 1; seed <= of_seeds(60); ++seed) {
    const auto job = fake_job::with<>(large(seed));
    const gravel_t& g = job->pe(0).kernel;
    const uint64_t bytes = std::array{4, 12, 24, 264, 48, 4096}[seed % 6], room = 1 << 20;
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(most_pieces(g, bytes), 1 + seed * 5));
    INFO("seed " << seed << ", " << n << " pieces of " << bytes << " bytes");
    std::vector<uint64_t> list(n);
    for (uint32_t i = 0; i < n; ++i) list[i] = (i * 7919 + seed) % 200 * bytes;
    for (uint64_t i = 0; i < room; ++i) job->pe(3).at<uint8_t>(0)[i] = pattern(i, 4);
    std::memset(job->pe(0).at<char>(room), 0x55, n * bytes + 64);
    job->launch(1, 32, seed,
                [&] { request_pieces(g, copy_team::whole_warp(), g.heap + room, list.data(), n, bytes, 3); });
    job->quiet(0);
    const uint8_t* const found = job->pe(0).at<uint8_t>(room);
    bool right = true;
    for (uint64_t i = 0; i < n * bytes; ++i) right &= found[i] == pattern(list[i / bytes] + i % bytes, 4);
    for (uint64_t i = n * bytes; i < n * bytes + 64; ++i) right &= found[i] == 0x55;
    REQUIRE(right);
    REQUIRE(job->error_of(0).code == 0);
  }
}

TEST_CASE("a piece that is not in the heap, or misaligned, is refused by the receiver") {
  for (const uint64_t wrong : {heap_bytes - 8, ~uint64_t{7}, uint64_t{12}}) {
    INFO("offset " << wrong);
    const auto job = fake_job::with<>(large(1));
    const gravel_t& g = job->pe(0).kernel;
    const uint64_t list[] = {0, wrong, 48};
    job->launch(1, 32, 1, [&] { request_pieces(g, copy_team::whole_warp(), g.heap, list, 3, 16, 3); });
    CHECK_THROWS_WITH(job->quiet(0), contains_text("a gather of gravel::rows") && contains_text("outside"));
  }
}

TEST_CASE("bulk puts by warps and by some of their lanes") {
  by_each_route([](fake_job& job, uint64_t seed) {
    for (caller who : {caller::warp, caller::some_lanes, caller::host})
      for (uint64_t bytes : sizes)
        for (auto [source_off, dest_off] : {std::pair{0, 0}, {16, 48}, {1, 0}, {8, 12}}) {
          INFO("caller " << static_cast<int>(who) << ", " << bytes << " bytes from +" << source_off << " to +"
                         << dest_off << ", seed " << seed);
          std::vector<uint8_t> source(bytes + 32);
          for (uint64_t i = 0; i < bytes; ++i) source[static_cast<uint64_t>(source_off) + i] = pattern(i, seed);
          for (uint32_t pe = 0; pe < job.n_pes(); ++pe) std::memset(job.pe(pe).at<char>(0), 0x55, bytes + 128);
          call_as(job, who, seed % 3 ? seed : 0, [&](const gravel_t& g, bool, uint32_t lanes) {
            for (uint32_t pe = 0; pe < job.n_pes(); ++pe)
              gravel_put_bulk_warp(g, g.heap + dest_off, source.data() + source_off, bytes, static_cast<int>(pe),
                                   lanes);
          });
          job.quiet(1);
          for (uint32_t pe = 0; pe < job.n_pes(); ++pe) {
            bool right = true;
            for (uint64_t i = 0; i < bytes + 128; ++i) {
              const uint64_t at = i - static_cast<uint64_t>(dest_off);
              right &= job.pe(pe).at<uint8_t>(0)[i] == (at < bytes ? pattern(at, seed) : 0x55);
            }
            REQUIRE(right);
          }
          ++seed;
        }
  });
}

TEST_CASE("a reader that sees the signal sees the data, on every route, under 60 schedules") {
  for (uint64_t seed = 1; seed <= of_seeds(60); ++seed)
    for (auto [nodes, pes, self, peers] :
         {std::tuple{2u, 1u, true, false}, {1u, 2u, true, true}, {1u, 1u, true, false}, {1u, 1u, false, false}}) {
      INFO("seed " << seed << ", " << nodes << " nodes of " << pes << ", in place " << self << ", peers " << peers);
      const auto job =
          fake_job::with<>({.nodes = nodes,
                            .pes_per_node = pes,
                            .seed = seed,
                            .self_in_place = self,
                            .peers = peers,
                            .settings = {{"GRAVEL_AGGREGATOR_THREADS", "2"},
                                         // The signal's packet is the last and small. As rows it waits for nothing.
                                         {"GRAVEL_AGGREGATION", seed / 4 % 2 ? "rows" : "packets"}}});
      const uint32_t last = job->n_pes() - 1;
      const uint64_t sizes[] = {0, 100, 3000, 29001}, bytes = sizes[seed % 4];  // the last needs many messages
      std::vector<uint8_t> source(bytes + 1);
      for (uint64_t i = 0; i < bytes; ++i) source[i] = pattern(i, seed);
      job->launch(1, 32, seed, [&] {
        const gravel_t& g = job->pe(0).kernel;
        auto* const signal = reinterpret_cast<uint64_t*>(g.heap);
        if (seed % 2)
          gravel_put_signal(g, g.heap + 65, source.data(), bytes, signal, 7, GRAVEL_SIGNAL_ADD, static_cast<int>(last));
        else
          gravel_put_signal_warp(g, g.heap + 65, source.data(), bytes, signal, 7, GRAVEL_SIGNAL_SET,
                                 static_cast<int>(last));
        if (threadIdx.x == 0) {
          const gravel_t& there = job->pe(last).kernel;
          gravel_wait_until(there, reinterpret_cast<uint64_t*>(there.heap), GRAVEL_EQ, 7);
          for (uint64_t i = 0; i < bytes; ++i)
            if (job->pe(last).at<uint8_t>(65)[i] != pattern(i, seed))
              fail("the signal came before byte {} of {}", i, bytes);
        }
      });
      job->quiet(0);
      REQUIRE(*job->pe(last).at<uint64_t>(0) == 7);
      REQUIRE(job->error_of(0).code == 0);
    }
}

TEST_CASE("signals that are added count the puts, those that are set say the last") {
  const auto job = fake_job::with<>(large(5, false));
  const gravel_t& g = job->pe(0).host_thread;
  auto* const signal = reinterpret_cast<uint64_t*>(g.heap);
  const uint64_t data = 5;
  for (uint64_t i = 1; i <= 20; ++i) {
    gravel_put_signal(g, signal + 8 + i, &data, 8, signal, 3, GRAVEL_SIGNAL_ADD, 2);
    gravel_put_signal(g, signal + 8 + i, &data, 8, signal + 1, 9, GRAVEL_SIGNAL_SET, 2);
  }
  job->quiet(0);
  CHECK(job->pe(2).at<uint64_t>(0)[0] == 60);
  CHECK(job->pe(2).at<uint64_t>(0)[1] == 9);
  for (uint64_t i = 1; i <= 20; ++i) CHECK(job->pe(2).at<uint64_t>(0)[8 + i] == 5);
}

TEST_CASE("errors of bulk operations name operation and place") {
  struct attempt {
    op o;
    message_fault fault;
    void (*call)(const gravel_t&);
  };
  const attempt attempts[] = {
      {op::get_bulk, message_fault::bad_pe, [](const gravel_t& g) { gravel_get_bulk(g, g.heap, g.heap, 8, 9); }},
      {op::get_bulk, message_fault::outside_heap,
       [](const gravel_t& g) { gravel_get_bulk(g, g.heap, g.heap + g.heap_bytes - 7, 8, 1); }},
      {op::get_bulk, message_fault::bad_destination,
       [](const gravel_t& g) { gravel_get_bulk(g, g.heap + g.heap_bytes - 7, g.heap, 8, 1); }},
      {op::put_bulk, message_fault::outside_heap,
       [](const gravel_t& g) { gravel_put_bulk_warp(g, g.heap - 1, g.heap, 8, 1); }},
      {op::put_signal, message_fault::outside_heap,
       [](const gravel_t& g) {
         gravel_put_signal(g, g.heap, g.heap, 8, reinterpret_cast<uint64_t*>(g.heap + g.heap_bytes), 1,
                           GRAVEL_SIGNAL_SET, 1);
       }},
      {op::put_signal, message_fault::misaligned, [](const gravel_t& g) {
         gravel_put_signal(g, g.heap, g.heap, 8, reinterpret_cast<uint64_t*>(g.heap + 4), 1, GRAVEL_SIGNAL_SET, 1);
       }}};
  for (const attempt& a : attempts)
    for (bool in_kernel : {false, true}) {
      const auto job = fake_job::with<>({});
      if (in_kernel) job->launch(1, 32, 0, [&] { a.call(job->pe(0).kernel); });
      else a.call(job->pe(0).host_thread);
      CHECK(job->error_of(0).operation == static_cast<uint64_t>(a.o));
      CHECK(job->error_of(0).code == static_cast<uint64_t>(a.fault) + 1);
    }
}
