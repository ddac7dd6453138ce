#include "lib/graph/graph.hpp"

#include <charconv>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/graph/id_index.hpp"
#include "lib/graph/line_reader.hpp"

namespace gravel {
namespace {

// Far above any real graph; keeps sizes in bytes and products with PE numbers away from overflow.
constexpr uint64_t most_vertices = 1ull << 48;
constexpr std::string_view banner = "%%MatrixMarket";

bool blank(char c) { return c == ' ' || c == '\t'; }

void skip_blanks(std::string_view& rest) {
  size_t n = 0;
  while (n < rest.size() && blank(rest[n])) ++n;
  rest.remove_prefix(n);
}

// Takes a number off the front: false if there is none, it does not fit, or something is glued to it.
template <class T>
bool take_number(std::string_view& rest, T& value) {
  skip_blanks(rest);
  const char* last = rest.data() + rest.size();
  const auto [end, code] = std::from_chars(rest.data(), last, value);
  if (code != std::errc{} || (end != last && !blank(*end))) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return true;
}

std::string_view take_word(std::string_view& rest) {
  skip_blanks(rest);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(word.size());
  return word;
}

bool at_end(std::string_view rest) {
  skip_blanks(rest);
  return rest.empty();
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

template <class Visit>
void each_snap_edge(line_reader& reader, Visit&& visit) {
  std::string_view line;
  while (reader.next(line)) {
    std::string_view rest = line;
    skip_blanks(rest);
    if (rest.empty() || rest[0] == '#') continue;
    edge e;
    if (!take_number(rest, e.source) || !take_number(rest, e.target))
      reader.fail_here("expected two vertex ids (whole numbers from 0 to 2^64-1), 'source target', found {}",
                       quoted(line));
    if (!at_end(rest))
      reader.fail_here("expected the end of the line after two vertex ids, found {}; cut further columns off",
                       quoted(line));
    visit(e);
  }
}

void keep(edge_list& list, const block_distribution& distribution, int part, edge e) {
  ++list.total_edges;
  if (distribution.owner(e.source) == part) list.edges.push_back(e);
}

// Ids that are line numbers of the names file: one pass.
void read_named_snap(line_reader& reader, int part, int parts, edge_list& list) {
  const block_distribution distribution(list.vertices, parts);
  each_snap_edge(reader, [&](edge e) {
    for (const uint64_t id : {e.source, e.target})
      if (id >= list.vertices)
        reader.fail_here("vertex {} has no name: the names file has {} lines, for the vertices from 0", id,
                         list.vertices);
    keep(list, distribution, part, e);
  });
}

// Two passes: the owner of a source depends on how many ids there are, so the first only learns the ids.
void read_snap(line_reader& reader, int part, int parts, edge_list& list) {
  id_index index;
  each_snap_edge(reader, [&](edge e) {
    index.insert(e.source);
    index.insert(e.target);
  });
  list.original_ids = index.number();
  list.vertices = list.original_ids.size();
  if (list.vertices == 0) fail("{} has no edges, only comments or empty lines", reader.path());
  const block_distribution distribution(list.vertices, parts);
  reader.rewind();
  each_snap_edge(reader, [&](edge e) {
    edge numbered;
    if (!index.find(e.source, numbered.source) || !index.find(e.target, numbered.target))
      reader.fail_here("the file changed while it was read");
    keep(list, distribution, part, numbered);
  });
}

enum class matrix_field { pattern, integer, real };

struct matrix_header {
  matrix_field field;
  bool symmetric;
  uint64_t size, entries;
};

matrix_header read_matrix_header(line_reader& reader) {
  std::string_view line;
  reader.next(line);
  std::string_view rest = line;
  rest.remove_prefix(banner.size());
  const std::string_view object = take_word(rest), format = take_word(rest), field = take_word(rest),
                         symmetry = take_word(rest);
  matrix_header header{};
  const char* expected = "expected '%%MatrixMarket matrix coordinate pattern|integer|real general|symmetric'";
  if (!same_word(object, "matrix")) reader.fail_here("{}, found the object {}", expected, quoted(object));
  if (same_word(format, "array"))
    reader.fail_here("{}, found 'array': a dense matrix has no edges, write it as coordinate", expected);
  if (!same_word(format, "coordinate")) reader.fail_here("{}, found the format {}", expected, quoted(format));
  if (same_word(field, "pattern"))
    header.field = matrix_field::pattern;
  else if (same_word(field, "integer"))
    header.field = matrix_field::integer;
  else if (same_word(field, "real"))
    header.field = matrix_field::real;
  else
    reader.fail_here("{}, found the field {}", expected, quoted(field));
  header.symmetric = same_word(symmetry, "symmetric");
  if (!header.symmetric && !same_word(symmetry, "general"))
    reader.fail_here("{}, found the symmetry {}", expected, quoted(symmetry));
  if (!at_end(rest)) reader.fail_here("{}, found more words: {}", expected, quoted(rest));

  while (reader.next(line)) {
    if (at_end(line) || line[0] == '%') continue;
    rest = line;
    uint64_t columns;
    if (!take_number(rest, header.size) || !take_number(rest, columns) ||
        !take_number(rest, header.entries) || !at_end(rest))
      reader.fail_here("expected the size line 'rows columns entries', found {}", quoted(line));
    if (header.size != columns)
      reader.fail_here("the matrix is {} x {}: only a square one is a directed graph", header.size, columns);
    if (header.size == 0) reader.fail_here("the matrix has no rows: a graph needs at least one vertex");
    if (header.size > most_vertices)
      reader.fail_here("the matrix has {} rows, more than the {} vertices supported", header.size,
                       most_vertices);
    return header;
  }
  fail("{} ends before the size line 'rows columns entries'", reader.path());
}

// Values do not matter to a graph, but a line without a proper one means that the file is not what it says.
bool take_value(std::string_view& rest, matrix_field field) {
  skip_blanks(rest);
  if (rest.size() > 1 && rest[0] == '+' && rest[1] != '-')
    rest.remove_prefix(1);  // from_chars wants no plus sign
  int64_t whole;
  double real;
  return field == matrix_field::pattern   ? true
         : field == matrix_field::integer ? take_number(rest, whole)
                                          : take_number(rest, real);
}

void read_matrix(line_reader& reader, int part, int parts, edge_list& list) {
  const matrix_header header = read_matrix_header(reader);
  if (list.vertices && list.vertices != header.size)
    reader.fail_here("the matrix has {} rows, but the names file has {} lines", header.size, list.vertices);
  list.vertices = header.size;
  const block_distribution distribution(header.size, parts);
  uint64_t entries = 0;
  std::string_view line;
  while (reader.next(line)) {
    if (at_end(line) || line[0] == '%') continue;
    if (entries == header.entries)
      reader.fail_here("expected the end of the file after the {} entries that the size line promises",
                       entries);
    std::string_view rest = line;
    uint64_t row, column;
    if (!take_number(rest, row) || !take_number(rest, column) || !take_value(rest, header.field) ||
        !at_end(rest)) {
      constexpr const char* line_of[] = {"row column", "row column whole-number", "row column real-number"};
      reader.fail_here("expected '{}', found {}", line_of[static_cast<int>(header.field)], quoted(line));
    }
    if (row < 1 || row > header.size || column < 1 || column > header.size)
      reader.fail_here("entry ({}, {}) is outside the matrix: indices go from 1 to {}", row, column,
                       header.size);
    ++entries;
    keep(list, distribution, part, {row - 1, column - 1});
    if (header.symmetric && row != column) keep(list, distribution, part, {column - 1, row - 1});
  }
  if (entries != header.entries)
    fail("{} ends after {} entries, but its size line promises {}: is it complete?", reader.path(), entries,
         header.entries);
}

}  // namespace

edge_list read_graph(const std::string& path, int part, int parts, const std::string& names_path) {
  if (parts < 1 || part < 0 || part >= parts)
    fail("part {} of {} of the graph {} does not exist", part, parts, path);
  edge_list list;
  if (!names_path.empty()) {
    list.names = read_names(names_path);
    list.vertices = list.names.size();
  }
  line_reader reader(path);
  std::string_view line;
  if (!reader.next(line)) fail("{} is empty: expected a SNAP edge list or a Matrix Market file", path);
  const bool matrix = same_word(line.substr(0, banner.size()), banner);
  if (!matrix && line.starts_with('%'))
    reader.fail_here("expected '%%MatrixMarket ...' or a SNAP edge list with '#' comments, found {}",
                     quoted(line));
  reader.rewind();
  if (matrix)
    read_matrix(reader, part, parts, list);
  else if (!list.names.empty())
    read_named_snap(reader, part, parts, list);
  else
    read_snap(reader, part, parts, list);
  return list;
}

std::vector<std::string> read_names(const std::string& path) {
  line_reader reader(path);
  std::vector<std::string> names;
  std::string_view line;
  while (reader.next(line)) {
    if (line.empty()) reader.fail_here("expected the name of vertex {}, found an empty line", names.size());
    names.emplace_back(line);
  }
  if (names.empty()) fail("{} is empty: expected one name per line", path);
  return names;
}

std::string names_path_of(const std::string& graph_path) {
  std::string_view stem = graph_path;
  for (const std::string_view ending : {".gz", ".txt", ".mtx"})
    if (stem.ends_with(ending) && stem.size() > ending.size()) stem.remove_suffix(ending.size());
  return std::string(stem) + ".names";
}

}  // namespace gravel
