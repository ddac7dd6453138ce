#include "lib/base/row.hpp"

#include <algorithm>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/rows.hpp"

using namespace gravel::detail;

namespace {

bool is_float(value_type t) { return t == value_type::f32 || t == value_type::f64; }
bool is_bits(op o) { return o == op::bit_and || o == op::bit_or || o == op::bit_xor; }

/// Words of a message of this kind, or 0 if there is no such kind: as the table at the head of row.hpp says.
uint32_t words_by_the_table(op o, uint32_t type) {
  if (o == op::am) return type > 56 ? 0 : std::max(1u, (type + 3) / 4);
  if (std::count(std::begin(update_ops), std::end(update_ops), o) == 0 ||
      type >= static_cast<uint32_t>(value_type::count))
    return 0;
  const auto t = static_cast<value_type>(type);
  const bool narrow = t == value_type::u8 || t == value_type::u16,
             wide = t == value_type::u64 || t == value_type::i64 || t == value_type::f64,
             half = t == value_type::f16 || t == value_type::bf16;
  if ((narrow && o != op::put) || (is_float(t) && is_bits(o)) || (half && o != op::add)) return 0;
  if (o == op::inc) return 1;
  return wide ? 3 : 2;
}

}  // namespace

TEST_CASE("which kinds there are") {
  for (uint32_t o = 0; o < 256; ++o)
    for (uint32_t type = 0; type < 256; ++type) {
      const uint32_t expected = words_by_the_table(static_cast<op>(o), type);
      for (uint32_t words : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 13u, 14u, 15u, 16u, 64u, 68u, 72u, 0xfffcu, 0xffffu}) {
        const row_kind kind{static_cast<uint16_t>(words), static_cast<op>(o), static_cast<uint8_t>(type), 5};
        const bool sound = o == 0 ? words != 0 && words % 4 == 0 : words != 0 && words == expected;
        if (is_sound(kind) != sound) {
          INFO("operation " << o << ", type " << type << ", words " << words);
          REQUIRE(is_sound(kind) == sound);
        }
      }
    }
}

TEST_CASE("kinds are told apart by each of their parts, and survive as bits") {
  std::vector<row_kind> kinds;
  for (uint32_t units = 1; units <= max_am_units; ++units) kinds.push_back(wide_kind(units));
  for (op o : update_ops)
    for (value_type type : value_types)
      if (takes_type(o, type)) kinds.push_back(update_kind(o, type));
  for (uint32_t handler : {0u, 1u, ~0u})
    for (uint32_t bytes = 0; bytes <= compact_am_bytes; ++bytes) kinds.push_back(am_kind(handler, bytes));
  for (size_t a = 0; a < kinds.size(); ++a) {
    REQUIRE(is_sound(kinds[a]));
    REQUIRE(kinds[a].bits() != 0);
    REQUIRE(row_kind::of_bits(kinds[a].bits()) == kinds[a]);
    for (size_t b = 0; b < a; ++b) REQUIRE_FALSE(kinds[a] == kinds[b]);
    message_row there{};
    const message_row row{kinds[a], 0xfffffffe, 0x80000001};
    store_row(&there, row);
    const message_row back = load_row(&there);
    REQUIRE(back.kind == row.kind);
    REQUIRE(back.sink == row.sink);
    REQUIRE(back.messages == row.messages);
  }
}

TEST_CASE("a row takes whole units, of any number of messages") {
  struct row {
    row_kind kind;
    uint64_t messages, units;
  };
  const row_kind inc = update_kind(op::inc, value_type::u64), add = update_kind(op::add, value_type::u64),
                 largest{0xffff, op::none, 0, 0};
  const row table[] = {
      {inc, 0, 0},
      {inc, 1, 1},
      {inc, 4, 1},
      {inc, 5, 2},
      {inc, ~0u, 1ull << 30},
      {update_kind(op::put, value_type::u8), 3, 2},
      {add, 1, 1},
      {add, 2, 2},
      {add, 4, 3},
      {add, 5, 4},
      {add, ~0u, (3ull * ~0u + 3) / 4},
      {am_kind(1, 0), 5, 2},
      {am_kind(1, 56), 1, 4},
      {am_kind(1, 56), 2, 7},
      {wide_kind(1), 7, 7},
      {wide_kind(17), 2, 34},
      {wide_kind(4096), 1, 4096},
      {largest, ~0u, (65535ull * ~0u + 3) / 4},
  };
  for (const row& r : table) {
    INFO(r.messages << " messages of " << r.kind.words << " words");
    CHECK(units_for(r.kind, r.messages) == r.units);
    CHECK(message_row{r.kind, 0, static_cast<uint32_t>(r.messages)}.units() == r.units);
  }
  CHECK(bytes_of(largest) == 4ull * 65535);
}

