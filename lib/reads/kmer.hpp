// k-mers of up to 31 bases in one word.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

/// The code that separates two pieces of bases. A, C, G, T are 0 to 3, so that the complement of b is 3 - b.
constexpr uint8_t no_base = 4;
/// The most bases of a k-mer.
constexpr unsigned longest_kmer = 31;

/// A k-mer has its first base in the highest bits; its word is below 4^k. k is odd, so no k-mer is its own reverse
/// complement, and each has one canonical form: the smaller of the two words.
/// @scope any thread, kernels too
/// @completion on return
/// @errors none are checked
/// @source Meraculous
struct kmer_shape {
  unsigned k;
  /// Returns the bits of a k-mer.
  GRAVEL_BOTH constexpr uint64_t mask() const { return (uint64_t{1} << 2 * k) - 1; }
  /// Returns the k-mer without its first base and with `base` after the last.
  /// @param kmer a word below 4^k
  /// @param base 0 to 3
  GRAVEL_BOTH constexpr uint64_t append(uint64_t kmer, unsigned base) const { return (kmer << 2 | base) & mask(); }
  /// As append(), for the reverse complement of a k-mer to which `base` is appended.
  /// @param kmer the reverse complement, a word below 4^k
  /// @param base 0 to 3
  GRAVEL_BOTH constexpr uint64_t append_reverse(uint64_t kmer, unsigned base) const {
    return kmer >> 2 | uint64_t{3 - base} << (2 * k - 2);
  }
  /// Returns the last base.
  /// @param kmer a word below 4^k
  GRAVEL_BOTH constexpr unsigned last(uint64_t kmer) const { return static_cast<unsigned>(kmer & 3); }
  /// Returns the first base.
  /// @param kmer a word below 4^k
  GRAVEL_BOTH constexpr unsigned first(uint64_t kmer) const { return static_cast<unsigned>(kmer >> (2 * k - 2)); }
  /// Returns the reverse complement.
  /// @param kmer a word below 4^k
  GRAVEL_BOTH constexpr uint64_t reverse_complement(uint64_t kmer) const {
    uint64_t out = 0;
    for (unsigned i = 0; i < k; ++i, kmer >>= 2) out = out << 2 | (3 - (kmer & 3));
    return out;
  }
};

}  // namespace gravel::detail
