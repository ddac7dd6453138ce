// A known genome, in which contigs and k-mers can be looked up.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/reads/kmer.hpp"

namespace gravel::detail {

/// Finds a text by its first k-mer, in a sorted list of the genome's k-mers that takes 16 bytes for each base, and then
/// compares letters.
/// @scope one host thread; const members: any thread
/// @completion on return
/// @errors gravel::error
/// @source Gravel
class reference_genome {
 public:
  /// Takes sequences as read_sequences returns them. A text shorter than k bases is never found.
  /// @param sequences of ACGTN
  /// @param k odd, at most 31
  reference_genome(const std::vector<std::string>& sequences, unsigned k);

  /// Returns whether the text, or its reverse complement, lies in one of the sequences as a whole.
  /// @param text of ACGT
  bool contains(std::string_view text) const;
  /// Returns whether the text lies in one of the sequences, and marks the bases at each place where it lies.
  /// @param text of ACGT
  bool cover(std::string_view text);
  /// Returns a bit for each letter of all sequences: whether it is covered. So PEs can combine their marks.
  std::vector<uint64_t>& marks() { return marks_; }

  /// Returns the number of A, C, G and T.
  uint64_t bases() const { return bases_; }
  /// Returns the number of marked bases.
  uint64_t covered() const;
  /// Returns the number of different k-mers; a k-mer and its reverse complement count as one.
  uint64_t kmers() const;
  /// Returns whether the k-mer lies in one of the sequences.
  /// @param canonical the smaller of the k-mer and its reverse complement
  bool has_kmer(uint64_t canonical) const;

 private:
  template <class Found>
  void find(std::string_view text, Found&& found) const;

  kmer_shape shape_;
  std::string letters_;                               ///< the sequences, with an N after each
  std::vector<std::pair<uint64_t, uint64_t>> index_;  ///< canonical k-mer, place in letters_
  std::vector<uint64_t> marks_;
  uint64_t bases_ = 0;
};

}  // namespace gravel::detail
