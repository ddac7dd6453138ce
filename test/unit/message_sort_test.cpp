// The block sender's sort, by whole blocks and by some lanes of a warp, against the standard library's.
#include "device/message_sort.cuh"

#include <algorithm>
#include <random>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/message_sort_kernels.cuh"

using namespace gravel::detail;

namespace {

template <int BLOCK, int CAPACITY>
void check_sort(dim3 block, uint32_t units, uint32_t key_bits, uint32_t lanes, uint64_t seed, bool counted = false) {
  INFO("block of " << BLOCK << ", " << units << " of " << CAPACITY << " units, keys of " << key_bits << " bits, lanes "
                   << lanes << ", seed " << seed);
  constexpr uint32_t blocks = 2;
  std::mt19937 draw(BLOCK + units + key_bits * 1000);
  std::vector<uint32_t> keys(blocks * CAPACITY);
  for (uint32_t& key : keys) key = draw() % 4 == 0 ? ~0u : draw() & ((1u << key_bits) - 1);
  std::vector<kernels::sorted_positions<CAPACITY>> found(blocks);
  simt::launch(blocks, block, {.threads = 2, .seed = seed}, [&] {
    if (counted) kernels::sort_counted_messages<BLOCK, CAPACITY>(keys.data(), units, key_bits, lanes, found.data());
    else kernels::sort_messages<BLOCK, CAPACITY>(keys.data(), units, key_bits, lanes, 2, found.data());
  });
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint32_t* key = &keys[b * CAPACITY];
    std::vector<uint16_t> order, runs;
    for (uint32_t i = 0; i < units; ++i)
      if (key[i] != ~0u) order.push_back(static_cast<uint16_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](uint16_t x, uint16_t y) { return key[x] < key[y]; });
    for (uint16_t i = 0; i < order.size(); ++i)
      if (i == 0 || key[order[i]] != key[order[i - 1u]]) runs.push_back(i);
    REQUIRE(found[b].n_messages == order.size());
    if (counted)  // in a row they lie as they were counted
      for (size_t r = 0; r < runs.size(); ++r)
        std::sort(found[b].order + runs[r], found[b].order + (r + 1 < runs.size() ? runs[r + 1] : order.size()));
    REQUIRE(std::equal(order.begin(), order.end(), found[b].order));
    REQUIRE(found[b].n_rows == runs.size());
    REQUIRE(std::equal(runs.begin(), runs.end(), found[b].row_first));
  }
}

}  // namespace

TEST_CASE("a block sorts what it has gathered, stably, whatever its shape") {
  for (uint64_t seed : {0, 1, 2})
    for (uint32_t key_bits : {4u, 5u, 8u, 9u, 13u, 19u}) {
      check_sort<1, 128>(1, 128, key_bits, 0, seed);
      check_sort<32, 128>(dim3(8, 4), 128, key_bits, 0, seed);
      check_sort<96, 192>(96, 100, key_bits, 0, seed);
      check_sort<40, 160>(dim3(2, 4, 5), 159, key_bits, 0, seed);
      check_sort<256, 1024>(dim3(16, 16), 1024, key_bits, 0, seed);
      check_sort<1024, 2048>(dim3(8, 8, 16), 1500, key_bits, 0, seed);
    }
}

TEST_CASE("some lanes of a warp sort for their block") {
  for (uint64_t seed : {0, 1, 2})
    for (uint32_t lanes : {1u, 0x80000000u, 0x00ff00f0u, ~0u})
      for (uint32_t key_bits : {4u, 8u, 9u, 19u})
        for (uint32_t units : {1u, 127u, 1024u}) check_sort<64, 1024>(64, units, key_bits, lanes, seed);
}

TEST_CASE("counted messages are sorted, whichever lanes counted them") {
  for (uint64_t seed : {0, 1, 2})
    for (uint32_t key_bits : {1u, 4u, 7u, 8u, 13u}) {
      check_sort<1, 128>(1, 128, key_bits, 0, seed, true);
      check_sort<40, 160>(dim3(2, 4, 5), 159, key_bits, 0, seed, true);
      check_sort<256, 1024>(dim3(16, 16), 1024, key_bits, 0, seed, true);
      for (uint32_t lanes : {1u, 0x00ff00f0u, ~0u})
        for (uint32_t units : {1u, 127u, 1024u}) check_sort<64, 1024>(64, units, key_bits, lanes, seed, true);
    }
}
