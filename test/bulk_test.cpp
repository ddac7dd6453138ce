// gravel_put_bulk: any size, any alignment, by a block, a host thread or a handler.
#include "device/bulk.cuh"

#include <cstring>
#include <vector>

#include "test/catch.hpp"
#include "test/fake_job.hpp"

using namespace gravel;

namespace {

constexpr uint64_t heap_bytes = 4 << 20;
fake_shape large(uint64_t seed, bool self = true) {
  return {.nodes = 2, .pes_per_node = 2, .seed = seed, .self_in_place = self,
          .settings = {{"GRAVEL_SYMMETRIC_SIZE", "4M"}, {"GRAVEL_PACKET_SIZE", "16K"}, {"GRAVEL_SLOT_SIZE", "16K"}}};
}

uint8_t pattern(uint64_t i, uint64_t seed) { return static_cast<uint8_t>(i * 131 + i / 255 + seed); }

/// Puts `bytes` bytes to each PE and looks at what arrived, and at what lies around it.
void put_everywhere(fake_job& job, bool in_kernel, uint64_t seed, uint64_t bytes, uint64_t source_off, uint64_t dest_off) {
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

/// Each call puts two messages of the same size: as many bytes as a warp slot holds, twice.
constexpr uint64_t flood_bytes = 2 * (32 * max_small_units - 1) * sizeof(unit);
struct floods {
  static constexpr const char* name = "floods";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t at, uint32_t to) const {
    gravel_put_bulk(g, g.heap + 65536 + at * flood_bytes, g.heap, flood_bytes, static_cast<int>(to));
  }
};

}  // namespace

TEST_CASE("bulk puts of every awkward size and alignment") {
  uint64_t seed = 1;
  for (bool self : {true, false}) {
    const auto job = fake_job::with<>(large(seed, self));
    for (bool in_kernel : {true, false})
      for (uint64_t bytes : {0, 1, 2, 15, 16, 17, 31, 32, 47, 48, 49, 64, 65, 4095, 4096, 4097, 16384, 100'000})
        for (auto [source_off, dest_off] : {std::pair{0, 0}, {16, 48}, {1, 0}, {0, 3}, {5, 5}, {8, 15}}) {
          INFO(bytes << " bytes from +" << source_off << " to +" << dest_off << ", kernel " << in_kernel << ", seed " << seed);
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
  // Receivers look at the first message of a segment: none of its kind may hide behind another.
  for (uint64_t seed = 1; seed <= 100; ++seed) {
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
    for (uint64_t seed = 0; seed <= 30; ++seed) {
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

TEST_CASE("handlers' bulk puts that spill arrive whole") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const auto job = fake_job::with<floods>(
        {.nodes = 1, .pes_per_node = 2, .seed = seed,
         .settings = {{"GRAVEL_SYMMETRIC_SIZE", "512K"}, {"GRAVEL_PACKET_SIZE", "16K"}}});
    for (uint64_t i = 0; i < flood_bytes; ++i) job->pe(0).at<uint8_t>(0)[i] = pattern(i, 9);
    for (uint64_t at = 0; at < 60; ++at) gravel_am<floods>(job->pe(1).host_thread, 0, at, 1u);
    job->settle();
    CHECK(job->stat_of(stat::messages_spilled) > 0);
    bool same = true;
    for (uint64_t i = 0; i < 60 * flood_bytes; ++i) same &= job->pe(1).at<uint8_t>(65536)[i] == pattern(i % flood_bytes, 9);
    REQUIRE(same);
  }
}
