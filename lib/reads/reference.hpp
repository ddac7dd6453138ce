// A known genome, to ask which contigs and k-mers are in it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/reads/kmer.hpp"

namespace gravel::detail {

/// Looks texts up by their first k-mer in a sorted list of those of the genome, 16 bytes for each of its bases, and
/// then compares letters.
/// @scope one host thread; what is const: any
/// @completion on return
/// @errors gravel::error
/// @source Gravel
class reference_genome {
 public:
  /// Sequences of ACGTN, as read_sequences gives them. No text shorter than k bases is found. k is odd and at most 31.
  /// @param sequences of ACGTN
  /// @param k odd, at most 31
  reference_genome(const std::vector<std::string>& sequences, unsigned k);

  /// Does the text or its reverse complement lie in one of the sequences as a whole?
  /// @param text of ACGT
  bool contains(std::string_view text) const;
  /// Whether the text lies in one of the sequences; the bases are marked wherever it does.
  /// @param text of ACGT
  bool cover(std::string_view text);
  /// A bit for each letter of all sequences that is covered, so that PEs can put theirs together.
  std::vector<uint64_t>& marks() { return marks_; }

  /// Number of A, C, G and T.
  uint64_t bases() const { return bases_; }
  /// Number of bases that are marked.
  uint64_t covered() const;
  /// Number of different k-mers, a k-mer and its reverse complement being one.
  uint64_t kmers() const;
  /// Whether the k-mer lies in one of the sequences.
  /// @param canonical the smaller of the k-mer and its reverse complement
  bool has_kmer(uint64_t canonical) const;

 private:
  template <class Found>
  void find(std::string_view text, Found&& found) const;

  kmer_shape shape_;
  std::string letters_;                               ///< the sequences, an N behind each
  std::vector<std::pair<uint64_t, uint64_t>> index_;  ///< canonical k-mer, place in letters_
  std::vector<uint64_t> marks_;
  uint64_t bases_ = 0;
};

}  // namespace gravel::detail
