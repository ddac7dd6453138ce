// lib/base/wire.*, and every kind of message that processes send each other, by one table: a message is read as it was
// written, no other kind is taken for it, and nothing is read beyond its end.
#include "lib/base/wire.hpp"

#include <fmt/format.h>
#include <functional>
#include <set>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/packet_samples.hpp"
#include "test/support/wire_samples.hpp"

using namespace gravel::detail;
using namespace gravel::detail::wire_samples;

namespace {

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

/// The error that a hello with this change is refused with.
template <class F>
std::string refusal(F change) {
  auto h = from_wire<hello>(all_kinds()[0].sample, "PE 3");
  change(h);
  return error_of([&] { from_wire<hello>(to_wire(h), "PE 3"); });
}

/// Neither has a check nor says that it needs none, and one that has both.
struct forgotten {
  static constexpr wire_kind kind = wire_kind::ready;
  uint32_t number;
  static auto fields(auto& m) { return std::tie(m.number); }
};
struct undecided : forgotten {
  static constexpr bool any_values_will_do = true;
  void check(const wire_check&) const {}
};
static_assert(!wire_message<forgotten> && !wire_message<undecided>);

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
      const std::string text = error_of([&] {
        read_at_the_end(k, {k.sample.begin(), k.sample.begin() + static_cast<long>(n)});
      });
      INFO(name_of(k.kind) << ", " << n << " bytes: " << text);
      if (n < sizeof(wire_header)) CHECK(text == fmt::format("PE 3: a message is cut off ({} bytes)", n));
      else
        CHECK(text == fmt::format("PE 3: '{}' has {} bytes where {} were announced", name_of(k.kind),
                                  n - sizeof(wire_header), k.sample.size() - sizeof(wire_header)));
    }
}

TEST_CASE("fields that are cut or too many are refused although the header fits") {
  for (const auto& k : all_kinds()) {
    bytes body = body_of(k);
    for (size_t n = 0; n < body.size(); ++n) {
      const std::string text = error_of([&] {
        read_at_the_end(k, sealed(k.kind, {body.begin(), body.begin() + static_cast<long>(n)}));
      });
      INFO(name_of(k.kind) << ", " << n << " bytes: " << text);
      CHECK(text.find(fmt::format("PE 3: '{}' is too short", name_of(k.kind))) == 0);
    }
    body.push_back({});
    CHECK(error_of([&] { read_at_the_end(k, sealed(k.kind, body)); }) ==
          fmt::format("PE 3: '{}' is too long by 1 bytes", name_of(k.kind)));
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
          fmt::format("PE 3: speaks version {} of Gravel's messages, this process {}: all processes of a job must run "
                      "the same Gravel",
                      version, wire_version));
    CHECK(error_of([&] { read_at_the_end(k, bytes(100)); }) ==
          "PE 3: received something that is not a message of Gravel");
    for (const auto& another : all_kinds())
      if (another.kind != k.kind)
        CHECK(error_of([&] { read_at_the_end(k, another.sample); }) ==
              fmt::format("PE 3: sent '{}'; expected '{}'", name_of(another.kind), name_of(k.kind)));
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
  bytes body = body_of(row(peer_description{"", "", "", {}, 0, 0, 0, 0, "", true, true}));
  body.back() = std::byte{2};
  CHECK(error_of([&] { from_wire<peer_description>(sealed(wire_kind::peer, body), "PE 3"); }) ==
        "PE 3: 'description as a peer' has 2; expected 0 or 1");
}

TEST_CASE("random bytes after a valid header: an error, or their record") {
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
        for (uint32_t n = 1 + draw.below(4); n; --n)
          body[draw.below(static_cast<uint32_t>(body.size()))] = std::byte(draw());
      wrong += !refused_or_the_same(k, sealed(k.kind, body));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a hello that lies is refused, with the field") {
  CHECK(refusal([](hello& h) { h.pe = 4; }) == "PE 3: 'hello' says 4 for pe, which can be 0 to 3");
  CHECK(refusal([](hello& h) { h.pe = ~0u; }) == "PE 3: 'hello' says 4294967295 for pe, which can be 0 to 3");
  CHECK(refusal([](hello& h) { h.node = 0; }) == "PE 3: 'hello': node is not that of its PE");
  CHECK(refusal([](hello& h) { h.node_of_pe.clear(); }) ==
        "PE 3: 'hello' says 0 for the number of PEs, which can be 1 to 65535");
  CHECK(refusal([](hello& h) { h.node_of_pe.resize(65536); }) ==
        "PE 3: 'hello' says 65536 for the number of PEs, which can be 1 to 65535");
  for (uint32_t node : {4u, 20'000'000u, ~0u})
    CHECK(refusal([&](hello& h) { h.node_of_pe[1] = node; }) ==
          fmt::format("PE 3: 'hello' says {} for the node of a PE, which can be 0 to 3", node));
  CHECK(refusal([](hello& h) {
          h.node_of_pe = {0, 0, 3, 3};
          h.node = 3;
        }) == "PE 3: 'hello': node_of_pe leaves out a number of a node");
  CHECK(refusal([](hello& h) { h.bus_id.resize(65); }) ==
        "PE 3: 'hello' says 65 for the length of bus_id, which can be 0 to 64");
  CHECK(refusal([](hello& h) { h.handlers[0].second.resize(100'000); }) ==
        "PE 3: 'hello' says 100000 for the length of a handler's name, which can be 0 to 65536");
}
