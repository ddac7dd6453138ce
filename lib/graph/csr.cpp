#include "lib/graph/csr.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel::detail {
namespace {

/// Returns the memory that this process may have, in bytes: that of the machine, or of its control group if this is
/// less.
uint64_t memory_limit() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
           of_group;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> of_group) bytes = std::min(bytes, of_group);
  return bytes;
}

}  // namespace

csr make_csr(const edge_list& list, int part, int parts) {
  const block_distribution distribution(list.vertices, parts);
  csr rows;
  // Checked first: the system grants more memory than there is, and ends the process later. Beside the rows there are
  // the list and the program's own data for each vertex.
  const uint64_t needed = 8 * (distribution.count(part) + 1 + list.edges.size() + list.weights.size());
  const uint64_t there = memory_limit();
  if (needed > there / 2)
    fail(
        "part {} of {} has {} vertices and {} edges, whose rows take {:.1f} GiB, more than half of the memory ({:.1f} "
        "GiB): "
        "use more machines",
        part, parts, distribution.count(part), list.edges.size(), static_cast<double>(needed) * 0x1p-30,
        static_cast<double>(there) * 0x1p-30);
  try {
    rows.offsets.assign(distribution.count(part) + 1, 0);
    rows.targets.resize(list.edges.size());
    rows.weights.resize(list.weights.size());
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail("part {} of {} has {} vertices and {} edges: too many for the memory of this machine", part, parts,
         distribution.count(part), list.edges.size());
  }
  const uint64_t first = distribution.first(part), count = distribution.count(part);
  for (const edge& e : list.edges) {
    if (e.source - first >= count)
      fail("edge {} -> {} does not belong to part {} of {}", e.source, e.target, part, parts);
    ++rows.offsets[e.source - first + 1];
  }
  for (size_t i = 1; i < rows.offsets.size(); ++i) rows.offsets[i] += rows.offsets[i - 1];
  // offsets[i] moves from the beginning of row i to its end, the beginning of row i + 1. Then all move up by one.
  for (size_t i = 0; i < list.edges.size(); ++i) {
    const uint64_t at = rows.offsets[list.edges[i].source - first]++;
    rows.targets[at] = list.edges[i].target;
    if (!list.weights.empty()) rows.weights[at] = list.weights[i];
  }
  for (size_t i = rows.offsets.size() - 1; i > 0; --i) rows.offsets[i] = rows.offsets[i - 1];
  rows.offsets[0] = 0;
  return rows;
}

void simplify(csr& rows, uint64_t first) {
  const bool weighted = !rows.weights.empty();
  std::vector<std::pair<uint64_t, double>> row;
  uint64_t kept = 0, begin = 0;
  for (uint64_t v = 0; v < rows.rows(); ++v) {
    const uint64_t end = rows.offsets[v + 1];
    row.clear();
    for (uint64_t e = begin; e < end; ++e)
      if (rows.targets[e] != first + v) row.emplace_back(rows.targets[e], weighted ? rows.weights[e] : 0.0);
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
              row.end());
    for (const auto& [target, weight] : row) {
      rows.targets[kept] = target;
      if (weighted) rows.weights[kept] = weight;
      ++kept;
    }
    begin = end;
    rows.offsets[v + 1] = kept;
  }
  rows.targets.resize(kept);
  if (weighted) rows.weights.resize(kept);
}

}  // namespace gravel::detail
