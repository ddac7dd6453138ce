#include "lib/graph/graph.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "lib/base/error.hpp"
#include "lib/graph/id_index.hpp"
#include "lib/graph/line_reader.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"
#include "test/support/gzip_samples.hpp"
#include "test/support/scratch.hpp"

using namespace gravel::detail;

namespace {

const std::string data = GRAVEL_TEST_DATA "/";
using edges = std::vector<edge>;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

edges sorted(edges list) {
  std::sort(list.begin(), list.end());
  return list;
}

const std::vector<uint64_t> snap_ids = {0, 3, 7, 42, 1000000000000, 18446744073709551615ull};
const edges snap_edges = {{2, 4}, {2, 1}, {1, 2}, {5, 0}, {0, 2}, {2, 1}, {1, 1}, {3, 2}};

}  // namespace

TEST_CASE("SNAP edge list: ids are numbered in ascending order, repetitions and loops are kept") {
  const edge_list list = read_graph(data + "graph.txt");
  CHECK(list.vertices == 6);
  CHECK(list.total_edges == 8);
  CHECK(list.ids.listed == snap_ids);
  CHECK(list.names.empty());
  CHECK(list.edges == snap_edges);
}

TEST_CASE("Matrix Market: entry (i, j) is the edge i-1 -> j-1") {
  const edge_list list = read_graph(data + "graph.mtx");
  CHECK(list.vertices == 5);
  CHECK(list.total_edges == 6);
  CHECK(list.ids.listed.empty());
  CHECK(list.edges == edges{{0, 0}, {0, 1}, {1, 2}, {4, 0}, {3, 4}, {0, 1}});
}

TEST_CASE("Matrix Market: symmetric adds the mirrored edge, but not of the diagonal") {
  const edge_list list = read_graph(data + "symmetric.mtx");
  CHECK(list.vertices == 4);
  CHECK(list.total_edges == 7);
  CHECK(list.edges == edges{{0, 0}, {1, 0}, {0, 1}, {3, 1}, {1, 3}, {3, 2}, {2, 3}});
}

TEST_CASE("Matrix Market: the other legal headers") {
  const scratch files;
  CHECK(read_graph(files.write("%%matrixmarket MATRIX Coordinate Integer General\n2 2 2\n1 2 -7\n2 2 +3\n")).edges ==
        edges{{0, 1}, {1, 1}});
  CHECK(read_graph(files.write("%%MatrixMarket matrix coordinate integer symmetric\n2 2 1\n2\t1\t9\n")).edges ==
        edges{{1, 0}, {0, 1}});
  CHECK(read_graph(files.write("%%MatrixMarket matrix coordinate pattern general\n\n%\n 3 3 0\n")).vertices == 3);
}

TEST_CASE("gzip, CRLF and a missing last line end change nothing") {
  const scratch files;
  for (const char* name : {"graph.txt", "graph.mtx", "symmetric.mtx"}) {
    INFO(name);
    const edge_list plain = read_graph(data + name);
    const std::string text = content(data + name), crlf = replaced(text, "\n", "\r\n");
    for (const std::string& path :
         {files.write_gzip(text), files.write(crlf, "crlf"), files.write_gzip(crlf, "crlf.gz"),
          files.write(text.substr(0, text.size() - 1), "no-end")}) {
      INFO(path);
      const edge_list list = read_graph(path);
      CHECK(list.vertices == plain.vertices);
      CHECK(list.edges == plain.edges);
      CHECK(list.ids.listed == plain.ids.listed);
    }
  }
}

TEST_CASE("a gzip file of two members, as cat makes it, is read to its end") {
  const scratch files;
  const std::string one = content(files.write_gzip("1 2\n")), two = content(files.write_gzip("2 3\n"));
  CHECK(read_graph(files.write(one + two)).total_edges == 2);
}

