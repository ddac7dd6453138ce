// The oracle of shortest paths: what it takes for right and what not.
#include "bench/rivals/serial_paths.hpp"

#include "test/support/catch.hpp"

using namespace app;
using namespace gravel::detail;

namespace {

/// 0 -> 1 -> 2 -> 3 with these weights, and nothing leads to 4.
csr chain(double first, double second, double third) {
  csr rows;
  rows.offsets = {0, 1, 2, 3, 3, 3};
  rows.targets = {1, 2, 3};
  rows.weights = {first, second, third};
  return rows;
}
constexpr float none = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("distances are right to the last bit") {
  const path_oracle oracle(chain(0.1, 0.2, 0.3), 0);
  const float second = 0.1f + 0.2f;
  CHECK(oracle.is_right(0, 0));
  CHECK(oracle.is_right(2, second));
  CHECK_FALSE(oracle.is_right(2, std::nextafter(second, 1.0f)));
  CHECK_FALSE(oracle.is_right(2, none));
  CHECK(oracle.is_right(4, none));
  CHECK_FALSE(oracle.is_right(4, 1e38f));
}

TEST_CASE("a distance that double holds is not infinite") {
  const path_oracle oracle(chain(2e38, 2e38, 1), 0);
  CHECK(oracle.is_right(1, 2e38f));
  CHECK_FALSE(oracle.is_right(2, none));
  CHECK_FALSE(oracle.is_right(3, none));
  CHECK_FALSE(oracle.is_right(3, std::numeric_limits<float>::max()));
}

TEST_CASE("paths are the shortest ones, and edges may have length 0") {
  csr rows;
  rows.offsets = {0, 2, 3, 4};
  rows.targets = {1, 2, 2, 0};
  rows.weights = {0, 5, 2, 1};
  const path_oracle oracle(rows, 0);
  CHECK(oracle.is_right(1, 0));
  CHECK(oracle.is_right(2, 2));
  CHECK_FALSE(oracle.is_right(2, 5));
}
