// Matrix Market coordinate files.
#include "lib/graph/formats.hpp"

namespace gravel::detail {
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
  if (!same_word(line.substr(0, matrix_market_banner.size()), matrix_market_banner)) fail_banner(reader, line);
  std::string_view rest = line.substr(matrix_market_banner.size());
  const std::string_view object = take_word(rest), format = take_word(rest), field = take_word(rest),
                         symmetry = take_word(rest);
  matrix_header header{};
  const char* expected = "expected '%%MatrixMarket matrix coordinate pattern|integer|real general|symmetric'";
  if (!same_word(object, "matrix")) reader.fail_here("{}, found the object {}", expected, quoted(object));
  if (same_word(format, "array"))
    reader.fail_here("{}, found 'array': a dense matrix has no edges, write it as coordinate", expected);
  if (!same_word(format, "coordinate")) reader.fail_here("{}, found the format {}", expected, quoted(format));
  if (same_word(field, "pattern")) header.field = matrix_field::pattern;
  else if (same_word(field, "integer")) header.field = matrix_field::integer;
  else if (same_word(field, "real")) header.field = matrix_field::real;
  else reader.fail_here("{}, found the field {}", expected, quoted(field));
  header.symmetric = same_word(symmetry, "symmetric");
  if (!header.symmetric && !same_word(symmetry, "general"))
    reader.fail_here("{}, found the symmetry {}", expected, quoted(symmetry));
  if (!at_end(rest)) reader.fail_here("{}, found more words: {}", expected, quoted(rest));

  while (reader.next(line)) {
    if (at_end(line) || is_comment(line, '%')) continue;
    rest = line;
    uint64_t columns;
    if (!take_number(rest, header.size) || !take_number(rest, columns) || !take_number(rest, header.entries) ||
        !at_end(rest))
      reader.fail_here("expected the size line 'rows columns entries', found {}", quoted(line));
    if (header.size != columns)
      reader.fail_here("the matrix is {} x {}: only a square one is a directed graph", header.size, columns);
    if (header.size == 0) reader.fail_here("the matrix has no rows: a graph needs at least one vertex");
    if (header.size > most_vertices)
      reader.fail_here("the matrix has {} rows, more than the {} vertices supported", header.size, most_vertices);
    return header;
  }
  fail("{} ends before the size line 'rows columns entries'", reader.path());
}

// Without weights the values do not matter, but a line without a proper value means that the file is damaged.
bool take_value(std::string_view& rest, matrix_field field, written_real& value) {
  if (field == matrix_field::pattern) return true;
  return take_real(rest, value) && (field == matrix_field::real || value.is_digits());
}

}  // namespace

void fail_banner(const line_reader& reader, std::string_view line) {
  reader.fail_here(
      "a Matrix Market file begins with the banner '%%MatrixMarket matrix coordinate ...' in its first line, found {}; "
      "mend the "
      "file, or name an edge list otherwise than *.mtx",
      quoted(line));
}

void read_matrix_market(line_reader& reader, const graph_share& share, const read_options& options, edge_list& list) {
  const matrix_header header = read_matrix_header(reader);
  if (list.vertices && list.vertices != header.size)
    reader.fail_here("the matrix has {} rows, but the names file has {} lines", header.size, list.vertices);
  if (options.weights && header.field == matrix_field::pattern)
    reader.fail_here("a pattern has no weights: expected integer or real");
  list.vertices = header.size;
  list.ids.first = 1;
  edge_keeper keeper(list, share);
  if (options.weights) keeper.with_weights();
  uint64_t entries = 0;
  std::string_view line;
  while (reader.next(line)) {
    if (at_end(line) || is_comment(line, '%')) continue;
    if (entries == header.entries)
      reader.fail_here("expected the end of the file after the {} entries that the size line promises", entries);
    std::string_view rest = line;
    uint64_t row, column;
    written_real value;
    if (!take_number(rest, row) || !take_number(rest, column) || !take_value(rest, header.field, value) ||
        !at_end(rest)) {
      constexpr const char* line_of[] = {"row column", "row column whole-number", "row column real-number"};
      reader.fail_here("expected '{}', found {}", line_of[static_cast<int>(header.field)], quoted(line));
    }
    if (row < 1 || row > header.size || column < 1 || column > header.size)
      reader.fail_here("entry ({}, {}) is outside the matrix: indices go from 1 to {}", row, column, header.size);
    if (header.symmetric && row < column)
      reader.fail_here(
          "entry ({}, {}) is above the diagonal: of a symmetric matrix a file has the lower triangle alone; leave the "
          "entry out, or "
          "write 'general' into the banner",
          row, column);
    ++entries;
    const double weight = options.weights ? checked_weight(reader, value) : 0;
    keeper.add({row - 1, column - 1}, weight);
    if (header.symmetric && row != column && !share.undirected) keeper.add({column - 1, row - 1}, weight);
  }
  if (entries != header.entries)
    fail("{} ends after {} entries, but its size line promises {}: is it complete?", reader.path(), entries,
         header.entries);
}

}  // namespace gravel::detail
