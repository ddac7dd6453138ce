// Reader of FASTA and FASTQ. FASTA: '>' and a name, then lines of letters. FASTQ: '@' and a name, letters, '+', as many
// characters of quality.
#include "lib/graph/line_reader.hpp"
#include "lib/reads/reads.hpp"

namespace gravel::detail {
namespace {

/// Calls letters(text) for each line of letters, and ended() after each record.
template <class Letters, class Ended>
void for_each_record(line_reader& lines, Letters&& letters, Ended&& ended) {
  std::string_view line;
  // Removes blanks at the end of every line.
  const auto next = [&] {
    if (!lines.next(line)) return false;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    return true;
  };
  const auto next_filled = [&] {
    while (next())
      if (!line.empty()) return true;
    return false;
  };
  if (!next_filled()) fail("{} is empty", lines.path());
  const char mark = line[0];
  if (mark != '>' && mark != '@')
    lines.fail_here("expected a record of FASTA ('>') or FASTQ ('@'), not {}", quoted(line));
  for (bool more = true; more;) {
    const uint64_t begin = lines.line_number();
    if (line[0] != mark) lines.fail_here("expected a record that begins with '{}', not {}", mark, quoted(line));
    if (mark == '>') {
      while ((more = next_filled()) && line[0] != '>') letters(line);
    } else {
      const auto need_line = [&] {
        if (!next()) lines.fail_at(begin, "the record is cut off: a record of FASTQ has four lines");
      };
      need_line();
      const size_t length = line.size();
      letters(line);
      need_line();
      if (line.empty() || line[0] != '+')
        lines.fail_here("expected '+' (a record of FASTQ has four lines), not {}", quoted(line));
      if (length != 0) need_line();
      else if (!next()) line = {};  // the file may end within an empty line
      if (line.size() != length) lines.fail_here("{} characters of quality for {} letters", line.size(), length);
      more = next_filled();
    }
    ended();
  }
}

[[noreturn]] void fail_letter(const line_reader& lines, char letter) {
  lines.fail_here("{} is no letter of a sequence", quoted(std::string_view(&letter, 1)));
}

}  // namespace

read_set read_reads(byte_source& source, read_share share) {
  line_reader lines(source);
  read_set set, others;
  uint64_t record = 0;
  for_each_record(
      lines,
      [&](std::string_view text) {
        if (const char bad = (record % share.of == share.number ? set : others).add_letters(text))
          fail_letter(lines, bad);
        others.codes.resize(1);
      },
      [&] {
        if (record++ % share.of == share.number) set.end_read();
      });
  return set;
}

read_set read_reads(const std::string& path, read_share share) {
  byte_source source(path);
  return read_reads(source, share);
}

std::vector<std::string> read_sequences(byte_source& source) {
  line_reader lines(source);
  std::vector<std::string> all(1);
  read_set check;
  for_each_record(
      lines,
      [&](std::string_view text) {
        if (const char bad = check.add_letters(text)) fail_letter(lines, bad);
        check.codes.resize(1);
        for (const char letter : text) all.back() += "ACGTN"[base_code(letter)];
      },
      [&] { all.emplace_back(); });
  all.pop_back();
  return all;
}

std::vector<std::string> read_sequences(const std::string& path) {
  byte_source source(path);
  return read_sequences(source);
}

}  // namespace gravel::detail
