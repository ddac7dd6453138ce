// Phase 2 of Meraculous on the device: k-mers of a distributed table are linked to chains, and chains spelled out. A
// k-mer is two *states*, one for each strand; what leads on from a state leads back to the other one. Where a chain
// ends, all its states learn by pointer jumping: in each round a state asks the one it points to where that points, so
// chains of n k-mers take log2(n) rounds of messages that do not wait for each other.
#pragma once
#include "examples/applications/kmer_table.hpp"
#include "examples/common/together.hpp"

namespace app {
using gravel::fetch_add;
using gravel::kmer_shape;
using gravel::lane_group;
using gravel::load_relaxed;
using gravel::no_base;
using gravel::scope;
using gravel::store_relaxed;

/// A state anywhere: number of the k-mer at its PE, strand (0: canonical), PE.
using state_ref = uint64_t;
GRAVEL_BOTH state_ref make_ref(uint64_t state, uint32_t pe) { return uint64_t{pe} << 34 | state; }
GRAVEL_BOTH int pe_of(state_ref ref) { return static_cast<int>(ref >> 34); }
GRAVEL_BOTH uint64_t state_of(state_ref ref) { return ref & ((uint64_t{1} << 34) - 1); }
GRAVEL_BOTH state_ref other_strand(state_ref ref) { return ref ^ 1; }

/// This PE's part, in device memory. Of arrays by state, kernels write `next`, `distance` and `finished`, and handlers
/// `got_*`, so that no array changes while it is read: handlers run in a kernel that may keep old lines in its cache,
/// so they use relaxed atomics.
struct contig_job {
  kmer_table table;
  kmer_shape shape;
  uint64_t least;       ///< k-mers and extensions seen less often are errors
  uint64_t kmers;       ///< that are left
  uint32_t* number_of;  ///< by slot: of those that are left
  uint32_t* slot_of;    ///< by number
  state_ref* next;      ///< by state: as far as is known; itself at the end
  uint32_t* distance;   ///< to `next`, in k-mers; 0: this is the end (a k-mer that follows itself has 1)
  uint8_t* finished;    ///< `next` is the end
  state_ref* got_next;
  uint32_t* got_distance;
  uint64_t* begin;   ///< by state that begins a contig: of its letters
  uint8_t* letters;  ///< of the contigs that begin here, each followed by no_base
  uint64_t* totals;  ///< k-mers numbered, states finished, letters

  GRAVEL_DEVICE uint64_t word(uint64_t state) const {
    const uint64_t kmer = load_relaxed<scope::device>(&table.entries[slot_of[state / 2]].kmer);
    return state % 2 ? shape.reverse_complement(kmer) : kmer;
  }
  /// The only base behind a state, or no_base.
  GRAVEL_DEVICE unsigned only_after(uint64_t slot, unsigned strand) const {
    const kmer_entry& entry = table.entries[slot];
    const unsigned base = strand ? entry.before().only(least) : entry.after().only(least);
    return base == no_base || strand == 0 ? base : 3 - base;
  }
  /// Where the chain of this state begins, once both strands are finished.
  GRAVEL_DEVICE state_ref start(uint64_t state) const { return other_strand(next[state ^ 1]); }
  /// Of both strands of a chain, one is spelled (by two if it is its own reverse complement).
  GRAVEL_DEVICE bool is_spelled(uint64_t state) const {
    return finished[state] && finished[state ^ 1] && start(state) <= start(state ^ 1);
  }
};

/// The state it points to is the next one of `from`'s chain.
struct join {
  static constexpr const char* name = "mer_join";
  using context = contig_job;
  GRAVEL_DEVICE void operator()(const gravel_t&, contig_job* mine, uint64_t from, state_ref to) const {
    store_relaxed<scope::device>(&mine->got_next[from], to);
  }
};

/// Is the k-mer here, and does nothing but `before` lead to it? Then it is the next one of `from`'s chain.
struct pair_ends {
  static constexpr const char* name = "mer_pair_ends";
  using context = contig_job;
  GRAVEL_DEVICE void operator()(const gravel_t& g, contig_job* mine, uint64_t kmer, state_ref from,
                                uint32_t strand_and_before) const {
    const contig_job& job = *mine;
    const unsigned strand = strand_and_before & 1, before = strand_and_before >> 1;
    const uint64_t slot = job.table.find(kmer);
    if (slot == no_place || load_relaxed<scope::device>(&job.table.entries[slot].count) < job.least) return;
    const unsigned back = job.only_after(slot, 1 - strand);
    if (back == no_base || 3 - back != before) return;
    const uint64_t state = uint64_t{load_relaxed<scope::device>(&job.number_of[slot])} * 2 + strand;
    gravel_am<join>(g, pe_of(from), state_of(from), make_ref(state, g.my_pe));
  }
};

struct answer {
  static constexpr const char* name = "mer_answer";
  using context = contig_job;
  GRAVEL_DEVICE void operator()(const gravel_t&, contig_job* mine, uint64_t state, state_ref next,
                                uint32_t distance) const {
    store_relaxed<scope::device>(&mine->got_next[state], next);
    store_relaxed<scope::device>(&mine->got_distance[state], distance);
  }
};

/// Sends to `who` where the state points.
struct ask {
  static constexpr const char* name = "mer_ask";
  using context = contig_job;
  GRAVEL_DEVICE void operator()(const gravel_t& g, contig_job* mine, uint64_t state, state_ref who) const {
    gravel_am<answer>(g, pe_of(who), state_of(who), load_relaxed<scope::device>(&mine->next[state]),
                      load_relaxed<scope::device>(&mine->distance[state]));
  }
};

/// A letter of the contig that begins with `state`, behind its first k-mer's first k - 1.
struct spell {
  static constexpr const char* name = "mer_spell";
  using context = contig_job;
  GRAVEL_DEVICE void operator()(const gravel_t&, contig_job* mine, uint64_t state, uint64_t position_and_base) const {
    mine->letters[load_relaxed<scope::device>(&mine->begin[state]) + mine->shape.k - 1 + (position_and_base >> 2)] =
        position_and_base & 3;
  }
};

using contig_sender = gravel_block_sender<lanes_of_block>;

__global__ void number_kmers(contig_job job) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t slot = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; slot < job.table.slots; slot += lanes) {
    if (job.table.entries[slot].kmer == no_kmer || job.table.entries[slot].count < job.least) continue;
    const lane_group group = lane_group::active();
    uint64_t number = group.is_leader() ? fetch_add<scope::device>(&job.totals[0], uint64_t{group.size()}) : 0;
    number = group.from_leader(number) + group.rank();
    job.number_of[slot] = static_cast<uint32_t>(number);
    job.slot_of[number] = static_cast<uint32_t>(slot);
  }
}

