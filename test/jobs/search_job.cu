// Breadth-first search, connected components, PageRank and shortest paths, each in one kernel (gravel_search,
// gravel_components, gravel_ranks, paths_search), and their parts: rendezvous of the blocks of all PEs, and the
// replicated bitmap. Small graphs of all shapes, compared with plain sequential algorithms. Also worklists of items
// (test/support/item_checks.cuh). One source for the CPU backend and for GPUs. Option: `short`, or `items` alone.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gravel/algorithms.cuh>
#include <gravel/device_array.hpp>
#include <gravel/launch_alone.cuh>
#include <gravel/search.cuh>
#include <gravel/worklist.cuh>
#include "lib/base/mix.hpp"
#include "lib/worklist/paths.cuh"
#include "test/support/expect.hpp"
#include "test/support/item_checks.cuh"

namespace {
using gravel::device_array;
using gravel::launch_alone;
using gravel::vertex_code;
using gravel::worklist_graph;
using namespace gravel::detail;

/// Vertices 0 to n - 1, undirected.
struct test_graph {
  std::string name;
  uint32_t n;
  std::vector<std::pair<uint32_t, uint32_t>> edges;

  std::vector<std::vector<uint32_t>> rows() const {
    std::vector<std::vector<uint32_t>> of(n);
    for (const auto& [a, b] : edges) {
      of[a].push_back(b);
      of[b].push_back(a);
    }
    return of;
  }
};

std::vector<test_graph> graphs(bool is_short) {
  std::mt19937_64 chance(7);
  const auto pes = static_cast<uint32_t>(gravel_n_pes());  // each gets enough work for all kinds of levels
  std::vector<test_graph> all{{"one vertex", 1, {}}, {"no edges", 700, {}}, {"loops and copies", 5, {}}};
  for (uint32_t v = 0; v < 5; ++v) all.back().edges.insert(all.back().edges.end(), {{v, v}, {1, 2}, {v / 2, v}});
  test_graph path{"path", 60, {}}, star{"star", is_short ? 1500u : 200000u * pes, {}}, grid{"grid", 24 * 20, {}},
      pairs{"pairs", 600, {}};
  for (uint32_t v = 1; v < path.n; ++v) path.edges.emplace_back(v - 1, v);
  for (uint32_t v = 1; v < star.n; ++v) star.edges.emplace_back(0, v);
  for (uint32_t v = 0; v < grid.n; ++v) {
    if (v % 24 != 23) grid.edges.emplace_back(v, v + 1);
    if (v + 24 < grid.n) grid.edges.emplace_back(v, v + 24);
  }
  for (uint32_t v = 0; v + 1 < pairs.n; v += 2) pairs.edges.emplace_back(v, v + 1);
  all.insert(all.end(), {path, star, grid, pairs});
  // Hubs of all sizes, vertices without edges between others, a tail, and a ring of long rows far from the root.
  for (const uint32_t n : {300u, is_short ? 1200u : 300000u * pes}) {
    test_graph hubs{"hubs of " + std::to_string(n), n + 40, {}};
    for (uint32_t i = 0; i < 4 * n; ++i) {
      const auto a = static_cast<uint32_t>(static_cast<double>(chance() % n) * (static_cast<double>(chance() % n) / n));
      hubs.edges.emplace_back(static_cast<uint32_t>(a * (static_cast<double>(chance() % n) / n)), chance() % n);
    }
    for (uint32_t i = 0; i < 20; ++i) hubs.edges.emplace_back(n - 1 + i, n + i);
    all.push_back(hubs);
  }
  test_graph dense{"long rows", 420, {}};  // 60 vertices of each level know all of the next one
  for (uint32_t a = 0; a < 360; ++a)
    for (uint32_t b = 0; b < 60; ++b) dense.edges.emplace_back(a, a / 60 * 60 + 60 + b);
  all.push_back(dense);
  return all;
}

std::vector<int64_t> levels_from(const std::vector<std::vector<uint32_t>>& rows, uint32_t root) {
  std::vector<int64_t> level(rows.size(), -1);
  std::deque<uint32_t> next{root};
  for (level[root] = 0; !next.empty(); next.pop_front())
    for (const uint32_t other : rows[next.front()])
      if (level[other] < 0) {
        level[other] = level[next.front()] + 1;
        next.push_back(other);
      }
  return level;
}

/// A graph of the job: vertex v is number v / PEs of PE v % PEs in the order of falling degree, or in that of blocks.
struct divided {
  std::vector<uint32_t> order;  ///< vertices by owner and place
  std::vector<uint64_t> first;  ///< of each PE, in `order`
  vertex_code codes{1};
  uint64_t own = 0, edges = 0;
  std::vector<uint32_t> ghosts;
  device_array<uint64_t> offsets;
  device_array<uint32_t> targets, others, names;