TEST_CASE("names: the lines of the names file are the vertices") {
  const edge_list list = read_graph(data + "packages.txt", {}, {.names = names_path_of(data + "packages.txt")});
  REQUIRE(list.vertices == 6);  // also hermit, which has no edges
  CHECK(list.names == std::vector<std::string>{"aquarium", "base-files", "hermit", "libanimal", "libfish", "zoo"});
  CHECK(list.ids.listed.empty());
  CHECK(list.edges == edges{{0, 1}, {0, 3}, {0, 4}, {3, 1}, {4, 3}, {5, 1}, {5, 3}});

  const edge_list without = read_graph(data + "packages.txt");
  CHECK(without.vertices == 5);
  CHECK(without.ids.listed == std::vector<uint64_t>{0, 1, 3, 4, 5});

  const scratch files;
  const std::string names = files.write_gzip("a\nb\nc\nd\ne\n", "names");
  CHECK(read_graph(data + "graph.mtx", {}, {.names = names}).names.back() == "e");
}

TEST_CASE("names: where they belong") {
  CHECK(names_path_of("d.txt/x.txt") == "d.txt/x.names");
  CHECK(names_path_of("x.txt.gz") == "x.names");
  CHECK(names_path_of("x.mtx.gz") == "x.names");
  CHECK(names_path_of("x") == "x.names");
  CHECK(names_path_of("x.v2.el") == "x.v2.el.names");
}

TEST_CASE("names: errors") {
  const scratch files;
  const std::string three = files.write("a\nb\nc\n", "three");
  CHECK_THROWS_WITH(read_graph(files.write("# c\n0 1\n1 3\n"), {}, {.names = three}),
                    contains_text("graph:3: vertex 3 has no name") && contains_text("3 lines"));
  CHECK_THROWS_WITH(read_graph(data + "graph.mtx", {}, {.names = three}),
                    contains_text("graph.mtx:4: the matrix has 5 rows, but the names file has 3 lines"));
  CHECK_THROWS_WITH(read_graph(data + "graph.mtx", {}, {.names = files.path("absent")}),
                    contains_text("absent: No such file"));
  CHECK_THROWS_WITH(read_names(files.write("a\n\nc\n")), contains_text("graph:2: expected the name of vertex 1"));
  CHECK_THROWS_WITH(read_names(files.write("")), contains_text("graph is empty"));
}

