#include "lib/base/packet.hpp"

#include <cstring>
#include <memory>
#include <string>

#include "test/catch.hpp"
#include "test/packet_samples.hpp"

using namespace gravel;

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
  uint32_t append(uint32_t n, uint32_t units, uint32_t to = sink) { return writer.append(to, messages.data(), n, units); }
  packet_header* close(uint64_t sequence = 7, uint32_t to = sink) { return writer.close(sequence, to, 2, 1, true); }
};

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
  CHECK(rows_of(h)[1].units == 2);
  CHECK(rows_of(h)[2].units == 4);
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
  for (auto [i, messages] : {std::pair{0, 5}, {1, 1}, {2, 2}, {3, 2}}) CHECK(rows_of(h)[i].messages == messages);
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
  CHECK(with([&] { rows_of(h)[0].units = 0; }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[2].messages = 2; }) == packet_fault::bad_table);
  CHECK(with([&] { rows_of(h)[0].units = max_am_units + 1; }) == packet_fault::bad_table);
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
  for (int f = 0; f <= static_cast<int>(packet_fault::bad_total); ++f) CHECK(std::string(name_of(static_cast<packet_fault>(f))).size() > 5);
}
