// A link between two workers of this process. Under AddressSanitizer it shows whether a link that goes away leaves
// anything to what is still under way.
#include "host/aggregator/ucx_link.hpp"

#include <sched.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/error.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t bytes = 64 * 1024;

struct two_workers {
  std::vector<std::byte> from = std::vector<std::byte>(2 * bytes), slot = from, to = from;
  ucx_context context{2};
  ucx_memory staging{context, from.data(), from.size()}, slots{context, slot.data(), slot.size()},
      landing{context, to.data(), to.size()};
  ucx_worker a{context}, b{context};
  std::optional<ucx_endpoint> back{std::in_place, b, a.address(), "worker a"};
  std::vector<plane_header> notices;
  std::unique_ptr<ucx_link> link;

  two_workers() {
    b.on_am(
        plane_am,
        [](void* self, std::span<const std::byte> header, std::span<const std::byte>) {
          plane_header h;
          REQUIRE(header.size() == sizeof(h));
          std::memcpy(&h, header.data(), sizeof(h));
          static_cast<two_workers*>(self)->notices.push_back(h);
        },
        this);
    a.on_error([](const std::string&) {});
    b.on_error([](const std::string&) {});
    link = std::make_unique<ucx_link>(a, b.address(), std::vector<std::vector<std::byte>>{landing.packed_key()},
                                      "worker b", std::vector<const ucx_memory*>{&staging, &slots});
  }
  void put(uint64_t at, uint64_t sequence) {
    link->put_and_notify(from.data() + at, bytes, 0, at, {plane_message::notice, 0, 0, 0, sequence, bytes, 0});
  }
  template <class F>
  void until(F condition) {
    while (!condition())
      if (!(a.progress() | b.progress())) sched_yield();
  }
};

}  // namespace

TEST_CASE("the notice of a put comes when its bytes are there") {
  two_workers w;
  for (uint64_t sequence = 0; sequence < 20; ++sequence) {
    std::memset(w.from.data(), static_cast<int>(sequence + 1), bytes);
    w.put(0, sequence);
    w.until([&] { return w.notices.size() == sequence + 1; });
    CHECK(w.notices.back().sequence == sequence);
    CHECK(w.to == [&] {
      std::vector<std::byte> expected(2 * bytes);
      std::memset(expected.data(), static_cast<int>(sequence + 1), bytes);
      return expected;
    }());
  }
}

TEST_CASE("puts that are under way when the link goes away end without it") {
  for (bool progressed : {false, true}) {
    two_workers w;
    w.put(0, 0);  // so that the link has a record to use again
    w.until([&] { return w.notices.size() == 1; });
    // The other end does nothing meanwhile: they cannot complete.
    w.put(0, 1);
    w.put(bytes, 2);
    if (progressed) w.a.progress();
    w.link.reset();
    for (int i = 0; i < 100; ++i) {
      w.a.progress();
      w.b.progress();
    }
    CHECK(w.notices.size() <= 3);
  }
}

TEST_CASE("a notice says that what was put before it is there, too, and each such put is counted down") {
  two_workers w;
  constexpr uint64_t piece = 5000;
  for (uint64_t sequence = 0; sequence < 20; ++sequence) {
    const auto stamp = static_cast<int>(sequence + 1);
    std::memset(w.slot.data(), stamp, w.slot.size());
    std::memset(w.from.data(), stamp + 100, bytes);
    uint32_t puts[2] = {};
    for (uint64_t i = 0; i < 8; ++i) {
      ++puts[i % 2];
      w.link->put(w.slot.data() + i * piece, piece, 0, bytes + i * piece, &puts[i % 2]);
    }
    w.link->put(w.from.data(), 12, 0, bytes + 8 * piece, nullptr);
    w.put(0, sequence);
    w.until([&] { return w.notices.size() == sequence + 1; });
    for (uint64_t i = 0; i < 2 * bytes; ++i) {
      const uint64_t in_row = i - bytes;
      int expected = in_row < 8 * piece ? stamp : 0;
      if (i < bytes || (in_row >= 8 * piece && in_row < 8 * piece + 12)) expected = stamp + 100;
      if (w.to[i] != static_cast<std::byte>(expected)) FAIL("byte " << i << " of packet " << sequence);
    }
    w.until([&] { return puts[0] == 0 && puts[1] == 0; });
  }
}

TEST_CASE("what has been counted down may be overwritten, also before the notice") {
  two_workers w;
  for (uint64_t sequence = 0; sequence < 20; ++sequence) {
    uint32_t puts = 0;
    for (uint64_t at = 0; at < bytes; at += bytes / 4) {
      std::memset(w.slot.data(), static_cast<int>(sequence + 1 + at / 1024), bytes / 4);
      ++puts;
      w.link->put(w.slot.data(), bytes / 4, 0, at, &puts);
      w.until([&] { return puts == 0; });
      std::memset(w.slot.data(), 0xee, bytes / 4);
    }
    w.put(bytes, sequence);
    w.until([&] { return w.notices.size() == sequence + 1; });
    for (uint64_t i = 0; i < bytes; ++i)
      if (w.to[i] != static_cast<std::byte>(sequence + 1 + i / (bytes / 4) * (bytes / 4) / 1024))
        FAIL("byte " << i << " of packet " << sequence);
  }
}

TEST_CASE("puts in flight when the link is destroyed count nothing: their counter may be gone") {
  for (bool progressed : {false, true}) {
    two_workers w;
    uint32_t puts[2] = {7, 7};
    w.link->put(w.slot.data(), bytes, 0, 0, &puts[0]);
    w.link->put(w.slot.data() + bytes, bytes, 0, bytes, &puts[1]);
    if (progressed) w.a.progress();
    const uint32_t left[2] = {puts[0], puts[1]};
    if (!progressed) CHECK(left[0] + left[1] == 14);  // both under way
    w.link.reset();
    for (int i = 0; i < 100; ++i) {
      w.a.progress();
      w.b.progress();
    }
    CHECK(puts[0] == left[0]);
    CHECK(puts[1] == left[1]);
  }
}

TEST_CASE("unregistered memory is not put") {
  two_workers w;
  std::vector<std::byte> other(100);
  CHECK_THROWS_AS(w.link->put(other.data(), other.size(), 0, 0, nullptr), error);
  CHECK_THROWS_AS(w.link->put(w.slot.data() + 2 * bytes - 10, 11, 0, 0, nullptr), error);
}