TEST_CASE("errors name the file, the line, and what was expected") {
  const scratch files;
  const std::string header = "%%MatrixMarket matrix coordinate pattern general\n";
  const std::string garbage(
      "\x7f"
      "ELF\x02\x00\x01\n",
      8);
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"", "graph is empty", "expected a SNAP edge list or a Matrix Market file"},
      {"# only\n\n# comments\n", "graph has no edges", "comments"},
      {"1 2\n1\n", "graph:2: expected two vertex ids", "found '1'"},
      {"1 2\na b\n", "graph:2: expected two vertex ids", "found 'a b'"},
      {"1 -2\n", "graph:1: expected two vertex ids", "found '1 -2'"},
      {"1 2.5\n", "graph:1: expected two vertex ids", "found '1 2.5'"},
      {"1,2\n", "graph:1: expected two vertex ids", "found '1,2'"},
      {"1 18446744073709551616\n", "graph:1: expected two vertex ids", "0 to 2^64-1"},
      {"1 2\n1 2 5\n", "graph:2: expected the end of the line", "found '1 2 5'"},
      {"% KONECT\n1 2\n", "graph:1: expected '%%MatrixMarket", "found '% KONECT'"},
      {garbage, "graph: byte 5 is 0", "binary data or text in UTF-16"},
      {std::string(5000, '\0'), "graph: byte 0 is 0", "binary data"},
      {"1 2\n" + std::string(600, '#') + "\n1 \x01\n", "graph:3: expected two vertex ids", "'1 \\x01'"},
      {"\n%%MatrixMarket matrix coordinate real general\n", "graph:2: a Matrix Market file begins with the banner",
       "in its first line"},
      {"%%MatrixMarket tensor coordinate real general\n", "graph:1: expected", "the object 'tensor'"},
      {"%%MatrixMarket matrix array real general\n", "graph:1: expected", "'array': a dense matrix"},
      {"%%MatrixMarket matrix coordinate complex general\n", "graph:1: expected", "the field 'complex'"},
      {"%%MatrixMarket matrix coordinate real hermitian\n", "graph:1: expected", "the symmetry 'hermitian'"},
      {"%%MatrixMarket matrix coordinate real skew-symmetric\n", "graph:1: expected", "the symmetry 'skew-symmetric'"},
      {"%%MatrixMarket\n", "graph:1: expected", "the object ''"},
      {"%%MatrixMarket matrix coordinate real general now\n", "graph:1: expected", "found more words"},
      {header, "graph ends before the size line", "'rows columns entries'"},
      {header + "% c\n3 3\n", "graph:3: expected the size line 'rows columns entries'", "found '3 3'"},
      {header + "3 4 1\n1 1\n", "graph:2: the matrix is 3 x 4", "square"},
      {header + "0 0 0\n", "graph:2: the matrix has no rows", "at least one vertex"},
      {header + "999999999999999999 999999999999999999 0\n", "graph:2: the matrix has 999999999999999999 rows", "more"},
      {header + "99999999999999999999 99999999999999999999 1\n", "graph:2: expected the size line",
       "'99999999999999999999"},
      {header + "3 3 -1\n", "graph:2: expected the size line", "'3 3 -1'"},
      {header + "3 3 1\n1 -1\n", "graph:3: expected 'row column'", "found '1 -1'"},
      {header + "3 3 18446744073709551615\n1 1\n", "graph ends after 1 entries", "promises 18446744073709551615"},
      {replaced(header, "general", "symmetric") + "3 3 2\n2 1\n1 2\n", "graph:4: entry (1, 2) is above the diagonal",
       "lower triangle"},
      {replaced(header, "pattern", "integer") + "3 3 1\n1 1 5.0\n", "graph:3: expected 'row column whole-number'",
       "5.0"},
      {header + "3 3 1\n4 1\n", "graph:3: entry (4, 1) is outside the matrix", "from 1 to 3"},
      {header + "3 3 1\n1 4\n", "graph:3: entry (1, 4) is outside the matrix", "from 1 to 3"},
      {header + "3 3 1\n0 1\n", "graph:3: entry (0, 1) is outside the matrix", "from 1 to 3"},
      {header + "3 3 1\n1 0\n", "graph:3: entry (1, 0) is outside the matrix", "from 1 to 3"},
      {header + "3 3 1\n1 1 5\n", "graph:3: expected 'row column'", "found '1 1 5'"},
      {header + "3 3 1\n1 x\n", "graph:3: expected 'row column'", "found '1 x'"},
      {header + "3 3 2\n1 1\n", "graph ends after 1 entries", "promises 2"},
      {header + "3 3 1\n1 1\n2 2\n", "graph:4: expected the end of the file after the 1 entries", "promises"},
      {replaced(header, "pattern", "real") + "3 3 1\n1 1\n", "graph:3: expected 'row column real-number'", "'1 1'"},
      {replaced(header, "pattern", "real") + "3 3 1\n1 1 1,5\n", "graph:3: expected 'row column real-number'", "1,5"},
      {replaced(header, "pattern", "integer") + "3 3 1\n1 1 1.5\n", "graph:3: expected 'row column whole-number'",
       "1.5"},
  };
  for (const auto& [text, where, what] : table) {
    INFO(text.substr(0, 80));
    CHECK_THROWS_WITH(read_graph(files.write(text)),
                      contains_text(files.directory) && contains_text(where) && contains_text(what));
    if (!text.empty()) {
      CHECK_THROWS_WITH(read_graph(files.write_gzip(text, "graph")), contains_text(where) && contains_text(what));
    }
  }
  for (auto [part, parts] : {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -1}})
    CHECK_THROWS_WITH(read_graph(data + "graph.txt", {part, parts}), contains_text("does not exist"));
}

