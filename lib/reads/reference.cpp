#include "lib/reads/reference.hpp"

#include <algorithm>
#include <bit>

#include "lib/reads/reads.hpp"

namespace gravel::detail {
namespace {

/// Calls found(canonical k-mer, place) for each k-mer without unknown letters.
template <class Found>
void each_kmer(std::string_view text, const kmer_shape& shape, Found&& found) {
  uint64_t word = 0, reverse = 0, length = 0;
  for (uint64_t i = 0; i < text.size(); ++i) {
    const uint8_t code = base_code(text[i]);
    if (code == no_base) {
      length = 0;
      continue;
    }
    word = shape.append(word, code);
    reverse = shape.append_reverse(reverse, code);
    if (++length >= shape.k) found(std::min(word, reverse), i + 1 - shape.k);
  }
}

}  // namespace

reference_genome::reference_genome(const std::vector<std::string>& sequences, unsigned k) : shape_{k} {
  for (const std::string& sequence : sequences) letters_ += sequence + 'N';
  for (const char letter : letters_) bases_ += base_code(letter) != no_base;
  each_kmer(letters_, shape_, [&](uint64_t kmer, uint64_t place) { index_.emplace_back(kmer, place); });
  std::sort(index_.begin(), index_.end());
  marks_.resize((letters_.size() + 63) / 64);
}

/// Calls found(place) for each place of the text, on either strand, until it returns false.
template <class Found>
void reference_genome::find(std::string_view text, Found&& found) const {
  if (text.size() < shape_.k) return;
  const std::string back = reverse_complement(text);
  // A text that is its own reverse complement is found twice at each place.
  for (const std::string_view strand : {text, std::string_view(back)}) {
    uint64_t first = 0;
    bool known = false;
    each_kmer(strand.substr(0, shape_.k), shape_, [&](uint64_t kmer, uint64_t) {
      first = kmer;
      known = true;
    });
    if (!known) return;
    for (auto at = std::lower_bound(index_.begin(), index_.end(), std::pair(first, uint64_t{0}));
         at != index_.end() && at->first == first; ++at)
      if (letters_.compare(at->second, strand.size(), strand) == 0 && !found(at->second)) return;
  }
}

bool reference_genome::contains(std::string_view text) const {
  bool found = false;
  find(text, [&](uint64_t) { return !(found = true); });
  return found;
}

bool reference_genome::cover(std::string_view text) {
  bool found = false;
  find(text, [&](uint64_t place) {
    found = true;
    for (uint64_t i = place; i < place + text.size(); ++i) marks_[i / 64] |= uint64_t{1} << i % 64;
    return true;
  });
  return found;
}

uint64_t reference_genome::covered() const {
  uint64_t count = 0;
  for (const uint64_t word : marks_) count += static_cast<uint64_t>(std::popcount(word));
  return count;
}

uint64_t reference_genome::kmers() const {
  uint64_t count = 0;
  for (size_t i = 0; i < index_.size(); ++i) count += i == 0 || index_[i].first != index_[i - 1].first;
  return count;
}

bool reference_genome::has_kmer(uint64_t canonical) const {
  const auto at = std::lower_bound(index_.begin(), index_.end(), std::pair(canonical, uint64_t{0}));
  return at != index_.end() && at->first == canonical;
}

}  // namespace gravel::detail
