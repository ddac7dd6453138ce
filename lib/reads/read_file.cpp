// FASTA: '>' and a name, then lines of letters. FASTQ: '@' and a name, letters, '+', as many characters of quality.
#include "lib/graph/line_reader.hpp"
#include "lib/reads/reads.hpp"

namespace gravel {
namespace {

/// Calls letters(text) for each line of letters and ended() behind each record.
template <class Letters, class Ended>
void for_each_record(line_reader& lines, Letters&& letters, Ended&& ended) {
  std::string_view line;
  const auto next_filled = [&] {
    bool found;
    while ((found = lines.next(line)) && line.empty()) {
    }
    return found;
  };
  if (!next_filled()) fail("{} is empty", lines.path());
  const char mark = line[0];
  if (mark != '>' && mark != '@') lines.fail_here("expected a record of FASTA ('>') or FASTQ ('@'), not {}", quoted(line));
  for (bool more = true; more;) {
    const uint64_t begin = lines.line_number();
    if (line[0] != mark) lines.fail_here("expected a record that begins with '{}', not {}", mark, quoted(line));
    if (mark == '>') {
      uint64_t length = 0;
      while ((more = next_filled()) && line[0] != '>') {
        letters(line);
        length += line.size();
      }
      if (length == 0) fail("{}:{}: the record has no letters", lines.path(), begin);
    } else {
      const auto need_line = [&] {
        if (!lines.next(line)) fail("{}:{}: the record is cut off: a record of FASTQ has four lines", lines.path(), begin);
      };
      need_line();
      const size_t length = line.size();
      if (length == 0) lines.fail_here("the record has no letters");
      letters(line);
      need_line();
      if (line.empty() || line[0] != '+') lines.fail_here("expected '+' (a record of FASTQ has four lines), not {}", quoted(line));
      need_line();
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

read_set read_reads(const std::string& path, read_share share) {
  line_reader lines(path);
  read_set set, others;
  uint64_t record = 0;
  for_each_record(
      lines,
      [&](std::string_view text) {
        if (const char bad = (record % share.of == share.number ? set : others).add_letters(text)) fail_letter(lines, bad);
        others.codes.resize(1);
      },
      [&] {
        if (record++ % share.of == share.number) set.end_read();
      });
  return set;
}

std::vector<std::string> read_sequences(const std::string& path) {
  line_reader lines(path);
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

}  // namespace gravel