TEST_CASE("files that are none, and pipes, are errors and never hang") {
  const scratch files;
  CHECK_THROWS_WITH(read_graph(files.path("absent")), contains_text("absent: No such file"));
  CHECK_THROWS_WITH(read_graph(files.directory), contains_text("not a regular file"));
  REQUIRE(mkfifo(files.path("pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_graph(files.path("pipe")), contains_text("not a regular file"));
}

TEST_CASE("a gzip file cut off anywhere is an error") {
  const scratch files;
  std::string text;
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) text += std::to_string(random() % 100000) + "\t" + std::to_string(random()) + "\n";
  const std::string whole = content(files.write_gzip(text));
  REQUIRE(read_graph(files.write(whole)).total_edges == 100);
  for (size_t size = 2; size < whole.size(); ++size) {
    const std::string path = files.write(whole.substr(0, size));
    const std::string said = error_of([&] { read_graph(path); });
    if (said.find("graph: the gzip data are cut off") == std::string::npos) FAIL(size << ": " << said);
  }
}

TEST_CASE("damaged gzip data are an error") {
  const scratch files;
  std::string text = "# " + std::string(1000, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + " " + std::to_string(i * 7 % 1000) + "\n";
  std::string whole = content(files.write_gzip(text));
  std::string checksum = whole;
  checksum[checksum.size() - 6] ^= 1;
  CHECK_THROWS_WITH(read_graph(files.write(checksum)), contains_text("graph: the gzip data are damaged"));
  for (size_t i = 10; i + 8 < whole.size(); i += 17) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(~damaged[i]);
    const std::string path = files.write(damaged);
    if (error_of([&] { read_graph(path); }) == "no error") FAIL("byte " << i);
  }
}

TEST_CASE("after a gzip member come zeros or another member, or the file is refused") {
  const scratch files;
  std::string one = "1 2\n", two = "2 3\n";
  for (int i = 0; i < 300; ++i) two += std::to_string(i) + " 7\n";
  const std::string first = gzip_member(one), second = gzip_member(two);
  for (const std::string& whole : {first + second, first + gzip_member("") + second, gzip_member("") + first + second,
                                   block_gzip(one + two), first + second + std::string(100'000, '\0'),
                                   first + std::string(1000, '\0') + second, block_gzip(one) + block_gzip(two)})
    CHECK(read_graph(files.write(whole)).total_edges == 302);

  const std::string blocks = block_gzip(one + two);
  CHECK_THROWS_WITH(read_graph(files.write(blocks.substr(0, blocks.size() - block_gzip({}).size()))),
                    contains_text("graph: the file of bgzip ends at byte "));

  std::string flipped = second;
  flipped[1] ^= 0x1b;
  for (const auto& [behind, said] : std::vector<std::pair<std::string, std::string>>{
           {flipped, "damaged at byte "},
           {"5 6\n", "gzip member at byte 27, found '5 6\\x0a'"},
           {std::string(10, '\0') + "5 6\n", "gzip member at byte 37, found '5 6"},
           {"\x1f", "cut off at byte 28"},
           {second.substr(0, 9), "cut off at byte 36"},
           {second.substr(0, second.size() - 1), "cut off"},
           {"\n", "gzip member at byte 27"},
       }) {
    INFO(said);
    CHECK_THROWS_WITH(read_graph(files.write(first + behind)), contains_text("graph: ") && contains_text(said));
  }
  std::string checksum = first, length = first;
  checksum[checksum.size() - 5] ^= 1;
  length[length.size() - 1] ^= 1;
  CHECK_THROWS_WITH(read_graph(files.write(checksum + second)),
                    contains_text("damaged") && contains_text("(incorrect data check)"));
  CHECK_THROWS_WITH(read_graph(files.write(length + second)),
                    contains_text("damaged") && contains_text("(incorrect length check)"));
}

TEST_CASE("what begins with one byte of gzip's magic is text") {
  const scratch files;
  CHECK_THROWS_WITH(read_graph(files.write("\x1f 2\n")),
                    contains_text("graph:1: expected two vertex ids") && contains_text("\\x1f 2"));
  CHECK_THROWS_WITH(read_graph(files.write("\x1f")), contains_text("graph:1: expected two vertex ids"));
}

TEST_CASE("a mark of UTF-8 is skipped, and a file that is no text is named") {
  const scratch files;
  CHECK(read_graph(files.write("\xef\xbb\xbf# c\n1 2\n")).total_edges == 1);
  CHECK(read_graph(files.write_gzip("\xef\xbb\xbf" + content(data + "graph.mtx"), "x.mtx.gz")).total_edges == 6);
  CHECK(read_graph(files.write("\xef\xbb\xbf"
                               "1 2\n2 3\n"))
            .ids.listed == std::vector<uint64_t>{1, 2, 3});
  std::string tar(512, '\0');
  tar.replace(0, 5, "x.mtx").replace(257, 5, "ustar");
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"PK\3\4....", "is a zip archive"},
           {"BZh91AY&SY..", "is bzip2 data"},
           {std::string("\xfd"
                        "7zXZ\0",
                        6),
            "is xz data"},
           {"\x28\xb5\x2f\xfd..", "is zstd data"},
           {"BAM\1..", "is alignments in BAM"},
           {"CRAM\3", "is alignments in CRAM"},
           {tar, "is a tar archive"},
           {"\n <!DOCTYPE HTML>\n<html>", "is a web page"},
           {"<html><body>404", "is a web page"},
           {std::string("\xff\xfe"
                        "1\0 \0",
                        6),
            "is text in UTF-16"},
           {std::string("\xfe\xff\0"
                        "1\0 ",
                        6),
            "is text in UTF-16"},
           {gzip_member("1 2\n"), "is gzip data within gzip data"},
           {"1 2\r2 3\r", ":1: lines end with CR alone"},
           {std::string("\x00\x01\x02", 3), "byte 0 is 0: these are binary data"},
       }) {
    INFO(said);
    CHECK_THROWS_WITH(read_graph(files.write_gzip(text)), contains_text("graph.gz") && contains_text(said));
    if (text[0] != '\x1f')
      CHECK_THROWS_WITH(read_graph(files.write(text)), contains_text("graph") && contains_text(said));
  }
}