  divided(const test_graph& graph, const std::vector<std::vector<uint32_t>>& rows, bool by_degree) {
    const auto pes = static_cast<uint32_t>(gravel_n_pes()), me = static_cast<uint32_t>(gravel_my_pe());
    std::vector<uint32_t> all(graph.n), owner(graph.n), place(graph.n);
    for (uint32_t v = 0; v < graph.n; ++v) all[v] = v;
    if (by_degree)
      std::stable_sort(all.begin(), all.end(), [&](uint32_t a, uint32_t b) { return rows[a].size() > rows[b].size(); });
    const uint32_t block = (graph.n + pes - 1) / pes;
    for (uint32_t pe = 0; pe < pes; ++pe) {
      first.push_back(order.size());
      for (uint32_t i = 0; i < graph.n; ++i) {
        if ((by_degree ? i % pes : i / block) != pe) continue;
        owner[all[i]] = pe;
        place[all[i]] = static_cast<uint32_t>(order.size() - first.back());
        order.push_back(all[i]);
      }
    }
    first.push_back(order.size());
    own = first[me + 1] - first[me];
    codes = vertex_code{static_cast<uint32_t>(std::bit_width(block))};
    std::vector<uint64_t> ends{0};
    std::vector<uint32_t> named, mine(order.begin() + static_cast<std::ptrdiff_t>(first[me]),
                                      order.begin() + static_cast<std::ptrdiff_t>(first[me + 1]));
    for (const uint32_t v : mine) {
      for (const uint32_t other : rows[v]) named.push_back(codes.code(static_cast<int>(owner[other]), place[other]));
      ends.push_back(named.size());
    }
    edges = named.size();
    for (const uint32_t code : named)
      if (codes.owner(code) != gravel_my_pe()) ghosts.push_back(code);
    std::sort(ghosts.begin(), ghosts.end());
    ghosts.erase(std::unique(ghosts.begin(), ghosts.end()), ghosts.end());
    for (uint32_t& code : named) {
      const auto ghost = std::lower_bound(ghosts.begin(), ghosts.end(), code) - ghosts.begin();
      code = codes.owner(code) == gravel_my_pe() ? codes.place(code)
                                                 : static_cast<uint32_t>(own + static_cast<uint64_t>(ghost));
    }
    offsets = device_array<uint64_t>(ends);
    targets = device_array<uint32_t>(named);
    others = device_array<uint32_t>(ghosts);
    names = device_array<uint32_t>(mine);
  }
  worklist_graph view() const { return {offsets.data(), targets.data(), others.data(), codes, own, ghosts.size()}; }
};

/// A number of each vertex, by vertex. `own`: those of this PE's places.
template <class T>
std::vector<T> of_all(const T* own, const divided& graph, uint64_t n) {
  const auto pes = static_cast<size_t>(gravel_n_pes());
  const uint64_t most = gravel_max_all(graph.own);
  std::vector<T> mine(most), all(most * pes), by_vertex(n);
  gravel_copy(mine.data(), own, graph.own * sizeof(T));
  if (most) gravel_allgather(all.data(), mine.data(), most);
  for (size_t pe = 0; pe < pes; ++pe)
    for (uint64_t i = 0; i < graph.first[pe + 1] - graph.first[pe]; ++i)
      by_vertex[graph.order[graph.first[pe] + i]] = all[pe * most + i];
  return by_vertex;
}
/// All parents, by vertex; -1: none.
std::vector<int64_t> parents_of_all(const gravel_search& search, const divided& graph, uint64_t n, bool by_names) {
  std::vector<int64_t> parents;
  for (const uint32_t parent : of_all(search.parents(), graph, n)) {
    if (parent == gravel_search::no_parent) parents.push_back(-1);
    else if (by_names) parents.push_back(parent);
    else
      parents.push_back(
          graph.order[graph.first[static_cast<size_t>(search.owner_of(parent))] + search.place_of(parent)]);
  }
  return parents;
}

std::set<search_level::way> ways;  ///< of all levels so far
uint32_t most_rounds = 0;          ///< of all components so far
uint32_t graphs_ranked = 0;

/// The least vertex of each one's component.
std::vector<uint32_t> components_of(const test_graph& graph) {
  std::vector<uint32_t> above(graph.n);
  for (uint32_t v = 0; v < graph.n; ++v) above[v] = v;
  const auto root = [&](uint32_t v) {
    while (above[v] != v) v = above[v] = above[above[v]];
    return v;
  };
  for (const auto& [a, b] : graph.edges) above[std::max(root(a), root(b))] = std::min(root(a), root(b));
  for (uint32_t v = 0; v < graph.n; ++v) above[v] = root(v);
  return above;
}
/// Components by the kernel, twice, by names or by codes.
void check_components(const test_graph& graph, const divided& part, bool by_names, const std::string& what) {
  gravel_components components(part.view(), part.edges, by_names ? part.names.data() : nullptr);
  expect(components.fits(), what + ": components do not fit: " + components.refusal());
  if (!components.fits()) return;
  const auto expected = components_of(graph);
  for (int run = 0; run < 3; ++run) {
    components.run();
    const std::vector<uint32_t> found = of_all(components.names(), part, graph.n);
    std::vector<uint32_t> name_of(graph.n, ~0u);  // of each component, by its least vertex
    uint64_t wrong = 0;
    for (uint32_t v = 0; v < graph.n; ++v) {
      uint32_t& name = name_of[expected[v]];
      if (name == ~0u) name = found[v];
      uint32_t named = found[v];
      if (!by_names)
        named = part.order.at(part.first.at(static_cast<size_t>(part.codes.owner(named))) + part.codes.place(named));
      wrong += name != found[v] || named >= graph.n || expected[named] != expected[v];
    }
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " names of components are wrong");
    most_rounds = std::max(most_rounds, components.log().rounds);
  }
}

