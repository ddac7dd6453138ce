// The check of k-mers and contigs at any size. Each k-mer stands for a random number of 64 bits (its hash), and these
// are added up: over all places of the reads, and over the table, times the counts. The sums are equal if all counts
// are right, and otherwise by a chance of 2^-64. The same for the bases around k-mers, and for the k-mers that are left
// and those that contigs are made of. The reads are read again here in the simplest way, place by place.
#pragma once
#include <string>
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include <gravel/reads.hpp>
#include "examples/applications/contigs.hpp"
#include "examples/applications/kmer_table.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/together.hpp"

namespace app {
using gravel::base_code;
using gravel::device_array;
using gravel::fetch_add;
using gravel::kmer_shape;
using gravel::no_base;
using gravel::reverse_complement;
using gravel::scope;

/// Sums over k-mers, modulo 2^64.
struct kmer_sums {
  uint64_t counts;     ///< of hash * count
  uint64_t around;     ///< of the hashes of each k-mer with each base that stood before and after it, times its count
  uint64_t full;       ///< counters of such bases that stopped at 65535: then `around` says nothing
  uint64_t misplaced;  ///< entries that are at the wrong PE, or there twice
};

/// The hash of a k-mer with a base before (side 0) or after it.
GRAVEL_BOTH uint64_t hash_around(uint64_t kmer, unsigned side, unsigned base) {
  return mix(mix(kmer) + 1 + 4 * side + base);
}

/// Of the reads, which begin and end with no_base.
static __global__ void sum_up_reads(kmer_shape shape, const uint8_t* codes, uint64_t size, kmer_sums* sums) {
  uint64_t counts = 0, around = 0;
  for (uint64_t at = 1 + uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at + shape.k < size;
       at += uint64_t{gridDim.x} * blockDim.x) {
    uint64_t word = 0;
    bool known = true;
    for (unsigned i = 0; i < shape.k; ++i) {
      known &= codes[at + i] != no_base;
      word = word << 2 | (codes[at + i] & 3);
    }
    if (!known) continue;
    const uint64_t back = shape.reverse_complement(word), kmer = word < back ? word : back;
    const bool turned = kmer != word;
    const unsigned before = codes[at - 1], after = codes[at + shape.k];
    counts += mix(kmer);
    if (before != no_base) around += turned ? hash_around(kmer, 1, 3 - before) : hash_around(kmer, 0, before);
    if (after != no_base) around += turned ? hash_around(kmer, 0, 3 - after) : hash_around(kmer, 1, after);
  }
  fetch_add<scope::device>(&sums->counts, counts);
  fetch_add<scope::device>(&sums->around, around);
}

static __global__ void sum_up_table(gravel_t g, kmer_table table, kmer_sums* sums) {
  uint64_t counts = 0, around = 0, full = 0, misplaced = 0;
  for (uint64_t slot = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; slot < table.slots;
       slot += uint64_t{gridDim.x} * blockDim.x) {
    const kmer_entry& entry = table.entries[slot];
    if (entry.kmer == no_kmer) continue;
    counts += entry.count * mix(entry.kmer);
    for (unsigned side = 0; side < 2; ++side)
      for (unsigned base = 0; base < 4; ++base) {
        const uint64_t times = base_counts::field(entry.around[side].word, base);
        around += times * hash_around(entry.kmer, side, base);
        full += times == 0xffff;
      }
    misplaced += table.find(entry.kmer) != slot || table.owner(entry.kmer, g.n_pes) != static_cast<int>(g.my_pe);
  }
  fetch_add<scope::device>(&sums->counts, counts);
  fetch_add<scope::device>(&sums->around, around);
  fetch_add<scope::device>(&sums->full, full);
  fetch_add<scope::device>(&sums->misplaced, misplaced);
}

/// The k-mers that are left and not on circles.
static __global__ void sum_up_chains(contig_job job, uint64_t* sum) {
  uint64_t mine = 0;
  for (uint64_t n = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < job.kmers;
       n += uint64_t{gridDim.x} * blockDim.x)
    if (job.finished[2 * n]) mine += mix(job.word(2 * n));
  fetch_add<scope::device>(sum, mine);
}

/// The sums of all PEs. Collective.
inline kmer_sums of_all_pes(const device_array<kmer_sums>& here) {
  uint64_t words[4];
  static_assert(sizeof(kmer_sums) == sizeof(words));
  gravel_synchronize();
  gravel_copy(words, here.data(), sizeof(words));
  gravel_sum_all(words, words, 4);
  return {words[0], words[1], words[2], words[3]};
}
inline kmer_sums sums_of_reads(kmer_shape shape, const uint8_t* codes, uint64_t size) {
  device_array<kmer_sums> sums(std::vector<kmer_sums>(1));
  gravel_launch(sum_up_reads, blocks_for(size), lanes_of_block, shape, codes, size, sums.data());
  return of_all_pes(sums);
}
inline kmer_sums sums_of_table(kmer_table table) {
  device_array<kmer_sums> sums(std::vector<kmer_sums>(1));
  gravel_launch(sum_up_table, blocks_for(table.slots), lanes_of_block, gravel_handle(), table, sums.data());
  return of_all_pes(sums);
}

/// Are the k-mers of the contigs those that are left and on no circle, each once? Collective.
inline bool contigs_have_all_kmers(const contig_job& job, kmer_shape shape, const std::vector<std::string>& contigs) {
  device_array<uint64_t> sum(std::vector<uint64_t>(1));
  gravel_launch(sum_up_chains, blocks_for(job.kmers), lanes_of_block, job, sum.data());
  gravel_synchronize();
  uint64_t chains = 0, spelled = 0;
  gravel_copy(&chains, sum.data(), sizeof(chains));
  for (const std::string& contig : contigs) {
    uint64_t kmers = contig.size() + 1 - shape.k, word = 0;
    if (contig == reverse_complement(contig)) kmers /= 2;  // the second half has the k-mers of the first one again
    for (uint64_t i = 0; i + 1 < shape.k + kmers; ++i) {
      word = shape.append(word, base_code(contig[i]));
      if (i + 1 >= shape.k) spelled += mix(std::min(word, shape.reverse_complement(word)));
    }
  }
  return gravel_sum_all(chains) == gravel_sum_all(spelled);
}

}  // namespace app
