#include "lib/base/packet.hpp"

#include <cstring>
#include <memory>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/packet_samples.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t size = 4096;
constexpr uint32_t sink = 3, n_sinks = 8, capacity = packet_capacity_units(size);

struct packet_memory {
  alignas(64) char bytes[size] = {};
};

struct open_packet {
  std::unique_ptr<packet_memory> memory = std::make_unique<packet_memory>();
  std::vector<unit> messages;
  packet_writer writer;
  open_packet() {
    for (uint64_t i = 0; i < 1024; ++i) messages.push_back({{i, ~i}});
    writer.open(memory->bytes, size);
  }
  uint32_t append(uint32_t n, const row_kind& kind, uint32_t to = sink) {
    return append_to(writer, to, kind, words_at(messages.data()), n);
  }
  uint32_t append(uint32_t n, uint32_t units, uint32_t to = sink) { return append(n, wide_kind(units), to); }
  packet_header* close(uint64_t sequence = 7, uint32_t to = sink) { return writer.close(sequence, to, 2, 1, true); }
};

/// Every kind that is not large.
std::vector<row_kind> all_kinds() {
  std::vector<row_kind> kinds;
  for (uint32_t units = 1; units <= max_small_units; ++units) kinds.push_back(wide_kind(units));
  for (op o : update_ops)
    for (value_type type : value_types)
      if (takes_type(o, type)) kinds.push_back(update_kind(o, type));
  for (uint32_t bytes = 0; bytes <= compact_am_bytes; ++bytes) kinds.push_back(am_kind(77 + bytes, bytes));
  return kinds;
}
uint32_t most_of(const row_kind& kind) { return capacity * row_kind::words_of_unit / kind.words; }

packet_fault check(const packet_header* p, uint64_t sequence = 7, uint32_t to = sink) {
  return check_packet(p, p->bytes, {size, sequence, to, n_sinks});
}

}  // namespace

TEST_CASE("a packet carries what was appended") {
  open_packet p;
  CHECK(p.writer.empty());
  CHECK(p.append(3, 1) == 3);
  CHECK(p.append(2, 1) == 2);  // same row
  CHECK(p.append(2, 2) == 2);
  CHECK(p.append(1, 4) == 1);
  CHECK_FALSE(p.writer.empty());
  packet_header* h = p.close();
  CHECK_FALSE(p.writer.is_open());
  CHECK(h->magic == packet_magic);
  CHECK(h->bytes == packet_payload_offset + 13 * sizeof(unit));
  CHECK(h->sequence == 7);
  CHECK(h->sink == sink);
  CHECK(h->source_node == 2);
  CHECK(h->plane == 1);
  CHECK(h->flush == 1);
  CHECK(h->n_messages == 8);
  CHECK(h->n_units == 13);
  REQUIRE(h->n_rows == 3);
  CHECK(rows_of(h)[0].messages == 5);
  CHECK(rows_of(h)[1].kind == wide_kind(2));
  CHECK(rows_of(h)[2].kind == wide_kind(4));
  CHECK(payload_of(h)[2].word[0] == 2);
  CHECK(payload_of(h)[3].word[0] == 0);
  CHECK(payload_of(h)[8].word[1] == ~3ull);
  CHECK(check(h) == packet_fault::fine);
}

TEST_CASE("a packet takes what fits and no more") {
  for (uint32_t units = 1; units <= 4; ++units) {
    open_packet p;
    CHECK(p.append(1024 / units, units) == capacity / units);
    CHECK(p.append(1, units) == (capacity % units >= units ? 1 : 0));
    CHECK(p.append(1, 4) == 0);
    CHECK(p.append(5, 1) == capacity % units);
    const packet_header* h = p.close();
    CHECK(h->bytes <= size);
    CHECK(check(h) == packet_fault::fine);
  }
}

