// lib/base/wire.*, and every kind of message that processes tell each other, by one table: what is read is what was written, and
// nothing else is taken for it, nor read beyond its end.
#include "lib/base/wire.hpp"

#include <functional>
#include <set>

#include "host/aggregator/collective.hpp"
#include "host/node/hello.hpp"
#include "host/pe/peer_description.hpp"
#include "host/pe/program.hpp"
#include "lib/base/error.hpp"
#include "test/catch.hpp"
#include "test/error_of.hpp"
#include "test/packet_samples.hpp"
#include "transport/bootstrap.hpp"
#include "transport/ucx_wire.hpp"

using namespace gravel;

namespace {

using bytes = std::vector<std::byte>;

bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

struct kind_of_message {
  wire_kind kind;
  bytes sample;
  std::function<bytes(std::span<const std::byte>)> read;  ///< and written again
};

template <class T>
kind_of_message row(const T& sample) {
  return {T::kind, to_wire(sample), [](std::span<const std::byte> raw) { return to_wire(from_wire<T>(raw, "PE 3")); }};
}

const std::vector<kind_of_message>& all_kinds() {
  static const auto table = [] {
    hello h;
    h.pe = 3;
    h.shape.packet_size = 4096;
    h.shape.n_pes = 4;
    h.bus_id = "0000:3B:00.0";
    h.node_of_pe = {0, 0, 1, 1};
    h.handlers = {{0xdeadbeef, "visit"}, {7, ""}};
    const wiring w{{bytes_of("address of plane 0"), bytes_of("1")}, {bytes_of("key of PE 0"), bytes_of("key of PE 1"), {}}};
    collective_words words{};
    words.sequence = 5;
    words.bytes = 3;
    return std::vector<kind_of_message>{
        row(h),
        row(w),
        row(all_wirings{{to_wire(w), to_wire(w)}}),
        row(ready_word{}),
        row(goodbye_word{}),
        row(abort_word{"why"}),
        row(staged_values{{{"gravel.socket", bytes_of("/tmp/s")}, {"", {}}}}),
        row(program_description{"0.1", "cpu", {1, 2, 3, 4, 5, 6, 7}, {{"visit", 16, true}, {"", 0, false}}}),
        row(peer_description{"heap", "", 4, 256, "0000:3B:00.0", true, false}),
        row(reached_peers{5}),
        row(memory_description{1, 2, 3, 4}),
        row(collective::contribution{words, {1, 2}, bytes_of("abc")}),
        row(collective::result{words, bytes_of("abc")}),
        row(ucx_address{1013, {1, 2, 3, 4}, bytes_of("UCX's")}),
        row(ucx_memory_key{1013, 0x7f0000, 4096, bytes_of("UCX's")})};
  }();
  return table;
}

bytes body_of(const kind_of_message& k) { return {k.sample.begin() + sizeof(wire_header), k.sample.end()}; }

/// With a header that fits.
bytes sealed(wire_kind kind, const bytes& body) {
  wire_writer out(kind);
  for (std::byte b : body) out.put(b);
  return std::move(out).finish();
}

/// Read from right before a page that may not be read.
bytes read_at_the_end(const kind_of_message& k, const bytes& raw) {
  static guarded_pages pages(64 * 1024);
  return k.read(pages.bytes_at_end(raw));
}

/// Refused, in words that name the sender and no other error; or taken, and then written as it came.
bool refused_or_the_same(const kind_of_message& k, const bytes& raw) {
  try {
    return read_at_the_end(k, raw) == raw;
  } catch (const error& e) {
    return std::string(e.what()).starts_with("PE 3: ");
  }
}

}  // namespace

TEST_CASE("the table has every kind of message once, and every kind a name of its own") {
  std::set<wire_kind> kinds;
  std::set<std::string> names;
  for (const auto& k : all_kinds()) {
    kinds.insert(k.kind);
    names.insert(name_of(k.kind));
  }
  CHECK(all_kinds().size() == static_cast<size_t>(wire_kind::count) - 1);
  CHECK(kinds.size() == all_kinds().size());
  CHECK(names.size() == all_kinds().size());
}

TEST_CASE("what was written is read") {
  for (const auto& k : all_kinds()) {
    INFO(name_of(k.kind));
    CHECK(read_at_the_end(k, k.sample) == k.sample);
  }
  const hello h = from_wire<hello>(all_kinds()[0].sample, "PE 3");
  CHECK(h.pe == 3);
  CHECK(h.shape.packet_size == 4096);
  CHECK(h.node_of_pe == std::vector<uint32_t>{0, 0, 1, 1});
  CHECK(h.handlers[0] == std::pair(0xdeadbeefu, std::string("visit")));
}