/// PageRank by power iteration, in double.
std::vector<double> ranks_of(const std::vector<std::vector<uint32_t>>& rows, double damping) {
  const auto n = static_cast<double>(rows.size());
  std::vector<double> rank(rows.size(), 1 / n), next;
  for (double change = 1; change > 1e-9;) {
    double alone = 0;
    for (size_t v = 0; v < rows.size(); ++v) alone += rows[v].empty() ? rank[v] : 0;
    next.assign(rows.size(), (1 - damping + damping * alone) / n);
    for (size_t v = 0; v < rows.size(); ++v)
      for (const uint32_t other : rows[v]) next[other] += damping * rank[v] / static_cast<double>(rows[v].size());
    change = 0;
    for (size_t v = 0; v < rows.size(); ++v) change += std::abs(next[v] - rank[v]);
    rank.swap(next);
  }
  return rank;
}
/// PageRank by the kernel, with few steps: each takes three rendezvous.
void check_ranks(const std::vector<std::vector<uint32_t>>& rows, const divided& part, const std::string& what) {
  gravel_ranks ranks(part.view(), part.edges);
  if (!ranks.fits()) {
    expect_error("does not fit", [&] { ranks.run(); });
    return;
  }
  ++graphs_ranked;
  constexpr double damping = 0.3, tolerance = 1e-5;
  const auto expected = ranks_of(rows, damping);
  expect(ranks.run({.tolerance = 1e-12, .most_steps = 1}) == 1, what + ": not one step");
  const uint32_t steps = ranks.run({.damping = damping, .tolerance = tolerance});
  expect(steps > 0 && steps < 30, what + ": " + std::to_string(steps) + " steps");
  const auto found = of_all(ranks.ranks(), part, rows.size());
  double distance = 0, sum = 0;
  for (size_t v = 0; v < rows.size(); ++v) {
    distance += std::abs(found[v] - expected[v]);
    sum += found[v];
  }
  expect(distance < tolerance * damping / (1 - damping) + 2e-6, what + ": ranks differ by " + std::to_string(distance));
  expect(std::abs(sum - 1) < 2e-5, what + ": ranks add up to " + std::to_string(sum));
}
void check(const test_graph& graph, bool by_degree, bool is_short) {
  const auto rows = graph.rows();
  const divided part(graph, rows, by_degree);
  const std::string what = graph.name + (by_degree ? " by degrees" : " in blocks");
  check_components(graph, part, by_degree, what);
  const bool takes_long = is_short && graph.name != "star" && graph.name.substr(0, 4) != "hubs";
  if (by_degree && !takes_long) check_ranks(rows, part, what);
  gravel_search search(part.view(), part.edges, part.names.data());
  expect(search.fits(), what + ": does not fit: " + search.refusal());
  if (!search.fits()) return;
  std::mt19937_64 chance(3);
  std::vector<uint32_t> roots{0, graph.n - 1};
  if (!is_short) roots.insert(roots.end(), {graph.n / 2, static_cast<uint32_t>(chance() % graph.n)});
  bool by_names = false;
  for (const uint32_t root : roots) {
    by_names = !by_names;
    int owner = 0;
    uint64_t place = 0;
    for (size_t i = 0; i < part.order.size(); ++i) {
      if (part.order[i] != root) continue;
      while (i >= part.first[static_cast<size_t>(owner) + 1]) ++owner;
      place = i - part.first[static_cast<size_t>(owner)];
      break;
    }
    expect(search.run(owner, place, by_names ? gravel_parents::names : gravel_parents::codes), what + ": gave up");
    for (uint32_t i = 0; i < std::min(search.log().levels, search_log::most_levels); ++i)
      ways.insert(search.log().level[i].how);
    const auto level = levels_from(rows, root), parent = parents_of_all(search, part, graph.n, by_names);
    uint64_t wrong = 0;
    for (uint32_t v = 0; v < graph.n; ++v) {
      const int64_t p = parent[v];
      if (v == root) wrong += p != root;
      else if (level[v] < 0) wrong += p != -1;
      else
        wrong += p < 0 || p >= graph.n || level[static_cast<size_t>(p)] + 1 != level[v] ||
                 std::find(rows[v].begin(), rows[v].end(), static_cast<uint32_t>(p)) == rows[v].end();
    }
    expect(wrong == 0, what + " from " + std::to_string(root) + ": " + std::to_string(wrong) + " parents are wrong");
  }
}

