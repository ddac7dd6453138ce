// Generators and partitions; R-MAT is in graph_test.cpp.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "lib/graph/graph.hpp"
#include "lib/graph/portions.hpp"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

/// Vertices that can be reached from vertex 0.
uint64_t reached(const csr& rows) {
  std::vector<char> seen(rows.rows());
  std::vector<uint64_t> stack{0};
  seen[0] = 1;
  uint64_t count = 0;
  while (!stack.empty()) {
    const uint64_t v = stack.back();
    stack.pop_back();
    ++count;
    for (uint64_t e = rows.offsets[v]; e < rows.offsets[v + 1]; ++e)
      if (!seen[rows.targets[e]]++) stack.push_back(rows.targets[e]);
  }
  return count;
}

bool is_symmetric(const edge_list& list) {
  std::vector<edge> there = list.edges, back;
  for (const edge& e : there) back.push_back({e.target, e.source});
  std::sort(there.begin(), there.end());
  std::sort(back.begin(), back.end());
  return there == back;
}

uint64_t cut_of(const csr& whole, const partition& by) {
  uint64_t cut = 0;
  for (uint64_t v = 0; v < whole.rows(); ++v)
    for (uint64_t e = whole.offsets[v]; e < whole.offsets[v + 1]; ++e)
      cut += by.owner(by.number_of(v)) != by.owner(by.number_of(whole.targets[e]));
  return cut;
}

}  // namespace

TEST_CASE("by_degrees: most edges first, dealt out in turn") {
  const edge_list list = rmat(9, 8, 5);
  std::vector<uint64_t> degree(list.vertices);
  for (const edge& e : list.edges) {
    ++degree[e.source];
    ++degree[e.target];
  }
  for (const int parts : {1, 3, 8}) {
    INFO(parts);
    const partition by = by_degrees(list, parts);
    REQUIRE(by.parts() == parts);
    REQUIRE(by.vertices() == list.vertices);
    std::vector<uint64_t> vertex_of(list.vertices, ~uint64_t{0}), sums(static_cast<size_t>(parts));
    for (uint64_t v = 0; v < list.vertices; ++v) {
      REQUIRE(vertex_of[by.number_of(v)] == ~uint64_t{0});
      vertex_of[by.number_of(v)] = v;
      sums[static_cast<size_t>(by.owner(by.number_of(v)))] += degree[v];
    }
    for (int p = 0; p < parts; ++p) {
      CHECK(by.count(p) + 1 >= list.vertices / static_cast<uint64_t>(parts));
      for (uint64_t n = by.first[static_cast<size_t>(p)]; n + 1 < by.first[static_cast<size_t>(p) + 1]; ++n)
        CHECK(degree[vertex_of[n]] >= degree[vertex_of[n + 1]]);
      // Beside the first vertices, of which one part has the larger ones, all parts have nearly the same.
      CHECK(sums[static_cast<size_t>(p)] <
            2 * list.edges.size() / static_cast<uint64_t>(parts) * 5 / 4 + degree[vertex_of[0]]);
    }
  }
  CHECK_THROWS_WITH(by_degrees(list, 0), contains_text("at least one"));
  CHECK(round_robin({2, 0, 1}, 2).number == std::vector<uint64_t>{2, 1, 0});
  CHECK(round_robin({1, 0}, 3).first == std::vector<uint64_t>{0, 1, 2, 2});
}

TEST_CASE("cage: as many vertices and entries as the published matrices") {
  // Sizes of the SuiteSparse Matrix Collection, cage3 to cage13; two more below.
  const std::map<int, std::pair<uint64_t, uint64_t>> published = {
      {3, {5, 19}},           {4, {9, 49}},       {5, {37, 233}},        {6, {93, 785}},        {7, {340, 3084}},
      {8, {1015, 11003}},     {9, {3534, 41594}}, {10, {11397, 150645}}, {11, {39082, 559722}}, {12, {130228, 2032536}},
      {13, {445315, 7479343}}};
  for (const auto& [monomers, size] : published) {
    INFO(monomers);
    const edge_list list = cage(monomers);
    CHECK(list.vertices == size.first);
    CHECK(list.edges.size() == size.second);
    CHECK(list.total_edges == size.second);
    CHECK(cage_size(monomers).vertices == size.first);
    if (monomers > 9) continue;
    CHECK(is_symmetric(list));
    CHECK(reached(make_csr(list)) == list.vertices);
  }
  CHECK_THROWS_WITH(cage(2), contains_text("3 to 15"));
  CHECK_THROWS_WITH(cage(16), contains_text("3 to 15"));
}