TEST_CASE("a message that is cut anywhere is refused, with its kind and its sender") {
  for (const auto& k : all_kinds())
    for (size_t n = 0; n < k.sample.size(); ++n) {
      const std::string text = error_of([&] { read_at_the_end(k, {k.sample.begin(), k.sample.begin() + static_cast<long>(n)}); });
      INFO(name_of(k.kind) << ", " << n << " bytes: " << text);
      if (n < sizeof(wire_header)) CHECK(text == fmt::format("PE 3: a message is cut off ({} bytes)", n));
      else
        CHECK(text == fmt::format("PE 3: '{}' has {} bytes where {} were announced", name_of(k.kind), n - sizeof(wire_header),
                                  k.sample.size() - sizeof(wire_header)));
    }
}

TEST_CASE("fields that are cut or too many are refused although the header fits") {
  for (const auto& k : all_kinds()) {
    bytes body = body_of(k);
    for (size_t n = 0; n < body.size(); ++n) {
      const std::string text = error_of([&] { read_at_the_end(k, sealed(k.kind, {body.begin(), body.begin() + static_cast<long>(n)})); });
      INFO(name_of(k.kind) << ", " << n << " bytes: " << text);
      CHECK(text.find(fmt::format("PE 3: '{}' is too short", name_of(k.kind))) == 0);
    }
    body.push_back({});
    CHECK(error_of([&] { read_at_the_end(k, sealed(k.kind, body)); }) == fmt::format("PE 3: '{}' is too long by 1 bytes", name_of(k.kind)));
  }
}

TEST_CASE("any wrong bit is found") {
  for (const auto& k : all_kinds())
    for (size_t bit = 0; bit < k.sample.size() * 8; ++bit) {
      bytes wrong = k.sample;
      wrong[bit / 8] ^= std::byte(1 << bit % 8);
      INFO(name_of(k.kind) << ", bit " << bit);
      CHECK(error_of([&] { read_at_the_end(k, wrong); }).starts_with("PE 3: "));
    }
}

TEST_CASE("another version, another kind, and something else are refused as what they are") {
  for (const auto& k : all_kinds()) {
    bytes other = k.sample;
    const uint16_t version = wire_version + 1;
    std::memcpy(other.data() + offsetof(wire_header, version), &version, sizeof(version));
    CHECK(error_of([&] { read_at_the_end(k, other); }) ==
          fmt::format("PE 3: speaks version {} of Gravel's messages, this process {}: all processes of a job must run the same Gravel",
                      version, wire_version));
    CHECK(error_of([&] { read_at_the_end(k, bytes(100)); }) == "PE 3: what came is no message of Gravel");
    for (const auto& another : all_kinds())
      if (another.kind != k.kind)
        CHECK(error_of([&] { read_at_the_end(k, another.sample); }) ==
              fmt::format("PE 3: sent '{}' where '{}' was to come", name_of(another.kind), name_of(k.kind)));
  }
}

TEST_CASE("counts that are absurd take no memory, and a truth is 0 or 1") {
  for (const auto& k : all_kinds()) {
    const bytes body = body_of(k);
    for (uint64_t count : {~0ull, 1ull << 63, 1ull << 61, (1ull << 62) + 1, 1ull << 40})
      for (size_t at = 0; at + sizeof(count) <= body.size(); ++at) {
        bytes wrong = body;
        std::memcpy(wrong.data() + at, &count, sizeof(count));
        INFO(name_of(k.kind) << ", " << count << " at " << at);
        CHECK(refused_or_the_same(k, sealed(k.kind, wrong)));
      }
  }
  bytes body = body_of(row(peer_description{"", "", 0, 0, "", true, true}));
  body.back() = std::byte{2};
  CHECK(error_of([&] { from_wire<peer_description>(sealed(wire_kind::peer, body), "PE 3"); }) ==
        "PE 3: 'description as a peer' has 2 where 0 or 1 was to come");
}

TEST_CASE("random bytes behind a header that fits: an error, or what they say") {
  random_bits draw(20261122);
  for (const auto& k : all_kinds()) {
    INFO(name_of(k.kind));
    const bytes good = body_of(k);
    int wrong = 0;
    for (int i = 0; i < 4000; ++i) {
      bytes body = i % 2 ? good : bytes(draw.below(200));
      if (i % 2 == 0)
        for (std::byte& b : body) b = std::byte(draw.below(4) ? 0 : draw());  // small counts lead on
      else if (!body.empty())
        for (uint32_t n = 1 + draw.below(4); n; --n) body[draw.below(static_cast<uint32_t>(body.size()))] = std::byte(draw());
      wrong += !refused_or_the_same(k, sealed(k.kind, body));
    }
    CHECK(wrong == 0);
  }
}
