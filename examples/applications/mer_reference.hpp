// What `mer` found, beside the genome that the reads come from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/reads.hpp>
#include "examples/applications/kmer_table.hpp"

namespace app {
using gravel::reference_genome;

struct reference_check {
  std::optional<reference_genome> genome;
  uint64_t bases = 0, kmers = 0;      ///< of the genome
  uint64_t contigs = 0, covered = 0;  ///< contigs that lie in it as a whole, bases where they lie
  uint64_t kmers_seen = 0;            ///< of its k-mers, `least` times or more

  /// Looks at this PE's k-mers and contigs. If `exact`, the reads have no errors: the answer is how many contigs have a
  /// step that is not in the genome. All of a contig need not be: in a repeat at an end of the genome, or where reads
  /// lack, an extension may seem unique.
  uint64_t look(const std::vector<std::string>& sequences, unsigned k, const std::vector<kmer_entry>& entries,
                uint64_t least, const std::vector<std::string>& found, bool exact) {
    genome.emplace(sequences, k);
    bases = genome->bases();
    kmers = genome->kmers();
    for (const kmer_entry& entry : entries)
      if (entry.kmer != no_kmer && entry.count >= least) kmers_seen += genome->has_kmer(entry.kmer);
    uint64_t wrong = 0;
    for (const std::string& contig : found) {
      const bool whole = genome->cover(contig);
      contigs += whole;
      bool steps = true;
      for (size_t at = 0; exact && !whole && steps && at + k < contig.size(); ++at)
        steps = genome->contains(contig.substr(at, k + 1));
      wrong += !steps;
    }
    return wrong;
  }

  /// From what this PE found to what all found. Collective, after look() on all PEs or on none.
  void combine() {
    if (!genome) return;
    contigs = gravel_sum_all(contigs);
    kmers_seen = gravel_sum_all(kmers_seen);
    std::vector<uint64_t>& marks = genome->marks();
    gravel_or_all(marks.data(), marks.data(), marks.size());
    covered = genome->covered();
  }
};

}  // namespace app