TEST_CASE("a file named *.mtx begins with the banner") {
  const scratch files;
  for (const auto& [text, line] : std::vector<std::pair<std::string, std::string>>{
           {"100 100 3\n1 2 1\n2 3 1\n3 4 1\n", "'100 100 3'"},
           {"\n%%MatrixMarket matrix coordinate real general\n3 3 1\n2 1 1.0\n", "''"},
           {" %%MatrixMarket matrix coordinate real general\n3 3 1\n2 1 1.0\n", "' %%MatrixMarket"},
           {"% a comment\n3 3 1\n", "'% a comment'"},
       })
    for (const char* name : {"x.mtx", "x.MTX"})
      for (const bool weights : {false, true})
        CHECK_THROWS_WITH(read_graph(files.write(text, name), {}, {.weights = weights}),
                          contains_text(std::string(name) + ":1: a Matrix Market file begins with the banner") &&
                              contains_text(line));
  CHECK_THROWS_WITH(read_graph(files.write("x\n"), {}, {.format = graph_format::matrix_market}),
                    contains_text("begins with the banner"));
}

TEST_CASE("comments may be indented") {
  const scratch files;
  CHECK(read_graph(files.write("  # c\n1 2\n\t# d\n")).total_edges == 1);
  CHECK(read_graph(files.write("%%MatrixMarket matrix coordinate pattern general\n  % c\n2 2 1\n\t% d\n1 2\n"))
            .total_edges == 1);
  CHECK(read_graph(files.write(" % c\n2 1\n2\n  % d\n1\n", "x.graph")).total_edges == 2);
}

