// Dealing of rows to PEs, and division by multiplication; hashes, slots and lists of maps; tensors in files.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "lib/table/map_phase_plan.hpp"
#include "lib/table/map_slots.cuh"
#include "lib/table/row_dealing.hpp"
#include "lib/table/tensor_file.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/scratch.hpp"

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

TEST_CASE("a key of a map probes all slots of its part, and then those of the other parts") {
  using slots = map_slots<8, 8>;
  const uint64_t count = slots::parts::round_up(1000);
  REQUIRE(count >= 1000);
  const slots table{nullptr, count};
  const uint64_t part = table.part_slots();
  REQUIRE(count % part == 0);
  REQUIRE(count > part);
  for (uint64_t key = 0; key < 200; ++key) {
    map_probe probe = table.probe(map_hash(map_words<8>{{key}}));
    REQUIRE(probe.at() == map_hash(map_words<8>{{key}}).slot(count));
    const uint64_t home = probe.at() / part;
    std::vector<bool> probed(count);
    for (uint64_t i = 0; i < count; ++i, probe.advance()) {
      REQUIRE(probe.at() < count);
      REQUIRE(!probed[probe.at()]);
      REQUIRE((probe.at() / part == home) == (i < part));
      probed[probe.at()] = true;
    }
  }
}

TEST_CASE("parts of a map are whole for each number of slots") {
  using parts = map_parts<24>;
  for (uint64_t slots = 1; slots < 5000; ++slots) {
    const uint64_t rounded = parts::round_up(slots), part = uint64_t{1} << parts::shift(rounded);
    REQUIRE(rounded >= slots);
    REQUIRE(rounded < slots + (uint64_t{1} << parts::most_shift));
    REQUIRE(rounded % part == 0);
  }
}

TEST_CASE("lists of collective insertions hold the mean, and stay within their memory") {
  using limits = map_phase_limits;
  constexpr uint32_t most_bins = 16, item_bytes = 16, shift = 4;
  uint64_t plans = 0;
  for (uint32_t pes = 1; pes <= 9; ++pes)
    for (uint64_t slots = 16; slots <= 8192; slots += 16)
      for (const uint64_t items : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{1000}, uint64_t{100000}}) {
        const auto plan = map_phase_plan::of(slots, shift, item_bytes, pes, most_bins, items);
        REQUIRE((!plan.pays || (items >= limits::least_items && items * limits::most_slots_of_item >= slots)));
        if (!plan.pays) continue;
        ++plans;
        const uint64_t parts = slots >> shift, in_group = uint64_t{1} << plan.group_shift;
        REQUIRE(plan.parts == parts);
        REQUIRE(plan.groups * in_group >= parts);
        REQUIRE((plan.groups - 1) * in_group < parts);
        REQUIRE(in_group <= most_bins);
        REQUIRE(plan.groups * pes <= most_bins);
        REQUIRE(plan.chunk > 0);
        REQUIRE(plan.chunk <= items);
        REQUIRE(plan.room * parts * pes >= plan.chunk * in_group);
        if (plan.group_shift) REQUIRE(plan.room_of_part * parts >= plan.chunk);
        // Beside the bound: the last group may have fewer parts than others, and a list has 16 items more.
        const uint64_t padded = plan.groups * in_group, lists = plan.groups * pes + padded;
        REQUIRE((plan.items_of_groups(pes) + plan.items_of_parts()) * item_bytes * parts <=
                std::max(limits::most_list_bytes, slots * item_bytes) * padded + lists * 16 * item_bytes * parts);
      }
  REQUIRE(plans > 1000);
}

namespace {
/// The bytes of a file of safetensors.
std::string tensors(const std::string& header, uint64_t data, uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> 8 * i & 255);
  return bytes + header + std::string(data, 'x');
}
std::string tensors(const std::string& header, uint64_t data) { return tensors(header, data, header.size()); }
/// A header with the tensors `a`, of `shape` and `offsets`, and `b`, of 4 bytes behind 24.
std::string header_of(const std::string& shape, const std::string& offsets, const std::string& dtype = "\"F32\"") {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}})";
}
}  // namespace

