#include "examples/common/random_stream.hpp"

#include <cmath>
#include <vector>

#include "examples/applications/gups_table.hpp"
#include "test/support/catch.hpp"

using namespace app;
using namespace app;

TEST_CASE("the stream of random numbers can be entered anywhere") {
  uint64_t a = 1;
  for (uint64_t n = 0; n < 3000; ++n) {
    REQUIRE(random_stream::at(n) == a);
    a = random_stream::next(a);
  }
  for (uint64_t n : {uint64_t{1} << 20, uint64_t{1} << 40, random_stream::period - 5, ~uint64_t{0} - 1}) {
    CAPTURE(n);
    REQUIRE(random_stream::at(n + 1) == random_stream::next(random_stream::at(n)));
  }
}

TEST_CASE("the stream of random numbers repeats after its period and not after parts of it") {
  REQUIRE(random_stream::at(random_stream::period) == 1);
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{12345678901234}})
    REQUIRE(random_stream::at(random_stream::period + n) == random_stream::at(n));
  for (uint64_t prime : {7u, 73u, 127u, 337u, 92737u, 649657u})  // those of 2^63 - 1
    if (random_stream::period % prime == 0) REQUIRE(random_stream::at(random_stream::period / prime) != 1);
}

TEST_CASE("gups: updates fall on all words of all PEs alike") {
  for (uint32_t n_pes : {1u, 2u, 3u, 4u, 5u, 16u})
    for (bool remote_only : {false, true}) {
      if (remote_only && n_pes < 2) continue;
      CAPTURE(n_pes, remote_only);
      const gups_table map(4, n_pes, remote_only);
      std::vector<uint64_t> hits(16 * n_pes);
      uint64_t ran = random_stream::at(12345678901234567), total = 100000;
      const uint32_t me = n_pes / 2;
      for (uint64_t i = 0; i < total; ++i) {
        ran = random_stream::next(ran);
        const uint32_t pe = map.pe_of(ran, me);
        REQUIRE(pe < n_pes);
        REQUIRE(map.word_of(ran) < 16);
        ++hits[pe * 16 + map.word_of(ran)];
      }
      const double even = static_cast<double>(total) / (16 * map.n_targets);
      for (uint32_t word = 0; word < hits.size(); ++word) {
        if (remote_only && word / 16 == me) REQUIRE(hits[word] == 0);
        else REQUIRE(std::abs(static_cast<double>(hits[word]) - even) < 0.25 * even);
      }
    }
}

TEST_CASE("gups: with a power of two of PEs the table is HPCC's") {
  const gups_table map(10, 8, false);
  uint64_t ran = 1;
  for (int i = 0; i < 10000; ++i) {
    ran = random_stream::next(ran);
    REQUIRE(map.index_of(map.word_of(ran), map.pe_of(ran, 3)) == (ran & 8191));
  }
}