// Hidden: seconds, and 1.6 GiB of memory.
TEST_CASE("cage: as many vertices and entries as the largest published matrices", "[.large]") {
  const std::map<int, std::pair<uint64_t, uint64_t>> published = {{14, {1505785, 27130349}}, {15, {5154859, 99199551}}};
  for (const auto& [monomers, size] : published) {
    INFO(monomers);
    const edge_list list = cage(monomers, {.threads = 2});
    CHECK(list.vertices == size.first);
    CHECK(list.edges.size() == size.second);
    const csr rows = make_csr(list);
    CHECK(reached(rows) == list.vertices);
    uint64_t without_way_back = 0;
    for (const edge& e : list.edges) {
      const auto row = rows.targets.begin() + static_cast<std::ptrdiff_t>(rows.offsets[e.target]);
      without_way_back += !std::binary_search(row, row + static_cast<std::ptrdiff_t>(rows.degree(e.target)), e.source);
    }
    CHECK(without_way_back == 0);
  }
}

TEST_CASE("threads change nothing of a generated graph") {
  const std::map<std::string, std::function<edge_list(const graph_share&)>> graphs = {
      {"rmat", [](const graph_share& share) { return rmat(12, 16, 3, share); }},
      {"mesh", [](const graph_share& share) { return mesh(400, 500, 3, share); }},
      {"grid", [](const graph_share& share) { return road_grid(400, 500, 0.6, 3, share); }},
      {"cage", [](const graph_share& share) { return cage(10, share); }},
  };
  for (const auto& [name, get] : graphs)
    for (const int parts : {1, 3}) {
      INFO(name << " in " << parts);
      const edge_list one = get({.part = parts - 1, .parts = parts});
      for (const int threads : {2, 5}) {
        const edge_list more = get({.part = parts - 1, .parts = parts, .threads = threads});
        CHECK(more.total_edges == one.total_edges);
        CHECK(more.edges == one.edges);
      }
    }
}

TEST_CASE("portions are put together in order, and exceptions come out") {
  std::vector<uint64_t> all;
  const auto make = [](uint64_t portion, uint64_t& piece) {
    if (portion % 7 == 0) std::this_thread::yield();
    piece = portion;
  };
  in_portions<uint64_t>(1000, 4, make, [&](uint64_t piece) { all.push_back(piece); });
  REQUIRE(all.size() == 1000);
  CHECK(std::is_sorted(all.begin(), all.end()));
  in_portions<uint64_t>(0, 4, make, [&](uint64_t) { FAIL(); });
  const auto throws = [&](uint64_t in_make, uint64_t in_append) {
    in_portions<uint64_t>(
        100, 4,
        [&](uint64_t portion, uint64_t& piece) {
          if (portion == in_make) throw std::runtime_error("made");
          piece = portion;
        },
        [&](uint64_t piece) {
          if (piece == in_append) throw std::runtime_error("appended");
        });
  };
  CHECK_THROWS_WITH(throws(50, 100), contains_text("made"));
  CHECK_THROWS_WITH(throws(100, 50), contains_text("appended"));
}

TEST_CASE("mesh: three neighbours, but at the border") {
  const edge_list list = mesh(40, 30, 1);
  CHECK(list.vertices == 2400);
  // Inside the squares, and across their sides.
  CHECK(list.total_edges == 2 * (1200 + 39 * 30 + 40 * 29));
  CHECK(is_symmetric(list));
  csr rows = make_csr(list);
  for (uint64_t v = 0; v < rows.rows(); ++v) REQUIRE((rows.degree(v) >= 1 && rows.degree(v) <= 3));
  CHECK(reached(rows) == 2400);
  const csr before = rows;
  simplify(rows);
  CHECK(rows.targets.size() == before.targets.size());
  CHECK(mesh(40, 30, 2).edges != list.edges);
  CHECK(mesh(1, 1, 1).edges == std::vector<edge>{{0, 1}, {1, 0}});
  CHECK_THROWS_WITH(mesh(0, 5, 1), contains_text("mesh of 0 x 5"));
  CHECK_THROWS_WITH(mesh(5, uint64_t{1} << 40, 1), contains_text("each side"));
}