TEST_CASE("many vertices and few edges take little memory to read, and a text where rows do not fit") {
  const scratch files;
  const edge_list list = read_graph(files.write(
      "%%MatrixMarket matrix coordinate pattern general\n1000000000000 1000000000000 1\n1 1000000000000\n"));
  CHECK(list.vertices == 1000000000000);
  CHECK(list.edges == edges{{0, 999999999999}});
  CHECK_THROWS_WITH(make_csr(list), contains_text("1000000000000 vertices and 1 edges") && contains_text("GiB"));
}

TEST_CASE("lines of more than a MiB are read, and there is a limit") {
  const scratch files;
  const std::string longest(3 << 20, 'x'), start = "1 2\n", end = "\n2 3\n";
  CHECK(read_graph(files.write(start + "#" + longest + end)).total_edges == 2);
  CHECK(read_graph(files.write_gzip(start + "#" + longest)).total_edges == 1);
  const auto lines_of = [](const std::string& text, size_t limit) {
    byte_source source("text", text);
    line_reader reader(source, limit);
    std::string_view line;
    while (reader.next(line)) {
    }
    return reader.line_number();
  };
  CHECK(lines_of(start + longest + end, longest.size()) == 3);
  CHECK(lines_of(start + longest, longest.size()) == 2);
  for (const std::string& text : {start + longest + "x" + end, start + longest + "x", start + longest + longest})
    CHECK_THROWS_WITH(lines_of(text, longest.size()), contains_text("text:2: the line is longer than 3145728 bytes"));
}

