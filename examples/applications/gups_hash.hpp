// The check of gups at any size: a hash of the table that only the right one has.
#pragma once
#include <vector>

#include <gravel/device_array.hpp>
#include <gravel/gravel.cuh>
#include "examples/common/lane_share.hpp"
#include "examples/common/mix.hpp"
#include "examples/common/random_stream.hpp"

namespace app {
using gravel::device_array;
using gravel::fetch_add;
using gravel::scope;

/// A sum over all updates that only the right table has: of numbers that stand for the words of increments; of the
/// words' values turned by numbers of bits that do so, by xor. What of an update is lost, or lands elsewhere, is
/// missing.
template <class Job>
GRAVEL_BOTH uint64_t hash_of(const Job& job, uint64_t word, uint32_t pe, uint64_t value) {
  const uint64_t random = mix(job.map.index_of(word, pe));
  if (!job.is_xor) return value * random;
  const unsigned turn = random % 64;
  return turn ? value << turn | value >> (64 - turn) : value;
}
/// That of this PE's updates first ... first + count, in the simplest way.
template <class Job>
__global__ void hash_updates(Job job, uint32_t me, uint64_t first, uint64_t count, uint64_t* hash) {
  const lane_share mine(count);
  uint64_t ran = random_stream::at(first + mine.first), sum = 0;
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    ran = random_stream::next(ran);
    const uint64_t one = hash_of(job, job.map.word_of(ran), job.map.pe_of(ran, me), job.is_xor ? ran : 1);
    sum = job.is_xor ? sum ^ one : sum + one;
  }
  if (job.is_xor) atomicXor(reinterpret_cast<unsigned long long*>(hash), sum);
  else fetch_add<scope::device>(hash, sum);
}

/// Does the table have the hash of all updates? `each_word(visit)` calls visit(word, value) for this PE's words.
/// Collective.
template <class Job, class EachWord>
bool hash_is_right(const Job& job, uint64_t updates, unsigned grid, unsigned block, EachWord&& each_word) {
  const auto me = static_cast<uint32_t>(gravel_my_pe());
  device_array<uint64_t> of_updates(std::vector<uint64_t>(1));
  gravel_launch(hash_updates<Job>, grid, block, job, me, updates * me, updates, of_updates.data());
  gravel_synchronize();
  uint64_t here = 0;  // of the updates, combined with that of the words: nothing is left of both at all PEs
  gravel_copy(&here, of_updates.data(), sizeof(here));
  each_word([&](uint64_t word, uint64_t value) {
    const uint64_t one = hash_of(job, word, me, job.is_xor ? value ^ job.map.index_of(word, me) : value);
    here = job.is_xor ? here ^ one : here - one;
  });
  std::vector<uint64_t> of_all(job.map.n_pes);
  gravel_allgather(of_all.data(), here);
  uint64_t left = 0;
  for (const uint64_t one : of_all) left = job.is_xor ? left ^ one : left + one;
  return left == 0;
}

/// For tests of the check: an update of this PE's table is at the word beside its own.
template <class Job>
void misplace_update(const Job& job) {
  uint64_t words[2];
  gravel_copy(words, job.table, sizeof(words));
  words[0] = job.is_xor ? words[0] ^ 1 : words[0] - 1;
  words[1] = job.is_xor ? words[1] ^ 1 : words[1] + 1;
  gravel_copy(job.table, words, sizeof(words));
}

}  // namespace app