TEST_CASE("road grid: the share of the edges that was asked for") {
  const edge_list full = road_grid(50, 20, 1, 1), some = road_grid(50, 20, 0.6, 1);
  CHECK(full.total_edges == 2 * (49 * 20 + 50 * 19));
  CHECK(reached(make_csr(full)) == 1000);
  CHECK(is_symmetric(some));
  // 1158 of 1930 edges on average, standard deviation 22.
  CHECK(std::abs(static_cast<double>(some.total_edges) / 2 - 1158) < 110);
  CHECK(road_grid(50, 20, 0, 1).edges.empty());
  CHECK(road_grid(1, 1, 1, 1).vertices == 1);
  CHECK_THROWS_WITH(road_grid(5, 5, 1.5, 1), contains_text("from 0 to 1"));
  CHECK_THROWS_WITH(road_grid(5, 0, 0.5, 1), contains_text("each side"));
}

TEST_CASE("the parts of a generated graph are together the whole") {
  const std::map<std::string, std::function<edge_list(const graph_share&)>> graphs = {
      {"rmat", [](const graph_share& share) { return rmat(7, 4, 3, share); }},
      {"mesh", [](const graph_share& share) { return mesh(7, 9, 3, share); }},
      {"grid", [](const graph_share& share) { return road_grid(7, 9, 0.6, 3, share); }},
      {"cage", [](const graph_share& share) { return cage(6, share); }},
  };
  for (const auto& [name, get] : graphs)
    for (const bool undirected : {false, true})
      for (const int parts : {1, 2, 3, 8, 200}) {
        INFO(name << " in " << parts);
        edge_list whole = get({.undirected = undirected});
        assign_weights(whole, 255, 7);
        std::vector<std::pair<edge, double>> all, together;
        for (size_t i = 0; i < whole.edges.size(); ++i) all.emplace_back(whole.edges[i], whole.weights[i]);
        for (int part = 0; part < parts; ++part) {
          edge_list share = get({.part = part, .parts = parts, .undirected = undirected});
          assign_weights(share, 255, 7);
          CHECK(share.total_edges == whole.edges.size());
          for (size_t i = 0; i < share.edges.size(); ++i) together.emplace_back(share.edges[i], share.weights[i]);
        }
        std::sort(all.begin(), all.end());
        std::sort(together.begin(), together.end());
        CHECK(all == together);
      }
  CHECK_THROWS_WITH(mesh(2, 2, 1, {.part = 2, .parts = 2}), contains_text("part 2 of 2"));
  CHECK_THROWS_WITH(cage(3, {.part = 0, .parts = 0}), contains_text("part 0 of 0"));
}

TEST_CASE("weights: of both directions the same, all that may be, and no others") {
  edge_list list = rmat(8, 8, 1, {.undirected = true});
  assign_weights(list, 4, 9);
  std::map<std::pair<uint64_t, uint64_t>, double> of_ends;
  std::map<double, int> seen;
  for (size_t i = 0; i < list.edges.size(); ++i) {
    const auto [low, high] = std::minmax(list.edges[i].source, list.edges[i].target);
    const double weight = of_ends.try_emplace({low, high}, list.weights[i]).first->second;
    REQUIRE(weight == list.weights[i]);
    ++seen[weight];
  }
  CHECK(seen.size() == 4);
  CHECK(seen.begin()->first == 1);
  CHECK(seen.rbegin()->first == 4);
  CHECK_THROWS_WITH(assign_weights(list, 0, 1), contains_text("from 1 on"));
}