TEST_CASE("tensors are found in files of safetensors") {
  const scratch folder;
  const std::string header = header_of("[3,2]", "[0,24]");
  const open_file file(folder.write(tensors(header, 28), "right"));
  const tensor_place a = find_tensor(file, "a"), b = find_tensor(file, "b");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<uint64_t>{3, 2});
  CHECK(a.begin == 8 + header.size());
  CHECK(a.bytes == 24);
  CHECK(b.begin == a.begin + 24);
  CHECK(find_tensor(open_file(folder.write(tensors(R"({"e":{"dtype":"F64","shape":[0,9],"data_offsets":[0,0]}})", 0))),
                    "e")
            .bytes == 0);
}

TEST_CASE("a damaged file of safetensors is refused with a reason") {
  const scratch folder;
  const auto why = [&](const std::string& bytes, const std::string& tensor = "a") {
    const std::string path = folder.write(bytes, "damaged");
    const std::string text = error_of([&] { find_tensor(open_file(path), tensor); });
    CHECK(text.starts_with(path));
    return text;
  };
  const std::string right = header_of("[3,2]", "[0,24]");
  CHECK_THAT(why("1234567"), contains_text("7 bytes are no file of safetensors"));
  CHECK_THAT(why(tensors(right, 28, ~uint64_t{0})), contains_text("the header would have 18446744073709551615 bytes"));
  CHECK_THAT(why(tensors(right, 28, right.size() + 29)), contains_text("the header would have"));
  CHECK_THAT(why(tensors("[1", 28)), contains_text("is no JSON"));
  CHECK_THAT(why(tensors("[1]", 28)), contains_text("is no object of JSON"));
  CHECK_THAT(why(tensors(R"({"a":1,"a":2})", 28)), contains_text("has 'a' twice"));
  CHECK_THAT(why(tensors(R"({"a":1})", 28)), contains_text("tensor 'a' is no object"));
  CHECK_THAT(why(tensors(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4)), contains_text("'dtype' is no text"));
  CHECK_THAT(why(tensors(header_of("[3,-2]", "[0,24]"), 28)), contains_text("'shape' is no list of whole numbers"));
  CHECK_THAT(why(tensors(header_of("[3,2]", "[0,24.0]"), 28)), contains_text("'data_offsets' is no list"));
  CHECK_THAT(why(tensors(header_of("[3,2]", "[24,0]"), 28)), contains_text("not the begin and the end"));
  CHECK_THAT(why(tensors(header_of("[3,2]", "[0,24,28]"), 28)), contains_text("not the begin and the end"));
  CHECK_THAT(why(tensors(right, 27)), contains_text("it ends at byte 28 of the data, which have 27: is the file cut"));
  CHECK_THAT(why(tensors(right, 30)), contains_text("behind the last tensor are 2 bytes"));
  CHECK_THAT(why(tensors(header_of("[3,3]", "[0,24]"), 28)), contains_text("do not make up the 24 bytes"));
  CHECK_THAT(why(tensors(header_of("[4294967296,4294967296]", "[0,24]"), 28)), contains_text("do not make up"));
  CHECK_THAT(why(tensors(header_of("[7,1]", "[0,28]"), 28)), contains_text("overlaps another one"));
  CHECK_THAT(why(tensors(header_of("[5,1]", "[4,24]"), 28)), contains_text("no tensor has the 4 bytes in front of"));
  CHECK_THAT(why(tensors(header_of("[3,2]", "[0,24]", "\"F4\""), 28)), contains_text("type that is not known: F4"));
  CHECK_THAT(why(tensors(right, 28), "c"), contains_text("has no tensor 'c'; it has 'a', 'b'"));
  CHECK_THAT(error_of([&] { open_file(folder.path("none")); }), contains_text("No such file"));
  CHECK_THAT(error_of([&] { open_file(folder.directory); }), contains_text("no regular file"));
}