TEST_CASE("lines across the reader's chunks arrive whole") {
  const scratch files;
  std::mt19937_64 random(2);
  std::vector<std::string> lines;
  std::string text;
  for (size_t total = 0; total < 3'000'000; total += lines.back().size() + 1) {
    lines.emplace_back(random() % (random() % 50 ? 100 : 300'000), 'a' + static_cast<char>(random() % 26));
    text += lines.back() + "\n";
  }
  for (const std::string& path : {files.write(text), files.write_gzip(text)}) {
    byte_source source(path);
    line_reader reader(source);
    for (int pass = 0; pass < 2; ++pass) {
      std::string_view line;
      size_t wrong = 0;
      for (const std::string& expected : lines) wrong += !reader.next(line) || line != expected;
      CHECK(wrong == 0);
      CHECK_FALSE(reader.next(line));
      CHECK_FALSE(reader.next(line));
      CHECK(reader.line_number() == lines.size());
      reader.rewind();
    }
  }
}

TEST_CASE("round trip of a random graph with scattered ids") {
  const scratch files;
  std::mt19937_64 random(3);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 5000; ++i) ids.push_back(i % 3 ? random() : static_cast<uint64_t>(i) * 5);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  edges expected;
  std::string text;
  for (uint64_t i = 0; i < 40000; ++i) {
    expected.push_back({i < ids.size() ? i : random() % ids.size(), random() % ids.size()});
    text += std::to_string(ids[expected.back().source]) + (i % 2 ? "\t" : "  ") +
            std::to_string(ids[expected.back().target]) + "\n";
  }
  const edge_list list = read_graph(files.write_gzip(text));
  CHECK(list.ids.listed == ids);
  CHECK(list.edges == expected);
}

TEST_CASE("the parts of a file or a generated graph are together the whole") {
  using reader = std::function<edge_list(int, int)>;
  const std::string names = data + "packages.names";
  const std::map<std::string, reader> graphs = {
      {"snap",
       [](int part, int parts) {
         return read_graph(data + "graph.txt", {part, parts});
       }},
      {"general",
       [](int part, int parts) {
         return read_graph(data + "graph.mtx", {part, parts});
       }},
      {"symmetric",
       [](int part, int parts) {
         return read_graph(data + "symmetric.mtx", {part, parts});
       }},
      {"named",
       [&](int part, int parts) {
         return read_graph(data + "packages.txt", {part, parts}, {.names = names});
       }},
      {"rmat",
       [](int part, int parts) {
         return rmat(8, 5, 42, {part, parts});
       }},
  };
  for (const auto& [name, get] : graphs) {
    const edge_list whole = get(0, 1);
    CHECK(whole.edges.size() == whole.total_edges);
    for (const int parts : {1, 2, 3, 7}) {
      INFO(name << " in " << parts);
      const block_distribution distribution(whole.vertices, parts);
      edges together, by_row;
      for (int part = 0; part < parts; ++part) {
        const edge_list share = get(part, parts);
        CHECK(share.vertices == whole.vertices);
        CHECK(share.total_edges == whole.total_edges);
        CHECK(share.ids.listed == whole.ids.listed);
        CHECK(share.names == whole.names);
        for (const edge& e : share.edges) REQUIRE(distribution.owner(e.source) == part);
        together.insert(together.end(), share.edges.begin(), share.edges.end());

        const csr rows = make_csr(share, part, parts);
        REQUIRE(rows.offsets.size() == distribution.count(part) + 1);
        for (uint64_t i = 0; i < distribution.count(part); ++i)
          for (uint64_t k = rows.offsets[i]; k < rows.offsets[i + 1]; ++k)
            by_row.push_back({distribution.first(part) + i, rows.targets.at(k)});
      }
      CHECK(sorted(together) == sorted(whole.edges));
      // Rows are in the order of the vertices, and a row's targets in the order of the file.
      edges stable = whole.edges;
      std::stable_sort(stable.begin(), stable.end(), [](const edge& x, const edge& y) { return x.source < y.source; });
      CHECK(by_row == stable);
    }
  }
}

TEST_CASE("block distribution covers every vertex once, in order") {
  for (const uint64_t vertices : {0, 1, 2, 5, 6, 7, 64, 1000})
    for (const int parts : {1, 2, 3, 4, 7, 64}) {
      INFO(vertices << " on " << parts);
      const block_distribution distribution(vertices, parts);
      uint64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        REQUIRE(distribution.first(part) == next);
        REQUIRE(distribution.count(part) <= distribution.block);
        for (uint64_t i = 0; i < distribution.count(part); ++i, ++next) {
          REQUIRE(distribution.owner(next) == part);
          REQUIRE(distribution.local_index(next) == i);
        }
      }
      CHECK(next == vertices);
    }
  const block_distribution large((1ull << 48) - 1, 1 << 20);
  CHECK(large.owner((1ull << 48) - 2) == (1 << 20) - 1);
  CHECK(large.first((1 << 20) - 1) + large.count((1 << 20) - 1) == (1ull << 48) - 1);
}

TEST_CASE("csr errors") {
  const edge_list foreign{.vertices = 4, .total_edges = 1, .edges = {{3, 0}}, .weights = {}, .names = {}, .ids = {}};
  CHECK_THROWS_WITH(make_csr(foreign, 0, 2), contains_text("edge 3 -> 0 does not belong to part 0 of 2"));
  const edge_list outside{.vertices = 4, .total_edges = 1, .edges = {{4, 0}}, .weights = {}, .names = {}, .ids = {}};
  CHECK_THROWS_WITH(make_csr(outside), contains_text("edge 4 -> 0 does not belong"));
}

TEST_CASE("id index: numbers ids in ascending order and knows no others") {
  std::mt19937_64 random(4);
  std::vector<uint64_t> ids = {0, 1, 63, 64, ~0ull, ~0ull - 1, 1ull << 63};
  for (int i = 0; i < 3000; ++i) ids.push_back(random() >> (random() % 64));
  id_index index;
  for (const uint64_t id : ids) index.insert(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  CHECK(index.number() == ids);
  uint64_t number = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    wrong += !index.find(ids[i], number) || number != i;
    if (!std::binary_search(ids.begin(), ids.end(), ids[i] + 1)) wrong += index.find(ids[i] + 1, number);
  }
  CHECK(wrong == 0);
}

