// METIS and Galois files, weights, and what a share keeps; Matrix Market, SNAP and gzip are in graph_test.cpp.
#include <cstring>
#include <random>
#include <tuple>

#include "lib/graph/graph.hpp"
#include "test/support/error_of.hpp"
#include "test/support/scratch.hpp"

using namespace gravel::detail;

namespace {

using edges = std::vector<edge>;
using numbers = std::vector<double>;
const read_options weighted{.names = {}, .weights = true};

/// A Galois file. `T`: of the weights, if there are any.
template <class T = uint32_t>
std::string galois(uint64_t version, const std::vector<uint64_t>& ends, const std::vector<uint64_t>& targets,
                   const std::vector<T>& weights = {}, bool fills = true) {
  std::string text;
  const auto append = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  for (const uint64_t word :
       {version, uint64_t{weights.empty() ? 0 : sizeof(T)}, uint64_t{ends.size()}, uint64_t{targets.size()}})
    append(word);
  for (const uint64_t end : ends) append(end);
  for (const uint64_t target : targets) version == 1 ? append(static_cast<uint32_t>(target)) : append(target);
  if (version == 1 && targets.size() % 2 && fills) append(uint32_t{0});
  for (const T weight : weights) append(weight);
  return text;
}

}  // namespace

TEST_CASE("METIS: line i has the neighbours of vertex i - 1") {
  const scratch files;
  const std::string path = files.write("% a comment\n4 3\n2 3\n1\n% another\n1 4\n3\n", "x.graph");
  const edges expected = {{0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 3}, {3, 2}};
  CHECK(read_graph(path).edges == expected);
  CHECK(read_graph(path).vertices == 4);
  CHECK(read_graph(path, {.undirected = true}).edges == expected);
  CHECK(read_graph(files.write_gzip("4 3\n2 3\n1\n1 4\n3\n", "x.metis.gz")).edges == expected);
  CHECK(read_graph(files.write("4 3\n2 3\n1\n1 4\n3\n", "x"), {}, {.format = graph_format::metis}).edges == expected);
  // A vertex without neighbours is an empty line; sizes and weights of vertices are read past.
  CHECK(read_graph(files.write("3 1 111 2\n9 7 7 2 5\n9 7 7 1 5\n9 7 7\n", "x.graph")).edges == edges{{0, 1}, {1, 0}});
  CHECK(read_graph(files.write("3 1\n2\n1\n\n", "x.graph")).vertices == 3);
  const edge_list list = read_graph(files.write("3 2 1\n2 5\n1 5 3 0.5\n2 0.5\n", "x.graph"), {}, weighted);
  CHECK(list.edges == edges{{0, 1}, {1, 0}, {1, 2}, {2, 1}});
  CHECK(list.weights == numbers{5, 5, 0.5, 0.5});
}

TEST_CASE("Galois: both versions, with and without weights") {
  const scratch files;
  const edges expected = {{0, 2}, {0, 1}, {2, 0}};
  for (const uint64_t version : {1, 2}) {
    INFO(version);
    CHECK(read_graph(files.write(galois(version, {2, 2, 3}, {2, 1, 0}))).edges == expected);
    CHECK(read_graph(files.write(galois(version, {2, 2, 3}, {2, 1, 0}, {}, false))).edges == expected);
    const std::string whole = galois(version, {2, 2, 3}, {2, 1, 0}, std::vector<uint32_t>{7, 8, 4000000000u});
    for (const std::string& path : {files.write(whole), files.write_gzip(whole)}) {
      const edge_list list = read_graph(path, {}, weighted);
      CHECK(list.vertices == 3);
      CHECK(list.edges == expected);
      CHECK(list.weights == numbers{7, 8, 4e9});
      CHECK(read_graph(path).weights.empty());
    }
    const std::string real = galois(version, {2, 2, 3}, {2, 1, 0}, std::vector<float>{0.5f, 1, 0});
    CHECK(read_graph(files.write(real), {}, {.weights = true, .real_weights = true}).weights == numbers{0.5, 1, 0});
    const std::string wide = galois(version, {2, 2, 3}, {2, 1, 0}, std::vector<double>{0.1, 1, 0});
    CHECK(read_graph(files.write(wide), {}, {.weights = true, .real_weights = true}).weights == numbers{0.1, 1, 0});
    for (size_t size = 8; size < whole.size(); ++size) {
      const std::string said = error_of([&] { read_graph(files.write(whole.substr(0, size)), {}, weighted); });
      if (said.find("graph ends at byte " + std::to_string(size)) == std::string::npos &&
          said.find("graph ends at byte 0") == std::string::npos)
        FAIL(size << ": " << said);
    }
  }
  CHECK(read_graph(files.write(galois(1, {0}, {}))).vertices == 1);
}