TEST_CASE(
    "rows of every kind: each append extends the row where its last message ends, and the next row begins at a unit") {
  const uint32_t appends[] = {1, 2, 4, 1};  // in no multiple of a unit
  for (const row_kind& kind : all_kinds()) {
    INFO("operation " << static_cast<int>(kind.operation) << ", type " << int{kind.type} << ", words " << kind.words);
    open_packet p;
    std::memset(p.memory->bytes, 0xee, size);
    REQUIRE(p.append(1, 1) == 1);
    uint32_t n = 0;
    for (uint32_t more : appends) {
      const uint32_t* const from = words_at(p.messages.data()) + n * kind.words;
      REQUIRE(append_to(p.writer, sink, kind, from, more) == more);
      n += more;
    }
    const row_kind other = kind == wide_kind(2) ? wide_kind(3) : wide_kind(2);
    REQUIRE(p.append(1, other) == 1);
    const packet_header* h = p.close();
    const bool first_extends = kind == wide_kind(1);
    REQUIRE(h->n_rows == (first_extends ? 2 : 3));
    const message_row& row = rows_of(h)[first_extends ? 0 : 1];
    CHECK(row.kind == kind);
    CHECK(row.messages == n + first_extends);
    CHECK(h->n_messages == n + 2);
    const uint32_t units = (n * kind.words + 3) / 4;
    CHECK(h->n_units == 1 + units + other.units());
    CHECK(h->bytes == packet_payload_offset + h->n_units * sizeof(unit));
    const uint32_t* const at = words_at(payload_of(h) + 1);
    CHECK(std::memcmp(at, p.messages.data(), n * bytes_of(kind)) == 0);
    CHECK(std::memcmp(at + units * 4, p.messages.data(), bytes_of(other)) == 0);
    CHECK(check(h) == packet_fault::fine);
  }
}

TEST_CASE("messages of every kind go on in the next packet where one is full") {
  for (const row_kind& kind : all_kinds()) {
    INFO("operation " << static_cast<int>(kind.operation) << ", type " << int{kind.type} << ", words " << kind.words);
    open_packet p;
    const auto all = static_cast<uint32_t>(p.messages.size() * row_kind::words_of_unit / kind.words);
    const uint32_t* const words = words_at(p.messages.data());
    for (uint32_t n = 0; n < all;) {
      const uint32_t begin = n;
      // Some at a time, so that the end of the packet lies within an append.
      for (uint32_t taken = 7; taken == 7; n += taken)
        taken = append_to(p.writer, sink, kind, words + n * kind.words, std::min(7u, all - n));
      REQUIRE(n - begin == std::min(most_of(kind), all - begin));
      CHECK(p.append(1, kind) == (n - begin < most_of(kind) ? 1 : 0));
      const packet_header* h = p.close();
      REQUIRE(check(h) == packet_fault::fine);
      REQUIRE(h->n_rows == 1);
      REQUIRE(std::memcmp(payload_of(h), words + begin * kind.words, (n - begin) * bytes_of(kind)) == 0);
      p.writer.open(p.memory->bytes, size);
    }
  }
}

TEST_CASE("the rest of a full packet's last unit is for messages of its row alone") {
  for (const row_kind& kind :
       {update_kind(op::inc, value_type::u64), update_kind(op::add, value_type::u32), am_kind(5, 3)}) {
    open_packet p;
    const uint32_t most = most_of(kind);
    REQUIRE(p.append(most - 1, kind) == most - 1);
    CHECK(p.append(1, wide_kind(1)) == 0);
    CHECK(p.append(1, kind, sink + 1) == 0);
    CHECK(p.append(1, update_kind(op::inc, value_type::i32)) == 0);
    CHECK(p.append(2, kind) == 1);
    CHECK(p.append(1, kind) == 0);
    const packet_header* h = p.close();
    CHECK(h->n_messages == most);
    CHECK(h->n_units == capacity);
    CHECK(h->n_rows == 1);
    CHECK(check(h) == packet_fault::fine);
  }
}

