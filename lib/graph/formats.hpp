// The readers of single formats, and functions that readers of text share. Programs do not use them: they read graphs
// by read.hpp.
#pragma once
#include <charconv>
#include <limits>
#include <string>
#include <string_view>

#include "lib/graph/line_reader.hpp"
#include "lib/graph/read.hpp"

namespace gravel::detail {

void read_snap(line_reader&, const graph_share&, const read_options&, edge_list&);
void read_matrix_market(line_reader&, const graph_share&, const read_options&, edge_list&);
void read_metis(line_reader&, const graph_share&, const read_options&, edge_list&);
/// Returns whether the source is a Galois file, by its first word.
bool is_galois(const byte_source&);
void read_galois(byte_source&, const graph_share&, const read_options&, edge_list&);

// Far above any real graph; keeps sizes in bytes and products with PE numbers away from overflow.
constexpr uint64_t most_vertices = 1ull << 48;
constexpr std::string_view matrix_market_banner = "%%MatrixMarket";
/// Throws: a Matrix Market file does not begin with its banner, but this line is in it.
[[noreturn]] void fail_banner(const line_reader& reader, std::string_view line);

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

inline void skip_blanks(std::string_view& rest) {
  size_t n = 0;
  while (n < rest.size() && is_blank(rest[n])) ++n;
  rest.remove_prefix(n);
}

/// Takes a number off the front. Returns false if there is none, if it does not fit T, or if other characters follow it
/// directly.
template <class T>
bool take_number(std::string_view& rest, T& value) {
  skip_blanks(rest);
  if (std::is_signed_v<T> && rest.size() > 1 && rest[0] == '+' && rest[1] != '-')
    rest.remove_prefix(1);  // from_chars accepts no plus sign
  const char* last = rest.data() + rest.size();
  const auto [end, code] = std::from_chars(rest.data(), last, value);
  if (code != std::errc{} || (end != last && !is_blank(*end))) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return true;
}

inline std::string_view take_word(std::string_view& rest) {
  skip_blanks(rest);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(word.size());
  return word;
}

inline bool at_end(std::string_view rest) {
  skip_blanks(rest);
  return rest.empty();
}

/// Compares two words of ASCII, ignoring case.
inline bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

inline bool is_comment(std::string_view line, char mark) {
  skip_blanks(line);
  return line.starts_with(mark);
}

/// A real number, and its text in the file.
struct written_real {
  std::string_view text;
  double value = 0;

  /// Returns whether it has neither a point nor an exponent.
  bool is_digits() const { return text.find_first_not_of("0123456789", text.find_first_of("+-") == 0) == text.npos; }
};

/// Takes a real number off the front, also with Fortran's exponent (1.0D+05). A number that is too large for a double
/// becomes inf, a number that is too small becomes 0 (with a minus: the next number below 0). Returns false if there is
/// no number.
bool take_real(std::string_view& rest, written_real& number);

/// Returns the number as a weight. Throws if it cannot be one: see weight.hpp.
double checked_weight(const line_reader& reader, const written_real& number);

}  // namespace gravel::detail