TEST_CASE("partitions own every vertex once, and rows keep their edges") {
  edge_list list = rmat(9, 8, 5);
  assign_weights(list, 100, 1);
  const csr whole = make_csr(list);
  for (const int parts : {1, 2, 3, 7, 600}) {
    std::map<std::string, partition> all = {{"contiguous", contiguous(whole.rows(), parts)},
                                            {"edges", by_edges(whole, parts)}};
    if (has_metis()) all["metis"] = by_metis(whole, parts, 1);
    for (const auto& [name, by] : all) {
      INFO(name << " in " << parts);
      CHECK(by.parts() == parts);
      CHECK(by.vertices() == whole.rows());
      const vertex_code codes = vertex_code::of(by.most(), parts);
      std::vector<uint64_t> old(whole.rows(), ~uint64_t{0});
      for (uint64_t v = 0; v < whole.rows(); ++v) old.at(by.number_of(v)) = v;
      CHECK(std::count(old.begin(), old.end(), ~uint64_t{0}) == 0);
      uint64_t edges = 0;
      for (int part = 0; part < parts; ++part) {
        const csr rows = rows_of(whole, by, part);
        REQUIRE(rows.rows() == by.count(part));
        const std::vector<uint32_t> named = codes_of(rows, by, codes);
        for (uint64_t i = 0; i < rows.rows(); ++i) {
          REQUIRE(by.owner(by.first[static_cast<size_t>(part)] + i) == part);
          const uint64_t v = old[by.first[static_cast<size_t>(part)] + i];
          REQUIRE(rows.degree(i) == whole.degree(v));
          for (uint64_t k = 0; k < rows.degree(i); ++k, ++edges) {
            const uint64_t e = rows.offsets[i] + k;
            REQUIRE(old[rows.targets[e]] == whole.targets[whole.offsets[v] + k]);
            REQUIRE(rows.weights[e] == whole.weights[whole.offsets[v] + k]);
            REQUIRE(by.first[static_cast<size_t>(codes.owner(named[e]))] + codes.place(named[e]) == rows.targets[e]);
          }
        }
      }
      CHECK(edges == whole.targets.size());
    }
  }
  CHECK_THROWS_WITH(contiguous(5, 0), contains_text("0 parts"));
}

TEST_CASE("partitions by edges have nearly the same work") {
  const csr whole = make_csr(rmat(10, 16, 5));
  const uint64_t longest = [&] {
    uint64_t most = 0;
    for (uint64_t v = 0; v < whole.rows(); ++v) most = std::max(most, whole.degree(v));
    return most;
  }();
  for (const int parts : {2, 3, 8}) {
    const partition by = by_edges(whole, parts);
    for (int part = 0; part < parts; ++part) {
      const csr rows = rows_of(whole, by, part);
      const double work = static_cast<double>(rows.rows() + rows.targets.size()),
                   fair = static_cast<double>(whole.rows() + whole.targets.size()) / parts;
      CHECK(std::abs(work - fair) <= static_cast<double>(longest + 1));
    }
  }
  // A star: the centre is a part's whole work, others may be empty.
  csr star{{0, 100}, std::vector<uint64_t>(100, 1), {}};
  for (int leaf = 0; leaf < 10; ++leaf) star.offsets.push_back(100);
  CHECK(by_edges(star, 4).first == std::vector<uint64_t>{0, 0, 0, 0, 11});
}

TEST_CASE("METIS cuts fewer edges of a scattered mesh than blocks do") {
  if (!has_metis()) {
    CHECK_THROWS_WITH(by_metis(csr{{0, 0}, {}, {}}, 2, 1), contains_text("libmetis-dev"));
    return;
  }
  edge_list list = mesh(20, 20, 1);
  for (edge& e : list.edges) e = {e.source * 333 % 800, e.target * 333 % 800};  // 333 and 800 have no common divisor
  const csr whole = make_csr(list);
  const partition by = by_metis(whole, 4, 1);
  CHECK(cut_of(whole, by) * 4 < cut_of(whole, contiguous(800, 4)));
  CHECK(by.most() < 260);
  CHECK(by_metis(whole, 4, 1).number == by.number);
  // No edges, loops, fewer vertices than parts.
  CHECK(by_metis(csr{{0, 0, 0, 0, 0}, {}, {}}, 2, 1).vertices() == 4);
  CHECK(by_metis(csr{{0, 1, 2}, {0, 1}, {}}, 2, 1).vertices() == 2);
  CHECK(by_metis(csr{{0, 1}, {0}, {}}, 5, 1).vertices() == 1);
}

TEST_CASE("vertex codes: owner and place in 32 bits") {
  for (const auto& [most, parts] :
       {std::pair<uint64_t, int>{1, 1}, {1, 8}, {5, 3}, {1 << 23, 8}, {uint64_t{1} << 31, 2}, {uint64_t{1} << 31, 1}}) {
    const vertex_code codes = vertex_code::of(most, parts);
    for (const int owner : {0, parts - 1})
      for (const uint64_t place : {uint64_t{0}, most - 1}) {
        const uint32_t code = codes.code(owner, place);
        CHECK(codes.owner(code) == owner);
        CHECK(codes.place(code) == place);
      }
  }
  CHECK_THROWS_WITH(vertex_code::of(uint64_t{1} << 31, 3), contains_text("more than 32 bits"));
  CHECK_THROWS_WITH(vertex_code::of(uint64_t{1} << 32, 1), contains_text("more than 32 bits"));
}