TEST_CASE("Galois: errors are named") {
  const scratch files;
  const auto said = [&](const std::string& text, const read_options& options = {.format = graph_format::galois}) {
    return error_of([&] { read_graph(files.write(text), {}, options); });
  };
  CHECK_THAT(said(galois(3, {0}, {})), contains_text("graph: expected a Galois file of version 1 or 2, found 3"));
  CHECK_THAT(said(galois(1, {}, {})), contains_text("graph: the graph has no vertices"));
  CHECK_THAT(said(galois(1, {1}, {1})), contains_text("leads to vertex 1, but there are 1"));
  CHECK_THAT(said(galois(2, {2, 1}, {0, 0})), contains_text("the edges of vertex 1 end at 1 of 2"));
  CHECK_THAT(said(galois(2, {3, 2}, {0, 0})), contains_text("the edges of vertex 0 end at 3 of 2"));
  CHECK_THAT(said(galois(2, {1, 1}, {0, 0})), contains_text("the edges of the last vertex end at 1 of 2"));
  CHECK_THAT(said(galois(1, {2}, {0, 0}) + "x"), contains_text("graph: expected the end of the file"));
  CHECK_THAT(said(galois(1, {1}, {0}), weighted), contains_text("have no weights"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<uint16_t>{1})), contains_text("weights of 2 bytes"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<float>{-1}), {.weights = true, .real_weights = true}),
             contains_text("the weight -1 of edge 0"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<float>{NAN}), {.weights = true, .real_weights = true}),
             contains_text("of edge 0 of vertex 0"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<uint32_t>{16777217}), weighted),
             contains_text("the weight 16777217 of edge 0"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<uint64_t>{(uint64_t{1} << 53) + 1}), weighted),
             contains_text("of edge 0 of vertex 0"));
  CHECK_THAT(said(galois(1, {1}, {0}, std::vector<double>{1e39}), {.weights = true, .real_weights = true}),
             contains_text("the weight 1e+39"));
  std::string many = galois(1, {1}, {0});
  many[16 + 5] = 1;  // 2^40 vertices in a file of some bytes: no reason to ask for the memory
  CHECK_THAT(said(many), contains_text("within its ends of rows"));
}

