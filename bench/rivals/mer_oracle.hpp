// Phases 1 and 2 of Meraculous again, serially, on text: what `mer` compares its tables and contigs with.
#pragma once
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>

#include <gravel/reads.hpp>

namespace app {
using gravel::read_set;

struct kmer_facts {
  uint64_t count = 0;
  std::array<uint64_t, 4> before{}, after{};  ///< not saturated
};
/// By the text of the canonical form: of a k-mer and its reverse complement, the first in the alphabet.
using kmer_map = std::unordered_map<std::string, kmer_facts>;

kmer_map count_kmers(const read_set& reads, unsigned k);

/// The text or its reverse complement: the first in the alphabet.
std::string canonical(const std::string& text);

struct contig_facts {
  std::set<std::string> contigs;  ///< canonical
  uint64_t circular = 0;          ///< k-mers on circles, which are in no contig
};
/// Longest chains of k-mers seen `least` times or more, each the only one (by bases seen `least` times or more) after
/// the one before, and that the only one before it.
contig_facts find_contigs(const kmer_map& kmers, uint64_t least);

}  // namespace app
