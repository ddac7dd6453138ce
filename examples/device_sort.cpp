#include "examples/device_sort.hpp"

#include <algorithm>

namespace gravel {

uint64_t* sort_keys(uint64_t* keys, uint64_t*, uint64_t count, int) {
  std::sort(keys, keys + count);
  return keys;
}

uint64_t keep_first(const uint64_t* keys, uint64_t* kept, uint64_t count) {
  return static_cast<uint64_t>(std::unique_copy(keys, keys + count, kept) - kept);
}

}  // namespace gravel