/// Directed, deep and scattered graphs are refused, with the cause.
void check_refusals() {
  const uint32_t side = GRAVEL_CUDA ? 300 : 80;
  test_graph path{"path", 100, {}}, grid{"grid", side * side, {}};
  for (uint32_t v = 1; v < path.n; ++v) path.edges.emplace_back(v - 1, v);
  std::mt19937_64 chance(5);
  for (uint32_t v = 0; v + side < grid.n; ++v) {
    if (chance() % 2 && v % side != side - 1) grid.edges.emplace_back(v, v + 1);
    if (chance() % 2) grid.edges.emplace_back(v, v + side);
  }
  const divided deep(path, path.rows(), false), scattered(grid, grid.rows(), false);
  const auto refusal_of = [](const divided& part) { return gravel_components(part.view(), part.edges).refusal(); };
  expect(refusal_of(deep).find("more than 64 steps from the root") != std::string::npos, "a path: " + refusal_of(deep));
  expect(refusal_of(scattered).find("outside the largest tree") != std::string::npos,
         "a grid: " + refusal_of(scattered));
  auto rows = path.rows();
  rows[7].pop_back();
  const divided directed(path, rows, false);
  expect(refusal_of(directed).find("one of their ends alone") != std::string::npos,
         "directed: " + refusal_of(directed));
  gravel_components components(directed.view(), directed.edges);
  expect_error("does not fit: some edges", [&] { components.run(); });
  expect(gravel_ranks(directed.view(), directed.edges).refusal().find("one of their ends alone") != std::string::npos,
         "ranks of a directed graph");
  const test_graph star{"star", 4, {{0, 1}, {0, 2}, {0, 3}}};
  const divided small(star, star.rows(), true);
  gravel_ranks ranks(small.view(), small.edges);
  expect_error("damping 1.0", [&] { ranks.run({.damping = 1}); });
  expect_error("tolerance 0.0", [&] { ranks.run({.tolerance = 0}); });
}

