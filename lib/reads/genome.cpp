#include <algorithm>
#include <system_error>
#include <thread>

#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/reads/reads.hpp"

namespace gravel::detail {
namespace {

constexpr uint64_t longest_genome = uint64_t{1} << 36;

/// Returns random number `draw` of series `series`. The numbers are independent of each other and of the order in which
/// they are drawn.
uint64_t random_at(uint64_t seed, uint64_t series, uint64_t draw) { return mix(mix(mix(seed) + series) + draw); }
double unit(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

/// Calls work(begin, end) for parts that together are 0 ... n - 1, in up to `threads` threads.
template <class Work>
void in_parts(uint64_t n, int threads, Work work) {
  const auto parts = static_cast<uint64_t>(std::max(threads, 1));
  const auto begin_of = [&](uint64_t part) { return n / parts * part + std::min(part, n % parts); };
  std::vector<std::jthread> others;
  uint64_t part = 1;
  try {
    for (; part < parts; ++part) others.emplace_back(work, begin_of(part), begin_of(part + 1));
  } catch (const std::system_error&) {  // then this thread does the rest
  }
  work(uint64_t{0}, begin_of(1));
  if (part < parts) work(begin_of(part), n);
}

}  // namespace

void check_shape(const genome_shape& shape) {
  if (shape.length == 0 || shape.length > longest_genome)
    fail("a genome has 1 to {} bases, not {}", longest_genome, shape.length);
  if (shape.read_length == 0 || shape.read_length > shape.length)
    fail("reads of {} bases cannot be taken from a genome of {}", shape.read_length, shape.length);
  if (!(shape.coverage > 0 && shape.coverage <= 1e6))
    fail("the coverage is above 0 and at most 10^6, not {}", shape.coverage);
  if (!(shape.errors >= 0 && shape.errors < 1)) fail("the share of errors is from 0 and below 1, not {}", shape.errors);
}

std::string make_genome(const genome_shape& shape, int threads) {
  check_shape(shape);
  std::string genome(shape.length, 'A');
  in_parts(shape.length, threads, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) genome[i] = "ACGT"[random_at(shape.seed, 0, i) >> 62];
  });
  return genome;
}

read_set make_reads(const std::string& genome, const genome_shape& shape, read_share share, int threads) {
  read_set set;
  const uint64_t places = genome.size() - shape.read_length + 1, all = shape.reads(), length = shape.read_length;
  set.reads = share.number < all ? (all - share.number - 1) / share.of + 1 : 0;
  set.bases = set.reads * length;
  set.codes.resize(1 + set.reads * (length + 1), no_base);
  in_parts(set.reads, threads, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t series = share.number + i * share.of + 1;
      const auto place = static_cast<uint64_t>(unit(random_at(shape.seed, series, 0)) * static_cast<double>(places));
      const bool turned = random_at(shape.seed, series, 1) >> 63;
      uint8_t* const read = &set.codes[1 + i * (length + 1)];
      for (uint64_t j = 0; j < length; ++j) {
        const uint8_t code = base_code(genome[turned ? place + length - 1 - j : place + j]);
        read[j] = turned ? static_cast<uint8_t>(3 - code) : code;
      }
      if (shape.errors > 0)
        for (uint64_t j = 0; j < length; ++j) {
          const uint64_t random = random_at(shape.seed, series, j + 2);
          if (unit(random) < shape.errors) read[j] = static_cast<uint8_t>((read[j] + 1 + mix(random) % 3) % 4);
        }
    }
  });
  return set;
}

}  // namespace gravel::detail
