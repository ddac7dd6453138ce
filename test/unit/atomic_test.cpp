// Words that several processors share, and the one way to wait (relax.hpp).
#include "lib/base/atomic.hpp"

#include <sched.h>

#include <thread>
#include <vector>

#include "lib/base/relax.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

TEST_CASE("single operations") {
  uint64_t word = 5;
  CHECK(load_relaxed(&word) == 5);
  store_release(&word, uint64_t{6});
  CHECK(load_acquire(&word) == 6);
  CHECK(fetch_add(&word, uint64_t{4}) == 6);
  CHECK(fetch_add_release(&word, uint64_t{1}) == 10);
  CHECK_FALSE(compare_swap_acquire(&word, uint64_t{10}, uint64_t{0}));
  CHECK(compare_swap_acquire(&word, uint64_t{11}, uint64_t{3}));
  CHECK(raise_to(&word, uint64_t{2}) == 3);
  CHECK(word == 3);
  CHECK(raise_to(&word, uint64_t{9}) == 9);
  CHECK(word == 9);
  raise_relaxed(&word, uint64_t{7});
  CHECK(word == 9);
  raise_relaxed(&word, uint64_t{12});
  CHECK(word == 12);
  uint32_t narrow = ~0u;
  CHECK(fetch_add(&narrow, 2u) == ~0u);
  CHECK(narrow == 1);
  const double real = 1.5;
  CHECK(load_acquire(&real) == 1.5);
  const int8_t byte = -3;
  CHECK(load_relaxed(&byte) == -3);
}

TEST_CASE("raise_to from many threads keeps the largest, and adds are not lost") {
  uint64_t highest = 0, sum = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 5000; ++i) {
        raise_to(&highest, i * 4 + t);
        fetch_add(&sum, uint64_t{1});
      }
    });
  for (auto& t : threads) t.join();
  CHECK(highest == 4999 * 4 + 3);
  CHECK(sum == 20'000);
}

TEST_CASE("what was written before a release is seen after the acquire") {
  uint64_t data = 0, flag = 0;
  std::thread reader([&] {
    for (relax wait; load_acquire(&flag) == 0; wait()) {
    }
    CHECK(data == 42);
  });
  data = 42;
  store_release(&flag, uint64_t{1});
  reader.join();
}

namespace {
thread_local uint32_t relaxed = 0, interleaved = 0;
}

TEST_CASE("the hooks of the CPU backend are called at every atomic and every wait") {
  interleave_hook = [] { ++interleaved; };
  relax_hook = [](uint32_t rounds) {
    relaxed += rounds == relaxed + 1;  // `rounds`: how long the lane has waited already
    return 0u;
  };
  uint64_t word = 0;
  load_relaxed(&word);
  load_acquire(&word);
  store_relaxed(&word, uint64_t{1});
  store_release(&word, uint64_t{1});
  fetch_add(&word, uint64_t{1});
  fetch_add_release(&word, uint64_t{1});
  compare_swap_acquire(&word, uint64_t{1}, uint64_t{1});
  raise_to(&word, uint64_t{1});
  relax wait;
  for (int i = 0; i < 1000; ++i) wait();  // never sleeps: each goes to the hook
  interleave_hook = nullptr;
  relax_hook = nullptr;
  CHECK(interleaved == 8);
  CHECK(relaxed == 1000);
}
