#include "bench/rivals/mer_oracle.hpp"

#include <algorithm>
#include <unordered_set>

namespace app {
using gravel::base_code;
using gravel::no_base;
using gravel::reverse_complement;
namespace {

constexpr const char* letters = "ACGT";

/// The letter that alone follows this text (a k-mer of either strand), or 0.
char only_after(const kmer_map& kmers, const std::string& text, uint64_t least) {
  const std::string form = canonical(text);
  const auto found = kmers.find(form);
  if (found == kmers.end() || found->second.count < least) return 0;
  char only = 0;
  for (unsigned i = 0; i < 4; ++i) {
    // Before the canonical form there is, complemented, what comes after the other one.
    const uint64_t seen = form == text ? found->second.after[i] : found->second.before[3 - i];
    if (seen < least) continue;
    if (only) return 0;
    only = letters[i];
  }
  return only;
}

/// The k-mer behind this one in its contig, or an empty text.
std::string next_of(const kmer_map& kmers, const std::string& text, uint64_t least) {
  const char letter = only_after(kmers, text, least);
  if (!letter) return {};
  const std::string next = text.substr(1) + letter;
  return only_after(kmers, reverse_complement(next), least) == reverse_complement(text.substr(0, 1))[0] ? next
                                                                                                        : std::string();
}

}  // namespace

std::string canonical(const std::string& text) { return std::min(text, reverse_complement(text)); }

kmer_map count_kmers(const read_set& reads, unsigned k) {
  kmer_map kmers;
  std::string piece;
  const auto count = [&] {
    for (size_t i = 0; i + k <= piece.size(); ++i) {
      const std::string text = piece.substr(i, k), form = canonical(text);
      kmer_facts& facts = kmers[form];
      ++facts.count;
      if (i > 0) {
        const uint8_t code = base_code(piece[i - 1]);
        ++(form == text ? facts.before[code] : facts.after[3 - code]);
      }
      if (i + k < piece.size()) {
        const uint8_t code = base_code(piece[i + k]);
        ++(form == text ? facts.after[code] : facts.before[3 - code]);
      }
    }
    piece.clear();
  };
  for (const uint8_t code : reads.codes)
    if (code == no_base) count();
    else piece += letters[code];
  return kmers;
}

contig_facts find_contigs(const kmer_map& kmers, uint64_t least) {
  contig_facts facts;
  std::unordered_set<std::string> seen;
  for (const auto& [form, of_form] : kmers) {
    if (of_form.count < least || seen.count(form)) continue;
    std::string first = form;
    bool circle = false;
    for (std::string back = reverse_complement(form); !circle;) {
      back = next_of(kmers, back, least);
      if (back.empty()) break;
      first = reverse_complement(back);
      circle = first == form;
    }
    std::string contig = first;
    for (std::string at = first; !at.empty();) {
      const bool is_new = seen.insert(canonical(at)).second;
      facts.circular += circle && is_new;
      at = next_of(kmers, at, least);
      if (at == first) break;
      if (!at.empty()) contig += at.back();
    }
    if (!circle) facts.contigs.insert(canonical(contig));
  }
  return facts;
}

}  // namespace app