TEST_CASE("updates and puts in their wide form") {
  for (op o : update_ops)
    for (value_type type : value_types) {
      if (!takes_type(o, type)) continue;
      INFO("operation " << static_cast<int>(o) << ", type " << static_cast<int>(type));
      const uint64_t bytes = bytes_of(type);
      for (uint32_t index : {0u, 1u, 0x12345678u, ~0u})
        for (uint64_t value : {0ull, 1ull, 0xf00d5eed12345678ull, ~0ull}) {
          const uint32_t message[max_compact_words] = {index, static_cast<uint32_t>(value),
                                                       static_cast<uint32_t>(value >> 32)};
          unit wide[max_small_units];
          const row_kind kind = update_kind(o, type);
          REQUIRE(widen(kind, message, wide) == 1);
          REQUIRE(offset_of(wide[0].word[0]) == index * bytes);
          REQUIRE(op_of(wide[0].word[0]) == (o == op::inc ? op::add : o));
          REQUIRE(type_byte(wide[0].word[0]) == static_cast<uint8_t>(type));
          if (o != op::inc) REQUIRE(wide[0].word[1] == (bytes == 8 ? value : value & 0xffffffff));
          REQUIRE(units_of(wide[0].word[0], wide[0].word[1]) == 1);
          for (uint32_t number : {1u, 77u, 1u * heap_window::last}) {
            widen(kind.in_window(number), message, wide);
            REQUIRE(offset_of(wide[0].word[0]) == ((uint64_t{number} << 24) + index) * bytes);
          }
        }
    }
}

TEST_CASE("an increment adds the number 1 of its type") {
  const auto added = [](value_type type) {
    const uint32_t message[1] = {3};
    unit wide[max_small_units];
    widen(update_kind(op::inc, type), message, wide);
    return wide[0].word[1];
  };
  for (value_type type : {value_type::u32, value_type::i32, value_type::u64, value_type::i64}) CHECK(added(type) == 1);
  CHECK(__builtin_bit_cast(float, static_cast<uint32_t>(added(value_type::f32))) == 1.0f);
  CHECK(added(value_type::f32) >> 32 == 0);
  CHECK(__builtin_bit_cast(double, added(value_type::f64)) == 1.0);
}

TEST_CASE("active messages in their wide form: a first word, the arguments, and zeros") {
  for (uint32_t bytes = 0; bytes <= compact_am_bytes; ++bytes) {
    INFO(bytes << " bytes");
    uint32_t message[max_compact_words];
    std::fill(std::begin(message), std::end(message), 0xeeeeeeee);  // what follows must not be read
    const row_kind kind = am_kind(0xfedcba98, bytes);
    std::fill_n(message, kind.words, 0u);
    auto* const arguments = reinterpret_cast<unsigned char*>(message);
    for (uint32_t b = 0; b < bytes; ++b) arguments[b] = static_cast<unsigned char>(b + 1);
    unit wide[max_small_units];
    const uint32_t units = widen(kind, message, wide);
    REQUIRE(units == (8 + bytes + 15) / 16);
    REQUIRE(units <= max_small_units);
    CHECK(wide[0].word[0] == make_am_word0(0xfedcba98, bytes));
    CHECK(units_of(wide[0].word[0], 0) == units);
    const auto* const to = reinterpret_cast<const unsigned char*>(wide) + 8;
    for (uint32_t b = 0; b < units * 16 - 8; ++b) REQUIRE(to[b] == (b < bytes ? b + 1 : 0));
  }
}

TEST_CASE("a heap's words have numbers of 32 bits, up to 2^32 of them") {
  struct row {
    uint64_t heap_bytes;
    uint32_t bytes;
    bool fits;
  };
  const row table[] = {
      {4096, 1, true},       {1ull << 32, 1, true},        {(1ull << 32) + 1, 1, false},
      {1ull << 33, 2, true}, {(1ull << 33) + 2, 2, false}, {(1ull << 34) - 4096, 4, true},
      {1ull << 34, 4, true}, {(1ull << 34) + 4, 4, false}, {(1ull << 34) + 4096, 8, true},
      {1ull << 35, 8, true}, {(1ull << 35) + 8, 8, false}, {1ull << 47, 8, false},
  };
  for (const row& r : table) {
    INFO(r.heap_bytes << " bytes of words of " << r.bytes);
    CHECK(fits_index(r.heap_bytes, r.bytes) == r.fits);
    CHECK((r.heap_bytes / r.bytes <= 1ull << 32) == r.fits);
  }
}

TEST_CASE("which wide messages are bulk ones") {
  unit first{};
  const auto is_bulk_of = [&](op o, const row_kind& kind) {
    first.word[0] = make_word0(o, 0, 0);
    return is_bulk_message(kind, words_at(&first));
  };
  for (op o : {op::put_bulk, op::put_signal, op::get_bulk, op::get_pieces, op::bulk_reply}) {
    CHECK(is_bulk_of(o, wide_kind(max_small_units + 1)));
    CHECK_FALSE(is_bulk_of(o, wide_kind(max_small_units)));
    CHECK_FALSE(is_bulk_of(o, am_kind(1, 56)));  // its first word is an argument
    CHECK_FALSE(is_bulk_of(o, update_kind(op::inc, value_type::u64)));
  }
  CHECK_FALSE(is_bulk_of(op::am, wide_kind(max_am_units)));
}