TEST_CASE("weights and METIS: errors name the file, the line, and what was expected") {
  const scratch files;
  const std::string matrix = "%%MatrixMarket matrix coordinate real general\n2 2 1\n", header = "2 1\n";
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"x", "1 2\n", "x:1: expected a weight after two vertex ids"},
      {"x", "1 2 3\n1 2 -0.5\n", "x:2: the weight -0.5 is not a finite number from 0 on"},
      {"x", "1 2 nan\n", "x:1: the weight nan"},
      {"x", "1 2 inf\n", "x:1: the weight inf"},
      {"x", "1 2 1e999\n", "x:1: the weight 1e999 is above 3.4028234663852886e+38, the largest that a float holds"},
      {"x", "1 2 1e39\n", "x:1: the weight 1e39 is above"},
      {"x", "1 2 3.4028236e38\n", "x:1: the weight 3.4028236e38 is above"},
      {"x", "1 2 1" + std::string(50, '0') + "\n", "x:1: the weight 1000"},
      {"x", "1 2 16777216\n1 2 16777217\n",
       "x:2: the weight 16777217 is a whole number that a float (24 bits) does not hold"},
      {"x", "1 2 16777217.0\n", "x:1: the weight 16777217.0 is a whole number"},
      {"x", "1 2 1.6777217e7\n", "x:1: the weight 1.6777217e7 is a whole number"},
      {"x", "1 2 18446744073709551617\n", "x:1: the weight 18446744073709551617 is a whole number"},
      {"x", "1 2 9007199254740993\n", "x:1: the weight 9007199254740993 is a whole number"},
      {"x", "1 2 -1e-400\n", "x:1: the weight -1e-400 is not a finite number from 0 on"},
      {"x", "1 2 1e5e5\n", "x:1: expected a weight"},
      {"x", matrix + "1 2 1e300\n", "x:3: the weight 1e300 is above"},
      {"x", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 16777217\n",
       "x:3: the weight 16777217 is a whole number"},
      {"x", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 99999999999999999999\n",
       "x:3: the weight 99999999999999999999"},
      {"x.graph", "2 1 1\n2 16777217\n1 16777217\n", "x.graph:2: the weight 16777217"},
      {"x", "1 2 3 4\n", "x:1: expected the end of the line after two vertex ids and a weight"},
      {"x", matrix + "1 2 -1\n", "x:3: the weight -1"},
      {"x", matrix + "1 2\n", "x:3: expected 'row column real-number'"},
      {"x", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "x:2: a pattern has no weights"},
      {"x.graph", "2 1 1\n2 -3\n1 -3\n", "x.graph:2: the weight -3"},
      {"x.graph", header + "2\n1\n", "x.graph:1: the edges of this graph have no weights"},
  };
  for (const auto& [name, text, said] : table) {
    INFO(text);
    CHECK_THAT(error_of([&] { read_graph(files.write(text, name), {}, weighted); }), contains_text(said));
  }
  const std::vector<std::pair<std::string, std::string>> metis = {
      {"", "x.graph is empty"},
      {"% only\n", "ends before its first line"},
      {"2\n", "x.graph:1: expected 'vertices edges"},
      {"2 1 2\n", "x.graph:1: expected 'vertices edges"},
      {"2 1 0001\n", "x.graph:1: expected 'vertices edges"},
      {"2 1 1 0\n", "x.graph:1: expected 'vertices edges"},
      {"2 -1\n", "x.graph:1: expected 'vertices edges"},
      {"0 0\n", "x.graph:1: the graph has no vertices"},
      {"999999999999999999 0\n", "x.graph:1: the graph has 999999999999999999 vertices"},
      {header + "2\n", "x.graph ends after the neighbours of 1 vertices, but has 2"},
      {header + "3\n1\n", "x.graph:2: neighbour 3 of vertex 1 does not exist"},
      {header + "0\n1\n", "x.graph:2: neighbour 0 of vertex 1 does not exist"},
      {header + "2\nx\n", "x.graph:3: expected neighbours of vertex 2, found 'x'"},
      {header + "2\n\n", "x.graph:2: vertex 1 has the neighbour 2, but vertex 2 has not the neighbour 1"},
      {"% c\n3 2\n2\n1\n% c\n2\n", "x.graph:6: vertex 3 has the neighbour 2, but vertex 2 has not the neighbour 3"},
      {"% c\n2 2\n2\n1\n", "x.graph:2: 2 edges are promised, which are 4 neighbours, but there are 2"},
      {"2 9223372036854775809\n2\n1\n", "x.graph:1: the graph has 9223372036854775809 edges, more than"},
      {"2 1 11 18446744073709551615\n2 1\n1 1\n", "x.graph:1: 18446744073709551615 weights of a vertex are more than"},
      {"2 1 110 18446744073709551615\n2\n1\n", "x.graph:1: 18446744073709551615 weights of a vertex are more than"},
      {"2 1 1 2\n2 1\n1 1\n", "x.graph:1: 2 weights of a vertex, but the format 1 says that vertices have none"},
      {"2 2\n1 2\n1\n", "x.graph:2: vertex 1 is its own neighbour"},
      {"2 2\n2 2\n1 1\n", "x.graph:2: vertex 1 has the neighbour 2 twice"},
      {"2 1 1\n2 5\n1 6\n", "x.graph:2: the edge of vertices 1 and 2 has the weight 5 here and 6 in line 3"},
      {header + "2\n1\n1\n", "x.graph:4: expected the end of the file"},
      {"2 1 1\n2 5\n1\n", "x.graph:3: expected pairs of neighbour and weight of vertex 2"},
      {"2 1 10\n\n1 1\n", "x.graph:2: expected 1 numbers for vertex 1 first"},
  };
  for (const auto& [text, said] : metis) {
    INFO(text);
    CHECK_THAT(error_of([&] { read_graph(files.write(text, "x.graph")); }), contains_text(said));
  }
}

TEST_CASE("weights of Matrix Market and SNAP") {
  const scratch files;
  const edge_list matrix = read_graph(
      files.write("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 0\n2 1 0.25\n3 2 1e3\n"), {}, weighted);
  CHECK(matrix.edges == edges{{0, 0}, {1, 0}, {0, 1}, {2, 1}, {1, 2}});
  CHECK(matrix.weights == numbers{0, 0.25, 0.25, 1000, 1000});
  const edge_list snap = read_graph(files.write("7 9 +2.5\n9 9 0\n"), {}, weighted);
  CHECK(snap.edges == edges{{0, 1}, {1, 1}});
  CHECK(snap.weights == numbers{2.5, 0});
}

