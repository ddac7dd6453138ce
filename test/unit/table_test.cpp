// Dealing of rows to PEs, and division by multiplication; hashes of keys of maps.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "lib/table/map_slots.cuh"
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

namespace {
/// Checks that numbers are as evenly spread as random ones: with Pearson's statistic within six standard deviations of
/// its mean.
void check_even(const std::vector<uint64_t>& counts, uint64_t all) {
  const double mean = static_cast<double>(all) / static_cast<double>(counts.size());
  const auto freedom = static_cast<double>(counts.size() - 1);
  double sum = 0;
  for (const uint64_t count : counts) {
    const double off = static_cast<double>(count) - mean;
    sum += off * off / mean;
  }
  REQUIRE(sum < freedom + 6 * std::sqrt(2 * freedom));
}
template <class Key, class F>
void check_hash(uint64_t keys, const F& key_of) {
  constexpr uint32_t pes = 5, tags = 64;
  constexpr uint64_t slots = 1003, parts = 17;
  std::vector<uint64_t> of_owner(pes), of_part(parts), of_tag(tags), of_all(pes * parts * tags);
  for (uint64_t i = 0; i < keys; ++i) {
    const map_hash hash(Key(key_of(i)));
    const uint64_t owner = hash.owner(pes), slot = hash.slot(slots), tag = hash.tag() >> 2 & (tags - 1);
    REQUIRE(owner < pes);
    REQUIRE(slot < slots);
    REQUIRE((hash.tag() & map_state::mask) == 0);
    const uint64_t part = slot * parts / slots;
    ++of_owner[owner];
    ++of_part[part];
    ++of_tag[tag];
    ++of_all[(owner * parts + part) * tags + tag];
  }
  check_even(of_owner, keys);
  check_even(of_part, keys);
  check_even(of_tag, keys);
  check_even(of_all, keys);
}
}  // namespace

TEST_CASE("owner, slot and tag of keys of maps are even and independent of each other, also for keys in sequence") {
  constexpr uint64_t keys = 200000;
  check_hash<map_words<4>>(keys, [](uint64_t i) { return map_words<4>{{static_cast<uint32_t>(i)}}; });
  check_hash<map_words<4>>(keys, [](uint64_t i) { return map_words<4>{{static_cast<uint32_t>(i << 12)}}; });
  for (const unsigned shift : {0u, 3u, 20u, 40u}) {
    CAPTURE(shift);
    check_hash<map_words<8>>(keys, [=](uint64_t i) { return map_words<8>{{i << shift}}; });
    check_hash<map_words<16>>(keys, [=](uint64_t i) { return map_words<16>{{i << shift, 0}}; });
    check_hash<map_words<16>>(keys, [=](uint64_t i) { return map_words<16>{{7, i << shift}}; });
    check_hash<map_words<16>>(keys, [=](uint64_t i) { return map_words<16>{{i << shift, i << shift}}; });
  }
}

TEST_CASE("slots of a map hold each key once, to the last slot") {
  using slots = map_slots<16, 8>;
  std::vector<slots::slot_type> memory(7);
  const slots table{memory.data(), memory.size()};
  const auto key_of = [](uint64_t i) { return slots::key_type{{i, ~i}}; };
  const auto nothing = [](slots::value_type*) {};
  for (uint64_t i = 0; i < memory.size(); ++i) {
    REQUIRE(table.find(key_of(i)) == nullptr);
    REQUIRE(table.put(key_of(i), {{i + 10}}, nothing));
    REQUIRE(table.put(key_of(i), {{99}}, nothing));
  }
  REQUIRE(!table.put(key_of(100), {{1}}, nothing));
  REQUIRE(table.find(key_of(100)) == nullptr);
  table.erase(key_of(3));
  table.erase(key_of(3));
  REQUIRE(table.find(key_of(3)) == nullptr);
  REQUIRE(!table.put(key_of(100), {{1}}, nothing));  // the slot of an erased key serves this key alone
  REQUIRE(table.put(key_of(3), {{55}}, nothing));
  for (uint64_t i = 0; i < memory.size(); ++i) {
    REQUIRE(table.find(key_of(i)) != nullptr);
    REQUIRE(table.find(key_of(i))->word[0] == (i == 3 ? 55 : i + 10));
  }
}