__global__ void start_states(contig_job job) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes) {
    job.got_next[s] = no_place;
    job.finished[s] = 0;
  }
}

__global__ void link_states(gravel_t g, contig_job job) {
  __shared__ contig_sender sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes) {
    const unsigned after = job.only_after(job.slot_of[s / 2], s % 2);
    if (after == no_base) continue;
    const uint64_t here = job.word(s), word = job.shape.append(here, after),
                   reverse = job.shape.reverse_complement(word);
    const uint64_t kmer = word < reverse ? word : reverse;
    sender.am<pair_ends>(job.table.owner(kmer, g.n_pes), kmer, make_ref(s, g.my_pe),
                         uint32_t{kmer != word} | job.shape.first(here) << 1);
  }
  sender.end();
}

/// Takes what has come. `first`: of links, not of answers.
__global__ void advance(gravel_t g, contig_job job, bool first) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t newly = 0;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes) {
    if (job.finished[s]) continue;
    if (first) {
      const bool linked = job.got_next[s] != no_place;
      job.next[s] = linked ? job.got_next[s] : make_ref(s, g.my_pe);
      job.distance[s] = linked;
      if (linked) continue;
    } else if (job.got_distance[s] != 0) {
      job.next[s] = job.got_next[s];
      job.distance[s] += job.got_distance[s];
      continue;
    }
    job.finished[s] = 1;
    ++newly;
  }
  if (newly) fetch_add<scope::device>(&job.totals[1], newly);
}

__global__ void ask_next(gravel_t g, contig_job job) {
  __shared__ contig_sender sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes)
    if (!job.finished[s]) sender.am<ask>(pe_of(job.next[s]), state_of(job.next[s]), make_ref(s, g.my_pe));
  sender.end();
}

/// Gives each contig that begins here its place.
__global__ void place_contigs(contig_job job) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes)
    if (job.is_spelled(s) && job.distance[s ^ 1] == 0)
      job.begin[s] = fetch_add<scope::device>(&job.totals[2], job.distance[s] + uint64_t{job.shape.k} + 1);
}

__global__ void spell_contigs(gravel_t g, contig_job job) {
  __shared__ contig_sender sender;
  sender.begin(g);
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t s = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; s < 2 * job.kmers; s += lanes) {
    if (!job.is_spelled(s)) continue;
    const uint64_t word = job.word(s);
    const state_ref start = job.start(s);
    sender.am<spell>(pe_of(start), state_of(start), uint64_t{job.distance[s ^ 1]} << 2 | job.shape.last(word));
    if (job.distance[s ^ 1] != 0) continue;
    for (unsigned i = 1; i < job.shape.k; ++i)
      job.letters[job.begin[s] + i - 1] = static_cast<uint8_t>(word >> 2 * (job.shape.k - i) & 3);
    job.letters[job.begin[s] + job.shape.k + job.distance[s]] = no_base;
  }
  sender.end();
}

}  // namespace app
