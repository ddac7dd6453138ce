#include "device/block_sort.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "lib/base/error.hpp"
#include "test/catch.hpp"
#include "test/simt_kernels.cuh"

using namespace gravel;

namespace {

template <int BLOCK, int ITEMS>
void check_sort(int begin_bit, int end_bit, uint64_t seed) {
  INFO("block " << BLOCK << " items " << ITEMS << " bits " << begin_bit << " to " << end_bit << " seed "
                << seed);
  constexpr size_t blocks = 3, of_block = size_t{BLOCK} * ITEMS;
  std::mt19937 draw(static_cast<unsigned>(BLOCK + begin_bit * 100 + end_bit));
  std::vector<uint32_t> keys(blocks * of_block);
  for (auto& key : keys) key = static_cast<uint32_t>(draw());
  auto expected = keys;
  const uint64_t mask = (uint64_t{1} << (end_bit - begin_bit)) - 1;
  for (size_t b = 0; b < blocks; ++b)
    std::stable_sort(expected.begin() + static_cast<long>(b * of_block),
                     expected.begin() + static_cast<long>((b + 1) * of_block), [&](uint32_t x, uint32_t y) {
                       return (x >> begin_bit & mask) < (y >> begin_bit & mask);
                     });
  simt::launch(blocks, BLOCK, {.threads = 2, .seed = seed},
               [&] { kernels::sort_block<BLOCK, ITEMS>(keys.data(), begin_bit, end_bit, 2); });
  REQUIRE(keys == expected);  // equal digits keep their order: the other bits tell
}

}  // namespace

TEST_CASE("a block sorts its keys by some bits, stably") {
  for (uint64_t seed : {0, 1, 2})
    for (auto [begin, end] :
         {std::pair{0, 32}, {0, 6}, {8, 16}, {31, 32}, {3, 20}, {5, 5}, {0, 0}, {16, 32}}) {
      check_sort<1, 1>(begin, end, seed);
      check_sort<32, 4>(begin, end, seed);
      check_sort<96, 7>(begin, end, seed);
      check_sort<256, 16>(begin, end, seed);
    }
}

TEST_CASE("a block scans") {
  for (uint64_t seed : {0, 1, 2}) {
    std::vector<uint32_t> values(2 * 96), totals(2 * 96);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i * i + 1);
    const auto in = values;
    simt::launch(2, 96, {.seed = seed}, [&] { kernels::scan_block<96>(values.data(), totals.data()); });
    for (size_t b = 0; b < 2; ++b) {
      uint32_t sum = 0;
      for (size_t t = b * 96; t < (b + 1) * 96; ++t) {
        REQUIRE(values[t] == sum);
        sum += in[t];
      }
      for (size_t t = b * 96; t < (b + 1) * 96; ++t) REQUIRE(totals[t] == sum);
    }
  }
}

TEST_CASE("the block must have the lanes that the sort is for, all of them") {
  uint32_t keys[64] = {};
  CHECK_THROWS_WITH(simt::launch(1, 64, {.threads = 1}, [&] { kernels::sort_block<32, 1>(keys, 0, 8, 1); }),
                    contains_text("block_sort is for blocks of 32 lanes; this one has 64"));
  for (uint64_t seed : {0, 1, 2, 3})
    CHECK_THROWS_WITH(simt::launch(1, 64, {.threads = 1, .seed = seed},
                                   [&] {
                                     if (threadIdx.x == 9) return;
                                     kernels::sort_block<64, 1>(keys, 0, 8, 1);
                                   }),
                      contains_text("block_sort"));
}
