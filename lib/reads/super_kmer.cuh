// Minimizers, and super-k-mers as they travel.
//
// A base has two bits. Here the bases of a stretch are two planes: the low bits of its bases, and the high bits, the
// first base in bit 0. So a ballot of a warp packs 32 bases, and the reverse complement is a reversal of bits.
#pragma once
#include "device/simt.hpp"
#include "lib/reads/kmer.hpp"

namespace gravel::detail {

/// Returns the bits of a word in reverse order.
GRAVEL_BOTH uint32_t reverse_bits(uint32_t x) {
#if GRAVEL_ON_GPU
  return __brev(x);
#else
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
#endif
}
/// Returns a word whose even bits are those of `x`.
GRAVEL_BOTH uint64_t spread_bits(uint64_t x) {
  x = (x | x << 16) & 0x0000ffff0000ffffu;
  x = (x | x << 8) & 0x00ff00ff00ff00ffu;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
  x = (x | x << 2) & 0x3333333333333333u;
  return (x | x << 1) & 0x5555555555555555u;
}
/// Returns the even bits of a word, side by side.
GRAVEL_BOTH uint32_t gather_bits(uint64_t x) {
  x &= 0x5555555555555555u;
  x = (x | x >> 1) & 0x3333333333333333u;
  x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0fu;
  x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
  x = (x | x >> 8) & 0x0000ffff0000ffffu;
  return static_cast<uint32_t>(x | x >> 16);
}

/// Up to 31 bases in planes; bits above them are 0.
struct base_planes {
  uint32_t low, high;

  GRAVEL_BOTH uint64_t word() const { return uint64_t{high} << 32 | low; }
  /// Returns the reverse complement of `bases` bases.
  GRAVEL_BOTH base_planes reverse_complement(uint32_t bases) const {
    return {reverse_bits(~low) >> (32 - bases), reverse_bits(~high) >> (32 - bases)};
  }
};

/// k-mers and their minimizers. The minimizer of a k-mer is the smallest hash of its m-mers, each in the smaller of its
/// two forms. So a k-mer and its reverse complement have one minimizer, and neighbours in a read mostly share it.
struct minimizer_shape {
  static constexpr uint32_t longest = 13;  ///< bases of a minimizer
  uint32_t k, m;

  GRAVEL_BOTH static constexpr minimizer_shape of(uint32_t k) {
    const uint32_t m = k - k / 3;
    return {k, m < longest ? m : longest};
  }
  /// Returns the m-mers of a k-mer. It is also the most k-mers of a super-k-mer.
  GRAVEL_BOTH constexpr uint32_t window() const { return k - m + 1; }
  /// Returns the hash of the m-mer that begins at bit 0 of two planes, whatever their further bits are.
  GRAVEL_BOTH uint32_t hash(uint32_t low, uint32_t high) const {
    const uint32_t mask = (1u << m) - 1;
    const base_planes here{low & mask, high & mask}, back = here.reverse_complement(m);
    const uint32_t forth_word = here.high << m | here.low, back_word = back.high << m | back.low;
    uint32_t x = ((forth_word < back_word ? forth_word : back_word) ^ 0x19e3779u) * 0x2c1b3c6du;
    x = (x ^ x >> 15) * 0x297a2d39u;
    return x ^ x >> 15;
  }
  /// Returns the minimizer of a k-mer, which has its first base in the highest bits.
  GRAVEL_BOTH uint32_t minimizer(uint64_t kmer) const {
    // The planes of the reversed k-mer. Its m-mers are those of the k-mer, reversed, so it is complemented: then they
    // are the reverse complements.
    uint32_t low = gather_bits(~kmer), high = gather_bits(~kmer >> 1), least = ~0u;
    for (uint32_t i = 0; i < window(); ++i) {
      const uint32_t next = hash(low >> i, high >> i);
      least = next < least ? next : least;
    }
    return least;
  }
};

/// Where the k-mers of a minimizer are counted: at which PE, in which of its bins, and in which list of the bin.
struct minimizer_place {
  uint32_t pe, bin, list;

  /// Minimizers are small numbers rather than large ones, so they are mixed once more.
  GRAVEL_BOTH static minimizer_place of(uint32_t minimizer, uint32_t n_pes, uint32_t bin_bits, uint32_t list_bits) {
    uint32_t x = (minimizer ^ minimizer >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x ^= x >> 16;
    const uint64_t of_pe = uint64_t{x} * n_pes;
    const uint64_t of_bin = uint64_t{static_cast<uint32_t>(of_pe)} << bin_bits;
    const uint64_t of_list = uint64_t{static_cast<uint32_t>(of_bin)} << list_bits;
    return {static_cast<uint32_t>(of_pe >> 32), static_cast<uint32_t>(of_bin >> 32),
            static_cast<uint32_t>(of_list >> 32)};
  }
};

/// A super-k-mer: neighbouring k-mers of a read that share their minimizer, as their bases. In 16 bytes, which a lane
/// loads and stores at once.
///
///   word   bits 0 to 48           bits 49 to 53     54 to 56           57 to 59          60 to 63
///   low    low bits of bases      k-mers - 1        code before them   code after them   bin, low bits
///   high   high bits of bases     bits 49 to 56: list of the bin       57 to 63: bin, high bits
struct alignas(16) super_kmer {
  static constexpr uint32_t most_bases = 49, most_list_bits = 8, most_bins = 1 << 11;
  uint64_t low, high;

  /// @param low, high planes of the bases; further bits are ignored
  GRAVEL_BOTH static super_kmer make(uint64_t low, uint64_t high, uint32_t bases, uint32_t kmers, uint32_t before,
                                     uint32_t after, uint32_t bin, uint32_t list) {
    const uint64_t mask = (uint64_t{1} << bases) - 1;
    return {(low & mask) | uint64_t{kmers - 1} << 49 | uint64_t{before} << 54 | uint64_t{after} << 57 |
                uint64_t{bin & 15} << 60,
            (high & mask) | uint64_t{list} << 49 | uint64_t{bin >> 4} << 57};
  }
  GRAVEL_BOTH uint32_t kmers() const { return (static_cast<uint32_t>(low >> 49) & 31) + 1; }
  GRAVEL_BOTH uint32_t before() const { return static_cast<uint32_t>(low >> 54) & 7; }
  GRAVEL_BOTH uint32_t after() const { return static_cast<uint32_t>(low >> 57) & 7; }
  GRAVEL_BOTH uint32_t list() const { return static_cast<uint32_t>(high >> 49) & 255; }
  GRAVEL_BOTH uint32_t bin() const { return static_cast<uint32_t>(low >> 60) | static_cast<uint32_t>(high >> 57) << 4; }
  GRAVEL_BOTH uint32_t base(uint32_t i) const {
    return (static_cast<uint32_t>(low >> i) & 1) | (static_cast<uint32_t>(high >> i) & 1) << 1;
  }
};
static_assert(2 * longest_kmer - minimizer_shape::of(longest_kmer).m <= super_kmer::most_bases);

}  // namespace gravel::detail
