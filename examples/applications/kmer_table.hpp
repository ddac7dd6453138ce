// A PE's part of a distributed hash table of k-mers: open addressing in device memory. Lanes insert at the same time;
// nothing is removed.
#pragma once
#include <cstddef>

#include <gravel/gravel.cuh>
#include <gravel/kmers.cuh>
#include <gravel/reads.hpp>
#include "examples/common/mix.hpp"

namespace app {
using gravel::compare_swap_acquire;
using gravel::load_relaxed;
using gravel::no_base;
using gravel::scope;

constexpr uint64_t no_kmer = ~uint64_t{0};  ///< above every k-mer's word
constexpr uint64_t no_place = ~uint64_t{0};
/// A table whose entries are so crowded is too small.
constexpr uint32_t most_probes = 1 << 14;

/// Four counters of 16 bits that stop at 65535, by base: one word, so that a lane changes them in one step.
struct base_counts {
  uint64_t word;
  GRAVEL_BOTH static uint64_t field(uint64_t counts, unsigned base) { return counts >> 16 * base & 0xffff; }
  GRAVEL_BOTH static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t out = 0;
    for (unsigned base = 0; base < 4; ++base) {
      const uint64_t sum = field(a, base) + field(b, base);
      out |= (sum < 0xffff ? sum : 0xffff) << 16 * base;
    }
    return out;
  }
  GRAVEL_DEVICE void add(uint64_t more) {
    uint64_t old = load_relaxed<scope::device>(&word);
    for (uint64_t sum; (sum = plus(old, more)) != old && !compare_swap_acquire(&word, old, sum);)
      old = load_relaxed<scope::device>(&word);
  }
  /// The same of two words that lie beside each other in one unit of 16 bytes: in one step where a GPU can (from sm_90
  /// on), else one after the other. The first load may see one word older than the other; then the exchange fails,
  /// unless nothing is to be changed: full counters stay full.
  GRAVEL_DEVICE static void add_both(base_counts* two, uint64_t more_first, uint64_t more_second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint64_t old[2], seen[2];
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(old[0]), "=l"(old[1]) : "l"(two) : "memory");
    for (;;) {
      const uint64_t sum[2] = {plus(old[0], more_first), plus(old[1], more_second)};
      if (sum[0] == old[0] && sum[1] == old[1]) return;
      asm volatile(
          "{.reg .b128 old, sum, seen;\n\t"
          "mov.b128 old, {%3, %4};\n\t"
          "mov.b128 sum, {%5, %6};\n\t"
          "atom.relaxed.gpu.global.cas.b128 seen, [%2], old, sum;\n\t"
          "mov.b128 {%0, %1}, seen;}"
          : "=l"(seen[0]), "=l"(seen[1])
          : "l"(two), "l"(old[0]), "l"(old[1]), "l"(sum[0]), "l"(sum[1])
          : "memory");
      if (seen[0] == old[0] && seen[1] == old[1]) return;
      old[0] = seen[0];
      old[1] = seen[1];
    }
#else
    if (more_first) two[0].add(more_first);
    if (more_second) two[1].add(more_second);
#endif
  }
  /// The one base that was counted `least` times or more; no_base: there is none, or there are several.
  GRAVEL_DEVICE unsigned only(uint64_t least) const {
    const uint64_t counts = load_relaxed<scope::device>(&word);
    unsigned found = no_base;
    for (unsigned base = 0; base < 4; ++base)
      if (field(counts, base) >= least) {
        if (found != no_base) return no_base;
        found = base;
      }
    return found;
  }
};

/// One sector of a GPU's memory.
struct alignas(32) kmer_entry {
  uint64_t kmer;  ///< canonical, or no_kmer; written once
  uint64_t count;
  base_counts around[2];  ///< what stood before and after the canonical form
  GRAVEL_BOTH const base_counts& before() const { return around[0]; }
  GRAVEL_BOTH const base_counts& after() const { return around[1]; }
};
static_assert(sizeof(kmer_entry) == 32 && offsetof(kmer_entry, around) == 16);

/// Counts k-mers by minimizers, with the bases beside them.
using neighbour_counter = gravel::kmer_counter<true>;

struct kmer_table {
  kmer_entry* entries;
  uint32_t slots;
  uint32_t minimizers_of;  ///< bases of k-mers that belong to the owner of their minimizer; 0: to that of their hash

  /// The high half of the hash says who has a k-mer that is counted by itself, the low half where.
  GRAVEL_BOTH static int owner_by_hash(uint64_t kmer, uint32_t n_pes) {
    return static_cast<int>(pick(mix(kmer), n_pes));
  }
  GRAVEL_BOTH int owner(uint64_t kmer, uint32_t n_pes) const {
    return minimizers_of ? neighbour_counter::owner(kmer, minimizers_of, n_pes) : owner_by_hash(kmer, n_pes);
  }
  GRAVEL_BOTH uint32_t first_slot(uint64_t kmer) const { return pick(mix(kmer) << 32, slots); }
  GRAVEL_BOTH uint32_t next_slot(uint32_t slot) const { return slot + 1 < slots ? slot + 1 : 0; }
  GRAVEL_BOTH uint32_t probes() const { return slots < most_probes ? slots : most_probes; }

  /// The entry of `kmer`, made if there was none; nullptr: there is no room within most_probes. Thread scope: lane.
  GRAVEL_DEVICE kmer_entry* find_or_insert(uint64_t kmer) const {
    uint32_t slot = first_slot(kmer);
    for (uint32_t i = 0; i < probes(); ++i, slot = next_slot(slot)) {
      kmer_entry& entry = entries[slot];
      uint64_t here = load_relaxed<scope::device>(&entry.kmer);
      // Counters were zero before the first message, so nothing is published with the word.
      if (here == no_kmer)
        here = compare_swap_acquire(&entry.kmer, no_kmer, kmer) ? kmer : load_relaxed<scope::device>(&entry.kmer);
      if (here == kmer) return &entry;
    }
    return nullptr;
  }
  /// The slot of `kmer`, or no_place. Thread scope: lane.
  GRAVEL_DEVICE uint64_t find(uint64_t kmer) const {
    uint32_t slot = first_slot(kmer);
    for (uint32_t i = 0; i < probes(); ++i, slot = next_slot(slot)) {
      const uint64_t here = load_relaxed<scope::device>(&entries[slot].kmer);
      if (here == kmer) return slot;
      if (here == no_kmer) return no_place;
    }
    return no_place;
  }
};

/// A PE's part, and what found no room in it.
struct table_part {
  kmer_table table;
  uint64_t* lost;  ///< insertions that found no room

  /// Counts a k-mer so many times, with what stood around it. Thread scope: lane.
  GRAVEL_DEVICE void count(uint64_t kmer, uint64_t times, uint64_t befores, uint64_t afters) const {
    kmer_entry* entry = table.find_or_insert(kmer);
    gravel::detail::add_scattered(entry ? &entry->count : lost, times);
    if (entry) base_counts::add_both(entry->around, befores, afters);
  }
  /// Once, with the bases before and after it (codes, or no_base).
  GRAVEL_DEVICE void count_one(uint64_t kmer, uint8_t before, uint8_t after) const {
    count(kmer, 1, before == no_base ? 0 : uint64_t{1} << 16 * before,
          after == no_base ? 0 : uint64_t{1} << 16 * after);
  }
};

}  // namespace app
