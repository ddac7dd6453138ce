#include "examples/common/device_sort.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace app {

uint64_t* sort_keys(uint64_t* keys, uint64_t*, uint64_t count, int) {
  std::sort(keys, keys + count);
  return keys;
}

uint64_t* sort_pairs(uint64_t* keys, uint64_t*, uint32_t* values, uint32_t*, uint64_t count, int) {
  std::vector<std::pair<uint64_t, uint32_t>> pairs;
  for (uint64_t i = 0; i < count; ++i) pairs.emplace_back(keys[i], values[i]);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (uint64_t i = 0; i < count; ++i) std::tie(keys[i], values[i]) = pairs[i];
  return keys;
}

uint64_t keep_first(const uint64_t* keys, uint64_t* kept, uint64_t count) {
  return static_cast<uint64_t>(std::unique_copy(keys, keys + count, kept) - kept);
}

}  // namespace app
