// The messages of a benchmark, and the kernels that check their results. Nothing here needs Gravel: the NVSHMEM program
// with which Gravel is compared (bench/nvshmem) does the same work with the same checks.
#pragma once
#include "examples/applications/gups_table.hpp"
#include "examples/common/lane_share.hpp"
#include "examples/common/random_stream.hpp"
#include "lib/base/atomic.hpp"

namespace gravel_bench::perf {
using namespace gravel::detail;
using namespace app;

/// The content of memory before anything is written into it.
constexpr uint64_t poison = 0xA5A5A5A5A5A5A5A5u;

/// Operations on 8-byte words and on 4-byte words, and active messages by the bytes of their arguments.
enum class operation : uint32_t { put, inc, put32, add32, min32, am8, am16, am24, am48, am256 };

/// Message i goes to word (i * odd) & mask of a PE, with the value salt + i.
struct send_job {
  operation op;
  uint64_t* words;
  uint64_t mask, count, salt;
  uint32_t pe;
  uint32_t spread;  ///< not 0: to one of so many PEs instead, drawn from i

  GRAVEL_BOTH uint64_t word_of(uint64_t i) const { return i * 0x9E3779B97F4A7C15u & mask; }
  GRAVEL_BOTH uint32_t pe_of(uint64_t i) const {
    const uint64_t mixed = (i ^ i >> 29) * 0xBF58476D1CE4E5B9u >> 32;
    return spread ? static_cast<uint32_t>(mixed * spread >> 32) : pe;
  }
};

struct update_job {
  gups_table map;
  uint64_t* table;
  uint64_t count;  ///< updates of each PE
  operation op = operation::inc;

  /// The value that put32 and min32 write into the lower half of a word (the upper half stays): less than the poison.
  GRAVEL_BOTH static uint32_t value_of(uint64_t word) {
    return static_cast<uint32_t>(word * 0x9E3779B1u) & 0x7fffffffu;
  }
  /// The word after `n` updates.
  GRAVEL_BOTH uint64_t updated(uint64_t word, uint64_t n) const {
    if (op == operation::inc || op == operation::add32) return poison + n;
    return n ? (poison >> 32 << 32 | value_of(word)) : poison;
  }
};

__global__ void fill_words(uint64_t* words, uint64_t count, uint64_t value) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) words[i] = value;
}
__global__ void sum_words(const uint64_t* words, uint64_t count, uint64_t* sum) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) mine += words[i];
  fetch_add<scope::device>(sum, mine);
}

__global__ void check_puts(send_job job, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count; i += lanes)
    mine += job.words[job.word_of(i)] != job.salt + i;
  if (mine) fetch_add<scope::device>(wrong, mine);
}
__global__ void check_words(const uint64_t* words, uint64_t count, uint64_t value, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) mine += words[i] != value;
  if (mine) fetch_add<scope::device>(wrong, mine);
}

/// Words of the table that are compared: every 2^shift-th.
struct word_sample {
  uint32_t shift;
  uint64_t first;
};

/// Counts in `expected` what the updates of all PEs do to this PE's sampled words.
__global__ void count_updates(update_job job, word_sample sample, uint32_t me, uint64_t* expected) {
  const lane_share mine(job.count);
  for (uint32_t from = 0; from < job.map.n_pes; ++from) {
    uint64_t ran = random_stream::at(from * job.count + mine.first);
    for (uint64_t n = mine.first; n < mine.last; ++n) {
      ran = random_stream::next(ran);
      const uint64_t word = job.map.word_of(ran);
      if ((word & ((uint64_t{1} << sample.shift) - 1)) == sample.first && job.map.pe_of(ran, from) == me)
        fetch_add<scope::device>(&expected[word >> sample.shift], uint64_t{1});
    }
  }
}
__global__ void compare_sample(update_job job, word_sample sample, const uint64_t* expected, uint64_t count,
                               uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += lanes) {
    const uint64_t word = i << sample.shift | sample.first;
    if (job.table[word] != job.updated(word, expected[i])) fetch_add<scope::device>(wrong, uint64_t{1});
  }
}

}  // namespace gravel_bench::perf