TEST_CASE("weights that float holds, or that are rounded as decimals are") {
  const scratch files;
  const edge_list list =
      read_graph(files.write("1 2 1e-400\n1 2 1.0D+05\n1 2 0.1\n1 2 16777216\n1 2 18446744073709551616\n1 2 -0\n"
                             "1 2 340282346638528859811704183484516925440\n1 2 2.5d-1\n1 2 0." +
                             std::string(400, '0') + "1\n1 2 1.23456789e20\n1 2 33554436\n1 2 +000\n"),
                 {}, weighted);
  CHECK(list.weights ==
        numbers{0, 1e5, 0.1, 16777216, 18446744073709551616.0, 0, largest_weight, 0.25, 0, 1.23456789e20, 33554436, 0});
  CHECK_FALSE(std::signbit(list.weights[5]));
  // Values that are not asked for are not looked at.
  CHECK(read_graph(files.write("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1e999\n2 1 16777217\n"))
            .edges.size() == 2);
}

TEST_CASE("METIS: rows of many vertices, shuffled") {
  // A ring and its chords; what is left out at one end is found with its line.
  const scratch files;
  constexpr uint64_t n = 3000;
  const auto text = [](uint64_t without) {
    std::string rows = std::to_string(n) + " " + std::to_string(2 * n) + "\n";
    for (uint64_t v = 0; v < n; ++v) {
      for (const uint64_t step : {uint64_t{7}, n - 1, n - 7, uint64_t{1}})
        if (v != without || step != 7) rows += std::to_string((v + step) % n + 1) + " ";
      rows += "\n";
    }
    return rows;
  };
  CHECK(read_graph(files.write(text(n), "x.graph")).total_edges == 4 * n);
  CHECK_THROWS_WITH(
      read_graph(files.write(text(1000), "x.graph")),
      contains_text("x.graph:1009: vertex 1008 has the neighbour 1001, but vertex 1001 has not the neighbour 1008"));
}

TEST_CASE("METIS: the row of a hub has more than a MiB") {
  const scratch files;
  constexpr uint64_t n = 200'000;
  std::string text = std::to_string(n) + " " + std::to_string(n - 1) + "\n", others;
  for (uint64_t v = 2; v <= n; ++v) {
    text += std::to_string(v) + " ";
    others += "1\n";
  }
  REQUIRE(text.size() > 1 << 20);
  CHECK(read_graph(files.write(text + "\n" + others, "x.graph")).total_edges == 2 * (n - 1));
}

TEST_CASE("shares: undirected and reversed, in parts") {
  const scratch files;
  const std::string path = files.write("0 1 5\n1 1 6\n2 0 7\n");
  const edge_list both = read_graph(path, {.undirected = true}, weighted),
                  back = read_graph(path, {.reversed = true}, weighted);
  CHECK(both.edges == edges{{0, 1}, {1, 0}, {1, 1}, {2, 0}, {0, 2}});
  CHECK(both.weights == numbers{5, 5, 6, 7, 7});
  CHECK(both.total_edges == 5);
  CHECK(back.edges == edges{{1, 0}, {1, 1}, {0, 2}});
  CHECK(read_graph(path, {.part = 1, .parts = 3, .undirected = true}, weighted).edges == edges{{1, 0}, {1, 1}});
  CHECK(read_graph(path, {.part = 1, .parts = 3, .undirected = true}, weighted).weights == numbers{5, 6});
  CHECK(read_graph(path, {.part = 2, .parts = 3, .reversed = true}, weighted).edges.empty());
}

TEST_CASE("simple graphs: no loops, no repetitions, the lightest edge stays") {
  edge_list list;
  list.vertices = 3;
  list.edges = {{0, 2}, {1, 1}, {0, 1}, {0, 2}, {0, 0}, {2, 0}};
  list.weights = {3, 1, 4, 2, 1, 9};
  csr rows = make_csr(list);
  CHECK(rows.weights == numbers{3, 4, 2, 1, 1, 9});
  simplify(rows);
  CHECK(rows.offsets == std::vector<uint64_t>{0, 2, 2, 3});
  CHECK(rows.targets == std::vector<uint64_t>{1, 2, 0});
  CHECK(rows.weights == numbers{4, 2, 9});
  csr loop{{0, 2}, {7, 8}, {}};
  simplify(loop, 7);  // row 0 is vertex 7
  CHECK(loop.targets == std::vector<uint64_t>{8});
}
