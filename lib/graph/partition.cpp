#include "lib/graph/partition.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/error.hpp"
#if GRAVEL_HAS_METIS
#include <metis.h>
#endif

namespace gravel::detail {
namespace {

void check_parts(int parts) {
  if (parts < 1) fail("a graph in {} parts: there must be at least one", parts);
}

#if GRAVEL_HAS_METIS
/// Returns the graph as METIS requires it: both directions of each edge, no loops.
csr symmetric(const csr& whole) {
  edge_list both;
  both.vertices = whole.rows();
  edge_keeper keeper(both, {0, 1, true, false});
  for (uint64_t v = 0; v < whole.rows(); ++v)
    for (uint64_t e = whole.offsets[v]; e < whole.offsets[v + 1]; ++e) keeper.add({v, whole.targets[e]});
  csr rows = make_csr(both);
  simplify(rows);
  return rows;
}
#endif

}  // namespace

uint64_t partition::most() const {
  uint64_t most = 0;
  for (int p = 0; p < parts(); ++p) most = std::max(most, count(p));
  return most;
}

int partition::owner(uint64_t number) const {
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), number) - first.begin()) - 1;
}

partition contiguous(uint64_t vertices, int parts) {
  check_parts(parts);
  const block_distribution blocks(vertices, parts);
  partition by;
  for (int p = 0; p <= parts; ++p) by.first.push_back(blocks.first(p));
  return by;
}

partition by_edges(const csr& whole, int parts) {
  check_parts(parts);
  partition by;
  by.first.push_back(0);
  const uint64_t all = whole.offsets.back() + whole.rows();
  uint64_t v = 0;
  for (int p = 1; p <= parts; ++p) {
    // Part p ends where p / parts of the work lies before its end. A product of 128 bits: there may be 2^48 edges.
    const auto goal =
        static_cast<uint64_t>(static_cast<__uint128_t>(all) * static_cast<unsigned>(p) / static_cast<unsigned>(parts));
    while (v < whole.rows() && whole.offsets[v + 1] + v + 1 <= goal) ++v;
    by.first.push_back(v);
  }
  return by;
}

partition round_robin(const std::vector<uint32_t>& order, int parts) {
  check_parts(parts);
  const uint64_t n = order.size(), k = static_cast<uint64_t>(parts);
  partition by;
  by.first.push_back(0);
  for (uint64_t p = 0; p < k; ++p) by.first.push_back(by.first.back() + (n + k - 1 - p) / k);
  by.number.resize(n);
  for (uint64_t i = 0; i < n; ++i) by.number[order[i]] = by.first[i % k] + i / k;
  return by;
}

partition by_degrees(const edge_list& whole, int parts) {
  if (whole.vertices > ~uint32_t{0}) fail("{} vertices are too many to be sorted by their edges", whole.vertices);
  std::vector<uint64_t> degree(whole.vertices);
  for (const edge& e : whole.edges) {
    ++degree[e.source];
    ++degree[e.target];
  }
  std::vector<uint32_t> order(whole.vertices);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return degree[a] > degree[b]; });
  return round_robin(order, parts);
}

bool has_metis() { return GRAVEL_HAS_METIS; }

partition by_metis([[maybe_unused]] const csr& whole, int parts, [[maybe_unused]] uint64_t seed) {
  check_parts(parts);
#if GRAVEL_HAS_METIS
  if (whole.rows() < static_cast<uint64_t>(parts) || parts == 1) return contiguous(whole.rows(), parts);
  const csr graph = symmetric(whole);
  constexpr uint64_t most = std::numeric_limits<idx_t>::max();
  if (graph.rows() > most || graph.targets.size() > most)
    fail("METIS divides graphs of up to {} vertices and neighbours, this one has {} and {}", most, graph.rows(),
         graph.targets.size());
  std::vector<idx_t> offsets(graph.offsets.begin(), graph.offsets.end()),
      targets(graph.targets.begin(), graph.targets.end());
  std::vector<idx_t> weights(graph.rows()), part_of(graph.rows());
  for (uint64_t v = 0; v < graph.rows(); ++v) weights[v] = static_cast<idx_t>(1 + whole.degree(v));
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = static_cast<idx_t>(seed & 0x7fffffff);
  auto vertices = static_cast<idx_t>(graph.rows()), constraints = idx_t{1}, n_parts = static_cast<idx_t>(parts),
       cut = idx_t{0};
  const int status = METIS_PartGraphKway(&vertices, &constraints, offsets.data(), targets.data(), weights.data(),
                                         nullptr, nullptr, &n_parts, nullptr, nullptr, options, &cut, part_of.data());
  if (status != METIS_OK)
    fail("METIS could not divide a graph of {} vertices into {} parts (status {})", graph.rows(), parts, status);
  partition by;
  by.first.assign(static_cast<size_t>(parts) + 1, 0);
  for (const idx_t p : part_of) ++by.first[static_cast<size_t>(p) + 1];
  std::partial_sum(by.first.begin(), by.first.end(), by.first.begin());
  std::vector<uint64_t> next(by.first.begin(), by.first.end() - 1);
  by.number.resize(graph.rows());
  for (uint64_t v = 0; v < graph.rows(); ++v) by.number[v] = next[static_cast<size_t>(part_of[v])]++;
  return by;
#else
  fail_text("this Gravel was built without METIS (Debian package libmetis-dev)");
#endif
}

csr rows_of(const csr& whole, const partition& by, int part) {
  const uint64_t first = by.first[static_cast<size_t>(part)], count = by.count(part);
  std::vector<uint64_t> old(count);  // for each vertex of the part: its number in `whole`
  if (by.number.empty()) std::iota(old.begin(), old.end(), first);
  else
    for (uint64_t v = 0; v < by.number.size(); ++v)
      if (by.number[v] - first < count) old[by.number[v] - first] = v;
  csr rows;
  rows.offsets.push_back(0);
  for (const uint64_t v : old) {
    for (uint64_t e = whole.offsets[v]; e < whole.offsets[v + 1]; ++e) {
      rows.targets.push_back(by.number_of(whole.targets[e]));
      if (!whole.weights.empty()) rows.weights.push_back(whole.weights[e]);
    }
    rows.offsets.push_back(rows.targets.size());
  }
  return rows;
}

vertex_code vertex_code::of(uint64_t most, int parts) {
  const auto bits_for = [](uint64_t count) {
    uint32_t bits = 0;
    while (bits < 63 && (uint64_t{1} << bits) < count) ++bits;
    return bits;
  };
  const uint32_t shift = std::max(bits_for(most), 1u);
  if (shift + bits_for(static_cast<uint64_t>(parts)) > 32 || shift > 31)
    fail("{} parts of up to {} vertices: more than 32 bits can name", parts, most);
  return {shift};
}

std::vector<uint32_t> codes_of(const csr& rows, const partition& by, vertex_code codes) {
  std::vector<uint32_t> named(rows.targets.size());
  for (size_t e = 0; e < named.size(); ++e) {
    const int owner = by.owner(rows.targets[e]);
    named[e] = codes.code(owner, rows.targets[e] - by.first[static_cast<size_t>(owner)]);
  }
  return named;
}

}  // namespace gravel::detail
