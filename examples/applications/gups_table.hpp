// Which word of which PE a random number of gups updates.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace app {

/// 2^log2_words words on each PE; the low bits of a random number choose the word within the PE, the bits
/// above them the PE. With a power of two of PEs this is HPCC's one table in blocks: the global index is ran
/// mod its size. Otherwise 30 bits above the word's scale to the number of PEs.
struct gups_table {
  uint32_t log2_words;
  uint32_t n_pes;
  uint32_t n_targets;     ///< PEs to choose from: n_pes, or n_pes - 1 if a PE's own share is left out
  uint32_t field;         ///< mask of the bits that choose the PE
  uint32_t scale, shift;  ///< PE = bits * scale >> shift

  /// `remote_only` (at least 2 PEs): a PE updates only other PEs' words.
  gups_table(uint32_t log2_size, uint32_t pes, bool remote_only)
      : log2_words(log2_size), n_pes(pes), n_targets(remote_only ? pes - 1 : pes) {
    const bool power_of_two = (n_targets & (n_targets - 1)) == 0;
    field = power_of_two ? n_targets - 1 : (1u << 30) - 1;
    scale = power_of_two ? 1 : n_targets;
    shift = power_of_two ? 0 : 30;
  }

  GRAVEL_BOTH uint64_t words() const { return uint64_t{1} << log2_words; }
  GRAVEL_BOTH uint64_t word_of(uint64_t ran) const { return ran & (words() - 1); }
  /// For the update that PE `from` makes with `ran`.
  GRAVEL_BOTH uint32_t pe_of(uint64_t ran, uint32_t from) const {
    const auto target = static_cast<uint32_t>((ran >> log2_words & field) * scale >> shift);
    if (n_targets == n_pes) return target;
    const uint32_t pe = from + 1 + target;
    return pe < n_pes ? pe : pe - n_pes;
  }
  /// What HPCC fills the table with: the global index.
  GRAVEL_BOTH uint64_t index_of(uint64_t word, uint32_t pe) const { return uint64_t{pe} << log2_words | word; }
};

}  // namespace app