TEST_CASE("what differs in a kind, or in its sink, is another row") {
  open_packet p;
  const row_kind kinds[] = {update_kind(op::inc, value_type::u64),
                            update_kind(op::inc, value_type::i64),
                            am_kind(1, 4),
                            am_kind(2, 4),
                            am_kind(2, 3),
                            wide_kind(1),
                            update_kind(op::put, value_type::u32),
                            update_kind(op::put, value_type::u16)};
  for (int round = 0; round < 2; ++round)
    for (uint32_t to : {0u, 1u})
      for (const row_kind& kind : kinds) REQUIRE(p.append(1, kind, to) == 1);
  packet_header* h = p.close(7, transit_sink);
  REQUIRE(h->n_rows == 4 * std::size(kinds));
  CHECK(h->n_units == h->n_rows);
  for (uint32_t r = 0; r < h->n_rows; ++r) {
    CHECK(rows_of(h)[r].kind == kinds[r % std::size(kinds)]);
    CHECK(rows_of(h)[r].sink == r / std::size(kinds) % 2);
    CHECK(rows_of(h)[r].messages == 1);
  }
  CHECK(check(h, 7, transit_sink) == packet_fault::fine);
}

TEST_CASE("a kind that cannot be is a bad table") {
  const auto changed = [](row_kind kind, auto change) {
    change(kind);
    return kind;
  };
  const row_kind inc = update_kind(op::inc, value_type::u64), add = update_kind(op::add, value_type::u64),
                 am = am_kind(9, 56);
  const row_kind bad[] = {
      changed(inc, [](row_kind& k) { k.operation = op::count; }),
      changed(inc, [](row_kind& k) { k.operation = static_cast<op>(0xff); }),
      changed(inc, [](row_kind& k) { k.operation = op::none; }),  // a wide one of one word
      changed(inc, [](row_kind& k) { k.type = static_cast<uint8_t>(value_type::u8); }),
      changed(inc, [](row_kind& k) { k.type = static_cast<uint8_t>(value_type::count); }),
      changed(inc, [](row_kind& k) { k.type = host_origin | static_cast<uint8_t>(value_type::u64); }),
      changed(inc, [](row_kind& k) { k.words = 0; }),
      changed(inc, [](row_kind& k) { k.words = 2; }),
      changed(add, [](row_kind& k) { k.words = 2; }),
      changed(add, [](row_kind& k) { k.words = 4; }),
      changed(add, [](row_kind& k) { k.operation = op::get; }),  // is answered: wide
      changed(add, [](row_kind& k) { k.operation = op::fetch_add; }),
      changed(add, [](row_kind& k) { k.operation = op::cell_reply; }),
      changed(add, [](row_kind& k) { k.operation = op::put_bulk; }),
      changed(add,
              [](row_kind& k) {
                k.operation = op::bit_xor;
                k.type = static_cast<uint8_t>(value_type::f64);
              }),
      changed(am, [](row_kind& k) { k.type = 57; }),
      changed(am,
              [](row_kind& k) {
                k.type = 57;
                k.words = 15;
              }),
      changed(am,
              [](row_kind& k) {
                k.type = 255;
                k.words = 64;
              }),
      changed(am, [](row_kind& k) { k.type = 52; }),
      changed(am, [](row_kind& k) { k.type = 0; }),
      changed(am, [](row_kind& k) { k.words = 0; }),
      changed(wide_kind(1), [](row_kind& k) { k.words = 0; }),
      changed(wide_kind(1), [](row_kind& k) { k.words = 3; }),
      changed(wide_kind(1), [](row_kind& k) { k.words = 0xffff; }),
      row_kind::of_bits(~0ull),
      row_kind::of_bits(0),
  };
  for (const row_kind& kind : bad) {
    INFO("kind " << std::hex << kind.bits());
    open_packet p;
    p.append(3, wide_kind(1));
    p.append(6, inc);
    packet_header* h = p.close();
    REQUIRE(check(h) == packet_fault::fine);
    rows_of(h)[1].kind = kind;
    CHECK(check(h) == packet_fault::bad_table);
  }
}

