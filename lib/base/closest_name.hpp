// "Did you mean": finds the name that a mistyped one most likely stands for.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gravel::detail {

/// The number of characters that must be added, left out or replaced, or swapped with their neighbour, to turn `a` into
/// `b`. Upper and lower case are equal, and so are '-' and '_'.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  const auto folded = [](char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  const auto same = [&](size_t i, size_t j) { return folded(a[i - 1]) == folded(b[j - 1]); };
  // Rows i - 2, i - 1 and i of the table of distances between the first i characters of a and the first j of b.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// The one of `names` that is nearest to `name`; empty if none is near enough to be a typing error: at most one
/// character in three differs.
inline std::string closest_name(std::string_view name, const std::vector<std::string>& names) {
  std::string closest;
  size_t least = name.size() / 3 + 1;
  for (const auto& candidate : names)
    if (const size_t distance = edit_distance(name, candidate); distance < least) {
      least = distance;
      closest = candidate;
    }
  return closest;
}

/// The end of a message about an unknown name: " (did you mean --nodes?)", or nothing.
inline std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const std::string closest = closest_name(name, names);
  return closest.empty() ? std::string() : " (did you mean " + closest + "?)";
}

}  // namespace gravel::detail
