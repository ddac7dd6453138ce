#include <algorithm>
#include <array>
#include <cstring>

#include "lib/reads/reads.hpp"

namespace gravel::detail {
namespace {

constexpr uint8_t foreign = 255;
constexpr std::array<uint8_t, 256> code_table = [] {
  std::array<uint8_t, 256> table{};
  table.fill(foreign);
  for (const char* letter = "RYSWKMBDHVNX-.*"; *letter; ++letter) table[static_cast<uint8_t>(*letter)] = no_base;
  for (uint8_t b = 0; b < 4; ++b) table[static_cast<uint8_t>("ACGT"[b])] = b;
  table['U'] = table['T'];
  for (unsigned c = 'A'; c <= 'Z'; ++c) table[c + 32] = table[c];
  return table;
}();

}  // namespace

uint8_t base_code(char letter) { return std::min(code_table[static_cast<uint8_t>(letter)], no_base); }

char read_set::add_letters(std::string_view letters) {
  for (const char letter : letters) {
    const uint8_t code = code_table[static_cast<uint8_t>(letter)];
    if (code == foreign) return letter ? letter : '?';
    if (code == no_base) {
      ++unknown;
      if (codes.back() == no_base) continue;
    } else {
      ++bases;
    }
    codes.push_back(code);
  }
  return 0;
}

void read_set::end_read() {
  ++reads;
  if (codes.back() != no_base) codes.push_back(no_base);
}

uint64_t read_set::kmers(unsigned k) const {
  uint64_t count = 0, length = 0;
  for (const uint8_t code : codes) {
    length = code == no_base ? 0 : length + 1;
    count += length >= k;
  }
  return count;
}

std::string reverse_complement(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (auto letter = text.rbegin(); letter != text.rend(); ++letter) {
    const uint8_t code = base_code(*letter);
    out += code == no_base ? 'N' : "TGCA"[code];
  }
  return out;
}

}  // namespace gravel::detail
