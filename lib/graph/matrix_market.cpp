// Matrix Market coordinate files.
#include "lib/graph/formats.hpp"

namespace gravel {
namespace {

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
  rest.remove_prefix(matrix_market_banner.size());
  const std::string_view object = take_word(rest), format = take_word(rest), field = take_word(rest), symmetry = take_word(rest);
  matrix_header header{};
  const char* expected = "expected '%%MatrixMarket matrix coordinate pattern|integer|real general|symmetric'";
  if (!same_word(object, "matrix")) reader.fail_here("{}, found the object {}", expected, quoted(object));
  if (same_word(format, "array")) reader.fail_here("{}, found 'array': a dense matrix has no edges, write it as coordinate", expected);
  if (!same_word(format, "coordinate")) reader.fail_here("{}, found the format {}", expected, quoted(format));
  if (same_word(field, "pattern")) header.field = matrix_field::pattern;
  else if (same_word(field, "integer")) header.field = matrix_field::integer;
  else if (same_word(field, "real")) header.field = matrix_field::real;
  else reader.fail_here("{}, found the field {}", expected, quoted(field));
  header.symmetric = same_word(symmetry, "symmetric");
  if (!header.symmetric && !same_word(symmetry, "general")) reader.fail_here("{}, found the symmetry {}", expected, quoted(symmetry));
  if (!at_end(rest)) reader.fail_here("{}, found more words: {}", expected, quoted(rest));

  while (reader.next(line)) {
    if (at_end(line) || line[0] == '%') continue;
    rest = line;
    uint64_t columns;
    if (!take_number(rest, header.size) || !take_number(rest, columns) || !take_number(rest, header.entries) || !at_end(rest))
      reader.fail_here("expected the size line 'rows columns entries', found {}", quoted(line));
    if (header.size != columns) reader.fail_here("the matrix is {} x {}: only a square one is a directed graph", header.size, columns);
    if (header.size == 0) reader.fail_here("the matrix has no rows: a graph needs at least one vertex");
    if (header.size > most_vertices)
      reader.fail_here("the matrix has {} rows, more than the {} vertices supported", header.size, most_vertices);
    return header;
  }
  fail("{} ends before the size line 'rows columns entries'", reader.path());
}

// Where weights are not asked for values do not matter, but a line without a proper one means that the file is not what it says.
bool take_value(std::string_view& rest, matrix_field field, double& value) {
  int64_t whole = 0;
  if (field == matrix_field::pattern) return true;
  if (field == matrix_field::real) return take_number(rest, value);
  const bool found = take_number(rest, whole);
  value = static_cast<double>(whole);
  return found;
}

}  // namespace

void read_matrix_market(line_reader& reader, const graph_share& share, const read_options& options, edge_list& list) {
  const matrix_header header = read_matrix_header(reader);
  if (list.vertices && list.vertices != header.size)
    reader.fail_here("the matrix has {} rows, but the names file has {} lines", header.size, list.vertices);
  if (options.weights && header.field == matrix_field::pattern) reader.fail_here("a pattern has no weights: expected integer or real");
  list.vertices = header.size;
  list.ids.first = 1;
  edge_keeper keeper(list, share);
  if (options.weights) keeper.with_weights();
  uint64_t entries = 0;
  std::string_view line;
  while (reader.next(line)) {
    if (at_end(line) || line[0] == '%') continue;
    if (entries == header.entries)
      reader.fail_here("expected the end of the file after the {} entries that the size line promises", entries);
    std::string_view rest = line;
    uint64_t row, column;
    double value = 0;
    if (!take_number(rest, row) || !take_number(rest, column) || !take_value(rest, header.field, value) || !at_end(rest)) {
      constexpr const char* line_of[] = {"row column", "row column whole-number", "row column real-number"};
      reader.fail_here("expected '{}', found {}", line_of[static_cast<int>(header.field)], quoted(line));
    }
    if (row < 1 || row > header.size || column < 1 || column > header.size)
      reader.fail_here("entry ({}, {}) is outside the matrix: indices go from 1 to {}", row, column, header.size);
    ++entries;
    if (options.weights) check_weight(reader, value);
    keeper.add({row - 1, column - 1}, value);
    if (header.symmetric && row != column && !share.undirected) keeper.add({column - 1, row - 1}, value);
  }
  if (entries != header.entries)
    fail("{} ends after {} entries, but its size line promises {}: is it complete?", reader.path(), entries, header.entries);
}

}  // namespace gravel