TEST_CASE("vertex ids: those of the file, both ways") {
  const scratch files;
  const edge_list few = read_graph(files.write("10 20\n20 30\n30 40\n2 1\n"));
  CHECK(few.ids.of(0) == 1);
  CHECK(few.ids.of(5) == 40);
  CHECK(few.ids.find(40, few.vertices) == 5);
  CHECK_FALSE(few.ids.find(0, few.vertices));
  CHECK_FALSE(few.ids.find(41, few.vertices));
  const edge_list matrix = read_graph(data + "graph.mtx");
  CHECK(matrix.ids.of(0) == 1);
  CHECK(matrix.ids.find(5, matrix.vertices) == 4);
  CHECK_FALSE(matrix.ids.find(0, matrix.vertices));
  CHECK_FALSE(matrix.ids.find(6, matrix.vertices));
  CHECK(read_graph(files.write("2 1\n2\n1\n", "x.graph")).ids.of(0) == 1);
  const edge_list named = read_graph(data + "packages.txt", {}, {.names = data + "packages.names"});
  CHECK(named.ids.of(5) == 5);
  CHECK(named.ids.find(0, named.vertices) == 0);
  CHECK_FALSE(named.ids.find(6, named.vertices));
}

TEST_CASE("rmat: a function of its arguments, with the skew of its parameters") {
  const edge_list list = rmat(10, 16, 1);
  CHECK(list.vertices == 1024);
  REQUIRE(list.edges.size() == 16384);
  CHECK(list.edges == rmat(10, 16, 1).edges);
  CHECK(list.edges != rmat(10, 16, 2).edges);

  std::map<uint64_t, int> out, in;
  std::map<edge, int> pairs;
  for (const edge& e : list.edges) {
    REQUIRE((e.source < 1024 && e.target < 1024));
    ++out[e.source];
    ++in[e.target];
    ++pairs[e];
  }
  const auto top = [](const auto& counts) {
    return *std::max_element(counts.begin(), counts.end(), [](auto& x, auto& y) { return x.second < y.second; });
  };
  // The vertex of ten zero bits has 0.76^10 of the edges on either side: 1053 of 16384, standard deviation
  // 31; its loop has 0.57^10: 59, standard deviation 8. The limits are five deviations away.
  CHECK(std::abs(top(out).second - 1053) < 155);
  CHECK(std::abs(top(in).second - 1053) < 155);
  CHECK(top(out).first == top(in).first);
  CHECK(top(pairs).first == edge{top(out).first, top(out).first});
  CHECK(std::abs(top(pairs).second - 59) < 40);

  // Numbers are scattered: no half of the vertices has far more than half of the edges.
  const auto lower = std::count_if(list.edges.begin(), list.edges.end(), [](const edge& e) { return e.source < 512; });
  CHECK(std::abs(static_cast<double>(lower) / 16384 - 0.5) < 0.15);
}

TEST_CASE("rmat: every scale numbers its vertices by a permutation") {
  for (const int scale : {1, 2, 3, 5, 8}) {
    INFO(scale);
    const edge_list list = rmat(scale, 4096, 7);
    std::vector<uint64_t> seen;
    for (const edge& e : list.edges) seen.insert(seen.end(), {e.source, e.target});
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    CHECK(seen.size() == list.vertices);
  }
}

TEST_CASE("rmat: errors") {
  CHECK_THROWS_WITH(rmat(0, 16, 1), contains_text("scale") && contains_text("1 to 40"));
  CHECK_THROWS_WITH(rmat(41, 16, 1), contains_text("scale") && contains_text("1 to 40"));
  CHECK_THROWS_WITH(rmat(4, 0, 1), contains_text("0 edges per vertex"));
  CHECK_THROWS_WITH(rmat(4, 16, 1, {3, 3}), contains_text("part 3 of 3"));
}
