// The vertices that come first by some score, of all PEs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gravel/gravel.cuh>

namespace app {

template <class Score>
struct ranked {
  Score score;
  uint64_t vertex;
  /// Higher scores first, then lower vertices.
  bool operator<(const ranked& other) const {
    return score != other.score ? score > other.score : vertex < other.vertex;
  }
};

template <class Score>
std::vector<ranked<Score>> best_of(std::vector<ranked<Score>> all, size_t top) {
  top = std::min(top, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(top), all.end());
  all.resize(top);
  return all;
}

/// The `top` first vertices of all PEs, at every PE, of what each has. Collective, host.
template <class Score>
std::vector<ranked<Score>> gather_best(std::vector<ranked<Score>> mine, uint64_t top) {
  mine = best_of(std::move(mine), top);
  const auto n_pes = static_cast<size_t>(gravel_n_pes());
  const uint64_t slots = gravel_max_all(static_cast<uint64_t>(mine.size()));
  std::vector<uint64_t> counts(n_pes);
  gravel_allgather(counts.data(), static_cast<uint64_t>(mine.size()));
  mine.resize(slots);
  std::vector<ranked<Score>> table(slots * n_pes), all;
  if (slots) gravel_allgather(table.data(), mine.data(), slots);
  for (size_t pe = 0; pe < n_pes; ++pe)
    for (uint64_t i = 0; i < counts[pe]; ++i) all.push_back(table[pe * slots + i]);
  return best_of(std::move(all), top);
}

}  // namespace app
