#include "host/node/hello.hpp"

#include "test/catch.hpp"

using namespace gravel;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

hello some_hello() {
  hello h;
  h.pe = 3;
  h.node = 1;
  h.bus_id = "0000:3B:00.0";
  h.shape.packet_size = 4096;
  h.shape.packets = 3;
  h.shape.channels = 12;
  h.shape.n_planes = 2;
  h.shape.n_pes = 4;
  h.shape.slot_size = 16384;
  h.shape.slots = 256;
  h.shape.warp_slots = 2048;
  h.node_of_pe = {0, 0, 1, 1};
  h.handlers = {{0xdeadbeef, "visit"}, {7, ""}};
  return h;
}

wiring some_wiring() {
  wiring w;
  w.worker = {bytes_of("address of plane 0"), bytes_of("1")};
  w.keys = {bytes_of("key of PE 0"), bytes_of("key of PE 1"), {}};
  return w;
}

}  // namespace

TEST_CASE("hello makes the round trip") {
  for (bool with_handlers : {true, false}) {
    hello h = some_hello();
    if (!with_handlers) h.handlers.clear();
    const hello back = hello::unpack(h.pack());
    CHECK(back.pe == h.pe);
    CHECK(back.node == h.node);
    CHECK(back.shape == h.shape);
    CHECK(back.bus_id == h.bus_id);
    CHECK(back.node_of_pe == h.node_of_pe);
    CHECK(back.handlers == h.handlers);
  }
}

TEST_CASE("wiring makes the round trip, also without transit memory") {
  for (bool empty : {false, true}) {
    const wiring w = empty ? wiring() : some_wiring();
    const wiring back = wiring::unpack(w.pack());
    CHECK(back.worker == w.worker);
    CHECK(back.keys == w.keys);
  }
}

TEST_CASE("hello and wiring cut anywhere are refused") {
  const auto whole = some_hello().pack(), wires = some_wiring().pack();
  for (size_t n = 0; n < whole.size(); ++n) CHECK_THROWS_AS(hello::unpack(std::span(whole).first(n)), error);
  for (size_t n = 0; n < wires.size(); ++n) CHECK_THROWS_AS(wiring::unpack(std::span(wires).first(n)), error);
}

TEST_CASE("a hello of another version is refused by its number") {
  auto packed = some_hello().pack();
  packed[0] = std::byte{99};
  CHECK_THROWS_WITH(hello::unpack(packed), contains_text("99"));
}

TEST_CASE("absurd counts are refused without allocating for them") {
  blob_writer out;
  out << ~0u << 1u;
  CHECK_THROWS_WITH(wiring::unpack(out.bytes), contains_text("wiring"));
  blob_writer keys;
  keys << 1u << ~0u;
  CHECK_THROWS_WITH(wiring::unpack(keys.bytes), contains_text("wiring"));
  blob_writer length;
  length << 1u << 0u << ~0ull;
  CHECK_THROWS_WITH(wiring::unpack(length.bytes), contains_text("too short"));
}

TEST_CASE("any byte of a hello or wiring may be wrong: an error or some value, never a crash") {
  for (const auto& good : {some_hello().pack(), some_wiring().pack()})
    for (size_t at = 0; at < good.size(); ++at)
      for (int value : {0, 1, 0x7f, 0xff}) {
        auto bad = good;
        bad[at] = static_cast<std::byte>(value);
        for (int which = 0; which < 2; ++which) try {
            if (which) hello::unpack(bad);
            else wiring::unpack(bad);
          } catch (const error&) {
          }
      }
  SUCCEED("no crash");
}

TEST_CASE("the serializer: numbers, texts, bytes, and an end") {
  blob_writer out;
  out << uint8_t{5} << std::string("text") << uint64_t{1} << std::string() << true;
  blob_reader in(out.bytes);
  uint8_t five;
  std::string text, none = "x";
  uint64_t one;
  bool yes = false;
  in >> five >> text >> one >> none >> yes;
  CHECK(five == 5);
  CHECK(text == "text");
  CHECK(one == 1);
  CHECK(none.empty());
  CHECK(yes);
  CHECK(in.empty());
  CHECK_THROWS_WITH(in >> five, contains_text("too short"));
}
