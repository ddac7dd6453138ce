#include "lib/graph/ghosts.hpp"

#include <bit>

#include "lib/base/error.hpp"

namespace gravel::detail {

ghost_list find_ghosts(std::vector<uint32_t>& named, vertex_code codes, int me, int parts, uint64_t own) {
  // A bit for each code, and the number of bits that are set before each word.
  const uint64_t words = ((static_cast<uint64_t>(parts) << codes.shift) + 63) / 64;
  std::vector<uint64_t> bits(words), before(words);
  ghost_list ghosts;
  for (const uint32_t code : named)
    if (codes.owner(code) != me) {
      bits[code / 64] |= uint64_t{1} << code % 64;
      ++ghosts.uses;
    }
  ghosts.first.assign(static_cast<size_t>(parts) + 1, 0);
  for (uint64_t w = 0; w < words; ++w) {
    before[w] = ghosts.codes.size();
    for (uint64_t rest = bits[w]; rest; rest &= rest - 1) {
      ghosts.codes.push_back(static_cast<uint32_t>(w * 64 + static_cast<uint64_t>(std::countr_zero(rest))));
      ++ghosts.first[static_cast<size_t>(codes.owner(ghosts.codes.back())) + 1];
    }
  }
  for (size_t p = 0; p < static_cast<size_t>(parts); ++p) ghosts.first[p + 1] += ghosts.first[p];
  if (own + ghosts.codes.size() > ~uint32_t{0})
    fail("{} vertices and {} ghosts: more than 32 bits can name", own, ghosts.codes.size());
  for (uint32_t& code : named) {
    const uint64_t below = bits[code / 64] & ((uint64_t{1} << code % 64) - 1);
    code = codes.owner(code) == me
               ? codes.place(code)
               : static_cast<uint32_t>(own + before[code / 64] + static_cast<uint64_t>(std::popcount(below)));
  }
  return ghosts;
}

}  // namespace gravel::detail