/// Weights of an edge: whole numbers as in R-MAT graphs, real numbers, whole ones of which many are 0, and such that
/// sums are infinite.
enum class weights_of { whole, real, zeros, huge };
constexpr uint32_t weight_kinds = 4;
float weight_of(weights_of kind, uint32_t a, uint32_t b) {
  const uint64_t random = mix(uint64_t{std::min(a, b)} << 32 | std::max(a, b));
  if (kind == weights_of::whole) return static_cast<float>(1 + random % 255);
  if (kind == weights_of::real) return static_cast<float>(random % 65536) * 1e-3f;
  if (kind == weights_of::zeros) return random % 2 ? 0.0f : static_cast<float>(random % 7);
  return random % 2 ? 1.0f : 1.5e38f;
}
std::vector<float> distances_from(const std::vector<std::vector<uint32_t>>& rows, uint32_t root, weights_of kind) {
  std::vector<float> distance(rows.size(), -1);  // not reached
  using offer = std::pair<float, uint32_t>;
  std::priority_queue<offer, std::vector<offer>, std::greater<>> next;
  for (next.emplace(0.0f, root); !next.empty();) {
    const auto [at, v] = next.top();
    next.pop();
    if (distance[v] >= 0) continue;
    distance[v] = at;
    for (const uint32_t other : rows[v])
      if (distance[other] < 0) next.emplace(at + weight_of(kind, v, other), other);
  }
  return distance;
}

std::set<paths_step::kind> steps;       ///< of all runs so far
unsigned path_runs = 0, path_ends = 0;  ///< how many did not give up

void check_paths(const test_graph& graph, bool by_degree, weights_of kind, bool is_short) {
  const auto rows = graph.rows();
  const divided part(graph, rows, by_degree);
  std::vector<float> weights;
  for (uint64_t i = part.first[static_cast<size_t>(gravel_my_pe())]; weights.size() < part.edges; ++i)
    for (const uint32_t other : rows[part.order[i]]) weights.push_back(weight_of(kind, part.order[i], other));
  const device_array<float> weights_here(weights);
  paths_search search(part.view(), part.edges, weights_here.data());
  const std::string what = graph.name + (by_degree ? " by degrees" : " in blocks") + " with weights " +
                           std::to_string(static_cast<int>(kind));
  expect(search.fits() || !by_degree, what + ": does not fit: " + search.refusal());
  std::vector<uint32_t> roots{graph.n / 3};
  if (!is_short) roots.insert(roots.end(), {0, graph.n - 1});
  for (const uint32_t root : roots) {
    if (!search.fits()) break;
    size_t at = 0, owner = 0;
    while (part.order[at] != root) ++at;
    while (at >= part.first[owner + 1]) ++owner;
    ++path_runs;
    if (!search.run(static_cast<int>(owner), at - part.first[owner])) continue;
    ++path_ends;
    for (uint32_t i = 0; i < std::min(search.log().steps, paths_log::most_steps); ++i)
      steps.insert(search.log().step[i].what);
    std::vector<uint32_t> words(part.own);
    gravel_copy(words.data(), search.words(), words.size() * sizeof(uint32_t));
    const std::vector<float> expected = distances_from(rows, root, kind);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < part.own; ++i) {
      const uint32_t key = least_keys::key_of(words[i]);
      const float right = expected[part.order[part.first[static_cast<size_t>(gravel_my_pe())] + i]];
      wrong += key != (right < 0 ? least_keys::unreached : key_of_distance(right));
    }
    expect(wrong == 0,
           what + " from " + std::to_string(root) + ": " + std::to_string(wrong) + " distances here are wrong");
  }
  search.release();
}
divided line() {
  const test_graph graph{"line", 8, {{0, 1}, {1, 2}, {6, 7}}};
  return divided(graph, graph.rows(), false);
}
/// Graphs that the kernel does not suit: with an edge in one direction, with two weights for an edge, and without hubs.
void check_refused_paths() {
  const divided part = line();
  const bool is_first = gravel_my_pe() == 0;
  std::vector<float> weights(part.edges, 1.0f);
  if (is_first) weights[0] = 2.0f;
  const device_array<float> unlike(weights);
  paths_search search(part.view(), part.edges, unlike.data());
  expect(search.refusal().find("both of their ends") != std::string::npos, "unlike weights: " + search.refusal());
}

