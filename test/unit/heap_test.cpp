#include "host/pe/heap.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "test/support/catch.hpp"

using gravel::detail::heap_allocator;

namespace {
constexpr uint64_t unit = heap_allocator::alignment;
}

TEST_CASE("pieces are aligned, and as large as asked for") {
  heap_allocator heap(64 * unit);
  CHECK(heap.allocate(1) == 0);
  CHECK(heap.allocate(unit) == unit);
  CHECK(heap.allocate(unit + 1) == 2 * unit);
  CHECK(heap.allocate(0) == 4 * unit);  // a piece of its own
  CHECK(heap.allocate(1) == 5 * unit);
  CHECK(heap.piece_at(2 * unit)->bytes == 2 * unit);
  CHECK(heap.piece_at(4 * unit)->bytes == unit);
  CHECK(heap.piece_at(3 * unit)->begin == 2 * unit);
  CHECK_FALSE(heap.piece_at(6 * unit).has_value());
  CHECK(heap.in_use() == 6 * unit);
}

TEST_CASE("pieces with a larger alignment leave room before them") {
  heap_allocator heap(8 * unit);
  CHECK(heap.allocate(1) == 0);
  CHECK(heap.allocate_aligned(unit, 4 * unit) == 4 * unit);
  CHECK_FALSE(heap.allocate_aligned(unit, 4 * unit));
  CHECK(heap.allocate(3 * unit) == unit);
  CHECK(heap.largest_free() == 3 * unit);
  CHECK(heap.release(4 * unit));
  CHECK(heap.allocate_aligned(4 * unit, 4 * unit) == 4 * unit);
}

TEST_CASE("what does not fit is refused, and nothing is lost by it") {
  heap_allocator heap(8 * unit);
  for (uint64_t bytes : {8ull * unit + 1, 1ull << 48, (1ull << 48) + 1, ~0ull, ~0ull - unit + 2})
    CHECK_FALSE(heap.allocate(bytes));
  CHECK(heap.largest_free() == 8 * unit);
  CHECK(heap.allocate(8 * unit) == 0);
  CHECK(heap.largest_free() == 0);
  CHECK_FALSE(heap.allocate(0));
  CHECK(heap.release(0));
  CHECK(heap.largest_free() == 8 * unit);
}

TEST_CASE("only what was allocated can be released, once") {
  heap_allocator heap(8 * unit);
  const uint64_t a = *heap.allocate(2 * unit);
  CHECK_FALSE(heap.release(a + unit));
  CHECK_FALSE(heap.release(5 * unit));
  CHECK(heap.release(a));
  CHECK_FALSE(heap.release(a));
}

TEST_CASE("neighbours merge, in whatever order they are released") {
  for (std::vector<int> order : {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    heap_allocator heap(6 * unit);
    uint64_t at[3];
    for (uint64_t& a : at) a = *heap.allocate(2 * unit);
    for (int i : order) CHECK(heap.release(at[i]));
    CHECK(heap.largest_free() == 6 * unit);
    CHECK(heap.allocate(6 * unit) == 0);
  }
}

TEST_CASE("a fragmented heap says what its largest piece is") {
  heap_allocator heap(10 * unit);
  uint64_t at[10];
  for (uint64_t& a : at) a = *heap.allocate(unit);
  for (int i = 0; i < 10; i += 2) heap.release(at[i]);
  CHECK(heap.in_use() == 5 * unit);
  CHECK(heap.largest_free() == unit);
  CHECK_FALSE(heap.allocate(2 * unit));
  heap.release(at[1]);
  CHECK(heap.largest_free() == 3 * unit);
  CHECK(heap.allocate(2 * unit) == 0);
}

TEST_CASE("a heap that is no multiple of the alignment") {
  heap_allocator heap(unit + 10);
  CHECK(heap.allocate(unit) == 0);
  CHECK_FALSE(heap.allocate(1));
}

TEST_CASE("random use agrees with a model, and the same calls give the same offsets") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    constexpr uint64_t total = 256;
    heap_allocator heap(total * unit), twin(total * unit);
    std::vector<int> owner(total, 0);  // of each unit; 0: free
    std::map<int, uint64_t> live;
    std::mt19937 draw(seed);
    INFO("seed " << seed);
    for (int id = 1; id <= 3000; ++id) {
      if (live.empty() || draw() % 5 < 3) {
        const uint64_t units = 1 + draw() % (draw() % 8 ? 6 : 60), bytes = units * unit - draw() % unit;
        const auto got = heap.allocate(bytes);
        REQUIRE(got == twin.allocate(bytes));
        // First fit in the model.
        uint64_t run = 0, first = total;
        for (uint64_t u = 0; u < total && first == total; ++u) {
          run = owner[u] ? 0 : run + 1;
          if (run == units) first = u + 1 - units;
        }
        REQUIRE(got.has_value() == (first != total));
        if (!got) continue;
        REQUIRE(*got == first * unit);
        std::fill_n(owner.begin() + static_cast<long>(first), units, id);
        live[id] = first;
      } else {
        auto it = live.begin();
        std::advance(it, draw() % live.size());
        REQUIRE(heap.release(it->second * unit));
        REQUIRE(twin.release(it->second * unit));
        std::replace(owner.begin(), owner.end(), it->first, 0);
        live.erase(it);
      }
      uint64_t run = 0, largest = 0;
      for (int o : owner) largest = std::max(largest, run = o ? 0 : run + 1);
      REQUIRE(heap.largest_free() == largest * unit);
      REQUIRE(heap.in_use() ==
              static_cast<uint64_t>(std::count_if(owner.begin(), owner.end(), [](int o) { return o != 0; })) * unit);
    }
  }
}

TEST_CASE("a caller chooses places inside of free pieces") {
  heap_allocator heap(10 * 4096);
  const auto aligned = [](const heap_allocator::piece& free, uint64_t wanted) {
    const uint64_t begin = (free.begin + 4095) / 4096 * 4096;
    return begin + wanted <= free.begin + free.bytes ? std::optional(begin) : std::nullopt;
  };
  CHECK(heap.allocate(256) == 0);
  CHECK(heap.allocate(8192, aligned) == 4096);
  CHECK(heap.allocate(4096 - 256) == 256);  // before it
  CHECK(heap.allocate(7 * 4096, aligned) == 3 * 4096);
  CHECK(!heap.allocate(256, aligned));
  CHECK(heap.largest_free() == 0);
  heap.release(4096);
  heap.release(256);
  CHECK(heap.largest_free() == 3 * 4096 - 256);
  CHECK(!heap.allocate(3 * 4096 - 512, aligned));
  CHECK(heap.allocate(4096, aligned) == 4096);
  CHECK(heap.allocate(4096, aligned) == 8192);
  CHECK(heap.in_use() == 256 + 9 * 4096);
}
