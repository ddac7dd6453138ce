// Dealing of rows to PEs, and division by multiplication.
#include <algorithm>
#include <random>
#include <vector>

#include "lib/table/row_dealing.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("a divisor divides any number of 64 bits") {
  constexpr uint64_t most = ~uint64_t{0};
  std::vector<uint64_t> divisors{2,          3,
                                 5,          7,
                                 10,         33,
                                 64,         1000,
                                 1ull << 31, (1ull << 32) - 1,
                                 1ull << 32, (1ull << 32) + 1,
                                 1ull << 63, (1ull << 63) + 1,
                                 most - 1,   most};
  std::mt19937_64 draw(1);
  for (int i = 0; i < 200; ++i) divisors.push_back(std::max<uint64_t>(draw() >> draw() % 63, 2));
  for (const uint64_t by : divisors) {
    const divisor division(by);
    CAPTURE(by);
    std::vector<uint64_t> numbers{0, 1, by - 1, by, by + 1, most - 1, most, most / by * by, most / by * by - 1};
    for (int i = 0; i < 200; ++i) {
      const uint64_t number = draw() >> draw() % 64;
      numbers.insert(numbers.end(), {number, number / by * by, number / by * by - 1});
    }
    for (const uint64_t number : numbers) {
      CAPTURE(number);
      REQUIRE(division.quotient(number) == number / by);
    }
  }
}

TEST_CASE("each place of a PE has one row, and its row is there") {
  for (const dealt how : {dealt::blocks, dealt::cyclic})
    for (const uint64_t rows : {0ull, 1ull, 2ull, 3ull, 7ull, 64ull, 1000ull})
      for (const uint32_t pes : {1u, 2u, 3u, 4u, 7u, 72u}) {
        const row_dealing dealing(rows, pes, how);
        CAPTURE(static_cast<int>(how), rows, pes);
        uint64_t all = 0, most = 0;
        for (uint32_t pe = 0; pe < pes; ++pe) {
          const uint64_t count = dealing.count(pe);
          REQUIRE(dealing.first(pe) == (count ? dealing.row(pe, 0) : rows));
          for (uint64_t place = 0; place < count; ++place) {
            const uint64_t row = dealing.row(pe, place);
            REQUIRE(row == (how == dealt::blocks || pes == 1 ? all + place : place * pes + pe));
            REQUIRE(dealing.owner(row) == pe);
            REQUIRE(dealing.place(row) == place);
          }
          all += count;
          most = std::max(most, count);
        }
        REQUIRE(all == rows);
        REQUIRE(most <= dealing.room());
        REQUIRE(dealing.room() <= std::max<uint64_t>(most, 2));
      }
}