/// Every block reports numbers that differ from rendezvous to rendezvous, and writes a word that others read behind it.
__global__ void come_together(const __grid_constant__ gravel_t g, const __grid_constant__ level_rendezvous m,
                              uint32_t times, uint32_t* words, uint64_t* wrong) {
  __shared__ level_block block;
  auto* const found_of = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  block.begin(g, m);
  const uint32_t blocks = gridDim.x * g.n_pes, me = g.my_pe * gridDim.x + blockIdx.x, before = *m.number;
  for (uint32_t k = 0; k < times; ++k) {
    const bool writes = k % 3 != 2;
    if (writes && threadIdx.x < g.n_pes)
      *block.others.at(&words[(before + k) % 2 * blocks + me], static_cast<int>(threadIdx.x)) = k + me;
    const level_totals all = block.rendezvous(g, m, {me + k, level_report::most - me}, found_of, writes);
    uint64_t found = 0, work = 0;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < blocks; ++i) {
      found += i + k;
      work += level_report::most - i;
      bad += found_of[i] != i + k;
      if (writes) bad += words[(before + k) % 2 * blocks + i] != k + i;
    }
    bad += all.found != found || all.work != work;
    if (bad) fetch_add<scope::device>(wrong, uint64_t{1});
  }
  block.end(m);
}
void check_rendezvous() {
  level_rendezvous_memory memory(3);
  const auto blocks = memory.view().blocks * static_cast<uint32_t>(gravel_n_pes());
  auto* const words = gravel_malloc<uint32_t>(2 * blocks * sizeof(uint32_t));
  device_array<uint64_t> wrong(std::vector<uint64_t>(1));
  for (const uint32_t times : {1u, 40u, 7u, 60u / static_cast<uint32_t>(gravel_n_pes())})
    launch_alone(come_together,
                 {.grid = memory.view().blocks, .block = 64, .shared_bytes = 4 * blocks, .cooperative = true},
                 gravel_handle(), memory.view(), times, words, wrong.data());
  uint64_t found = 0;
  copy_behind_kernels(&found, wrong.data(), sizeof(found));
  expect(found == 0, "rendezvous: " + std::to_string(found) + " threads saw something else");
  gravel_barrier_all();
  gravel_free(words);
  memory.release();
}

/// Every PE makes every third of its bits; then all copies must have them.
__global__ void make_bits(const __grid_constant__ gravel_t g, const __grid_constant__ replicated_bitmap bits) {
  __shared__ mapped_sender others;
  others.begin(g);
  for (uint32_t place = threadIdx.x * 128; place < bits.strips * replicated_bitmap::strip; place += blockDim.x * 128) {
    word4 four{};
    for (uint32_t i = 0; i < 128; ++i)
      if (bits.code_of(static_cast<int>(g.my_pe), place + i) % 3 == 0) four.word[i / 32] |= 1u << i % 32;
    bits.publish(others, 1, place, four, true);
  }
}
__global__ void test_bits(const __grid_constant__ replicated_bitmap bits, uint32_t hub_words, uint64_t* wrong) {
  auto* const hub = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  bits.copy_hub_part(1, reinterpret_cast<word4*>(hub), hub_words);
  __syncthreads();
  for (uint32_t code = threadIdx.x; code + 3 < bits.codes(); code += blockDim.x) {
    const uint32_t codes[4] = {code, code + 1, ~0u, code + 3};
    const uint32_t found = bits.test<4>(1, codes, hub, hub_words * 32);
    const uint32_t expected = (code % 3 == 0) * 9u | (code % 3 == 2) * 2u;
    const bool is_code = bits.code_of(bits.owner_of(code), bits.place_of(code)) == code;
    if (found != expected || !is_code) fetch_add<scope::device>(wrong, uint64_t{1});
  }
}
void check_bitmap() {
  bitmap_memory memory;
  memory.make(3);
  gravel_barrier_all();
  launch_alone(make_bits, {.grid = 1, .block = 32}, gravel_handle(), memory.view());
  gravel_barrier_all();
  device_array<uint64_t> wrong(std::vector<uint64_t>(1));
  for (const uint32_t hub_words : {0u, 8u})
    launch_alone(test_bits, {.grid = 1, .block = 64, .shared_bytes = 32}, memory.view(), hub_words, wrong.data());
  uint64_t found = 0;
  copy_behind_kernels(&found, wrong.data(), sizeof(found));
  expect(found == 0, "bitmap: " + std::to_string(found) + " codes are wrong");
  gravel_barrier_all();
  memory.release();
}