TEST_CASE("no number of messages overflows the totals") {
  for (const row_kind& kind : {update_kind(op::inc, value_type::u64), update_kind(op::max, value_type::i64),
                               am_kind(1, 56), wide_kind(1), wide_kind(max_am_units)})
    for (uint32_t messages :
         {5u, 1u << 16, 1u << 28, 1u << 30, (1u << 30) + 1, 1u << 31, (1u << 31) + 1, ~0u - 3, ~0u}) {
      INFO(messages << " messages of " << kind.words << " words");
      open_packet p;
      REQUIRE(p.append(4, kind) == 4);
      packet_header* h = p.close();
      for (bool total : {false, true}) {
        rows_of(h)[0].messages = messages;
        if (total) h->n_messages = messages;
        CHECK(check(h) == packet_fault::bad_total);
      }
    }
  // All rows at once.
  open_packet p;
  for (uint32_t r = 0; r < max_packet_rows; ++r) REQUIRE(p.append(1, am_kind(r, 56)) == (r < capacity / 4 ? 1 : 0));
  packet_header* h = p.close();
  for (uint32_t r = 0; r < h->n_rows; ++r) rows_of(h)[r].messages = ~0u;
  CHECK(check(h) == packet_fault::bad_total);
}

TEST_CASE("the row table has an end") {
  open_packet p;
  for (uint32_t i = 0; i < max_packet_rows; ++i) REQUIRE(p.append(1, 1, i % 2) == 1);
  CHECK(p.append(1, 1, 0) == 0);                          // another row
  CHECK(p.append(1, 1, (max_packet_rows - 1) % 2) == 1);  // the last one still grows
  packet_header* h = p.close(7, transit_sink);
  CHECK(h->n_rows == max_packet_rows);
  CHECK(check(h, 7, transit_sink) == packet_fault::fine);
}

TEST_CASE("a bulk message has a row to itself") {
  open_packet p;
  p.messages[0].word[0] = make_word0(op::put_bulk, 0, 0);
  for (uint32_t units : {20u, 20u, 5u, 5u, 17u, 17u}) CHECK(p.append(1, units) == 1);
  packet_header* h = p.close();
  REQUIRE(h->n_rows == 6);
  for (uint32_t i = 0; i < 6; ++i) CHECK(rows_of(h)[i].messages == 1);
  CHECK(check(h) == packet_fault::fine);
}

TEST_CASE("large active messages share rows, but not with bulk messages of their size") {
  open_packet p;
  const auto append = [&](op o, uint32_t n) {
    p.messages[0].word[0] = make_word0(o, 0, 0);
    return p.append(n, 5);
  };
  CHECK(append(op::am, 3) == 3);
  CHECK(append(op::am, 2) == 2);
  CHECK(append(op::put_bulk, 1) == 1);
  CHECK(append(op::am, 2) == 2);
  CHECK(p.append(2, max_am_units) == 2);
  packet_header* h = p.close();
  REQUIRE(h->n_rows == 4);
  for (auto [i, messages] : {std::pair{0, 5u}, {1, 1u}, {2, 2u}, {3, 2u}}) CHECK(rows_of(h)[i].messages == messages);
  CHECK(check(h) == packet_fault::fine);
}

TEST_CASE("messages as large as bulk ones that claim to be something else do not share a row") {
  open_packet p;
  p.messages[0].word[0] = make_word0(op::put, static_cast<uint32_t>(value_type::u64), 0);
  const uint32_t units = max_am_units + 1;
  CHECK(p.append(1, units) == 1);
  CHECK(p.append(1, units) == 1);
  packet_header* const h = p.close();
  CHECK(h->n_rows == 2);
  CHECK(check(h) == packet_fault::fine);
}

TEST_CASE("a writer can be opened again, and an empty packet is no fault") {
  open_packet p;
  p.append(5, 1);
  p.close();
  p.writer.open(p.memory->bytes, size);
  CHECK(p.writer.empty());
  packet_header* h = p.close(8);
  CHECK(h->n_messages == 0);
  CHECK(check(h, 8) == packet_fault::fine);
}