/// All PEs get an error, also if only one has done something wrong.
void check_errors() {
  const divided part = line();
  const bool is_first = gravel_my_pe() == 0;
  if (all_are_mapped()) {
    gravel_search search(part.view(), part.edges);
    expect_error("there is no vertex 4711 of PE 0", [&] { search.run(0, 4711); });
    expect_error("there is no vertex 0 of PE -1", [&] { search.run(-1, 0); });
    expect_error("the constructor got none", [&] { search.run(0, 0, gravel_parents::names); });
    expect(search.run(0, 0), "it gave up");
  }
  if (gravel_n_pes() > 1)
    expect_error(is_first ? "refused at another PE" : "this one has none",
                 [&] { gravel_search search(part.view(), part.edges, is_first ? part.names.data() : nullptr); });
  const divided broken = line();
  const uint32_t nowhere = 100;
  if (is_first) gravel_copy(const_cast<uint32_t*>(broken.targets.data()), &nowhere, sizeof(nowhere));
  expect_error(is_first ? "leads to a vertex beyond" : "refused at another PE",
               [&] { gravel_search search(broken.view(), broken.edges); });
}
/// A deep graph with one level of many edges: the search gives up, and the next one is right.
void check_giving_up() {
  test_graph deep{"deep", 5000, {}};
  for (uint32_t v = 1; v < deep.n; ++v) deep.edges.emplace_back(v < 400 ? 0 : v - 200, v);
  const divided part(deep, deep.rows(), false);
  gravel_search search(part.view(), part.edges);
  expect(!search.run(0, 0), "it did not give up");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  item_checks::begin_job();
  item_checks::check_all();
  if (how != "items") {
    check_errors();
    const divided part = line();
    if (all_are_mapped()) {
      check_rendezvous();
      if (!GRAVEL_CUDA) check_giving_up();  // a GPU's blocks need a larger graph
      check_bitmap();
      check_refusals();
      bool by_degree = false;
      uint32_t turn = 0;
      for (const test_graph& graph : graphs(how == "short")) {
        if (how != "short") check(graph, by_degree, false);
        by_degree = !by_degree;
        check(graph, by_degree, how == "short");
        // The largest graph has all kinds of weights, the others have them in turn.
        for (uint32_t kind = 0; kind < weight_kinds; ++kind)
          if (how != "short" || graph.n > 1000 || kind == turn % weight_kinds)
            check_paths(graph, by_degree || kind == 0, static_cast<weights_of>(kind), how == "short");
        ++turn;
      }
      check_refused_paths();
      expect(steps.size() == 5, "only " + std::to_string(steps.size()) + " kinds of steps of paths occurred");
      expect(4 * path_ends > 3 * path_runs, "paths gave up in " + std::to_string(path_runs - path_ends) + " of " +
                                                std::to_string(path_runs) + " runs");
      // The lists of a GPU's blocks are too long for small graphs.
      std::string occurred;
      for (const auto way : ways) occurred += " " + std::to_string(static_cast<int>(way));
      expect(ways.size() == 4 || (GRAVEL_CUDA && how == "short"),
             "of 4 kinds of levels only these occurred:" + occurred);
      expect(graphs_ranked >= 2, "only " + std::to_string(graphs_ranked) + " graphs were ranked by the kernel");
      expect(most_rounds > 2 || GRAVEL_CUDA, "components had up to " + std::to_string(most_rounds) + " rounds");
    } else {
      gravel_search search(part.view(), part.edges);
      expect(!search.fits(), "it fits without mapped memory");
      expect_error("does not fit", [&] { search.run(0, 0); });
      expect(!gravel_components(part.view(), part.edges).fits(), "components fit without mapped memory");
    }
  }
  const int failed = static_cast<int>(gravel_sum_all(static_cast<uint64_t>(failures)));
  gravel_finalize();
  return failed == 0 ? 0 : 1;
}