TEST_CASE("each fault of a packet is found") {
  open_packet p;
  p.append(6, 1);
  p.append(3, 2);
  p.append(1, 30);
  packet_header* h = p.close();
  REQUIRE(check(h) == packet_fault::fine);
  const packet_memory good = *p.memory;
  const auto with = [&](auto change) {
    *p.memory = good;
    change();
    return check_packet(h, size, {size, 7, sink, n_sinks});
  };
  CHECK(with([&] {}) == packet_fault::fine);
  CHECK(with([&] { h->magic ^= 1; }) == packet_fault::bad_magic);
  CHECK(with([&] { h->bytes += 16; }) == packet_fault::bad_length);
  CHECK(with([&] { h->bytes = ~0u; }) == packet_fault::bad_length);
  CHECK(with([&] { h->bytes = 0; }) == packet_fault::bad_length);
  CHECK(with([&] { h->n_units = ~0u; }) == packet_fault::bad_length);
  CHECK(with([&] {
          h->n_units = capacity + 1;
          h->bytes = size + 16;
        }) == packet_fault::bad_length);
  CHECK(with([&] { h->n_rows = max_packet_rows + 1; }) == packet_fault::bad_length);
  CHECK(with([&] { h->sequence = 6; }) == packet_fault::bad_sequence);
  CHECK(with([&] { h->sequence = 7 + (1ull << 32); }) == packet_fault::bad_sequence);
  CHECK(with([&] { h->sink = sink + 1; }) == packet_fault::bad_sink);
  CHECK(with([&] { h->sink = transit_sink; }) == packet_fault::bad_sink);
  CHECK(with([&] { rows_of(h)[1].sink = sink + 1; }) == packet_fault::bad_sink);
  CHECK(with([&] { rows_of(h)[0].messages = 0; }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[0].kind.words = 0; }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[2].messages = 2; }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[0].kind = wide_kind(max_am_units + 1); }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[0].messages = 7; }) == packet_fault::bad_total);
  CHECK(with([&] { h->n_messages = 9; }) == packet_fault::bad_total);
  CHECK(with([&] { h->n_rows = 2; }) == packet_fault::bad_total);
  CHECK(with([&] { h->n_rows = 0; }) == packet_fault::bad_total);
}

TEST_CASE("a packet cut short is found") {
  open_packet p;
  p.append(6, 1);
  packet_header* h = p.close();
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{packet_payload_offset - 1}})
    CHECK(check_packet(h, n, {size, 7, sink, n_sinks}) == packet_fault::bad_magic);
  CHECK(check_packet(h, h->bytes - 1, {size, 7, sink, n_sinks}) == packet_fault::bad_length);
}

TEST_CASE("a transit packet may name every sink of the job, and no other") {
  open_packet p;
  for (uint32_t to = 0; to < n_sinks; ++to) p.append(1, 1, to);
  packet_header* h = p.close(7, transit_sink);
  CHECK(check(h, 7, transit_sink) == packet_fault::fine);
  rows_of(h)[4].sink = n_sinks;
  CHECK(check(h, 7, transit_sink) == packet_fault::bad_sink);
}

TEST_CASE("10^5 mutated packets: found out, or safe to walk") {
  guarded_pages pages(8192);
  random_bits draw(4711);
  uint64_t fine = 0, found[8] = {};
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t to = i % 2 ? sink : transit_sink;
    std::vector<uint8_t> bytes = sample_packet(draw, size, 7, to, n_sinks);
    const packet_expectation expect{size, 7, to, n_sinks};
    if (i % 1000 == 0) {
      REQUIRE(check_and_walk(pages.at_end(bytes.data(), bytes.size()), bytes.size(), expect) == packet_fault::fine);
    }
    mutate(bytes, draw);
    const packet_fault fault = check_and_walk(pages.at_end(bytes.data(), bytes.size()), bytes.size(), expect);
    ++found[static_cast<int>(fault)];
    fine += fault == packet_fault::fine;
  }
  // Most mutations of header and table are found out; those of messages are not this function's business.
  for (int f = 0; f <= static_cast<int>(packet_fault::bad_total); ++f) CHECK(found[f] > 100);
  CHECK(fine < 70'000);
}

TEST_CASE("every fault has a name") {
  for (int f = 0; f <= static_cast<int>(packet_fault::bad_total); ++f)
    CHECK(std::string(name_of(static_cast<packet_fault>(f))).size() > 5);
}
