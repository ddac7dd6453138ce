#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/reads/reads.hpp"

namespace gravel {
namespace {

constexpr uint64_t longest_genome = uint64_t{1} << 36;

/// Draws number `draw` of series `series`: independent of each other and of the order in which they are drawn.
uint64_t random_at(uint64_t seed, uint64_t series, uint64_t draw) { return mix(mix(mix(seed) + series) + draw); }
double unit(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace

void check_shape(const genome_shape& shape) {
  if (shape.length == 0 || shape.length > longest_genome) fail("a genome has 1 to {} bases, not {}", longest_genome, shape.length);
  if (shape.read_length == 0 || shape.read_length > shape.length)
    fail("reads of {} bases cannot be taken from a genome of {}", shape.read_length, shape.length);
  if (!(shape.coverage > 0 && shape.coverage <= 1e6)) fail("the coverage is above 0 and at most 10^6, not {}", shape.coverage);
  if (!(shape.errors >= 0 && shape.errors < 1)) fail("the share of errors is from 0 and below 1, not {}", shape.errors);
}

std::string make_genome(const genome_shape& shape) {
  check_shape(shape);
  std::string genome(shape.length, 'A');
  for (uint64_t i = 0; i < shape.length; ++i) genome[i] = "ACGT"[random_at(shape.seed, 0, i) >> 62];
  return genome;
}

read_set make_reads(const std::string& genome, const genome_shape& shape, read_share share) {
  read_set set;
  const uint64_t places = genome.size() - shape.read_length + 1;
  for (uint64_t i = share.number; i < shape.reads(); i += share.of) {
    const uint64_t series = i + 1;
    const auto place = static_cast<uint64_t>(unit(random_at(shape.seed, series, 0)) * static_cast<double>(places));
    const std::string_view forward = std::string_view(genome).substr(place, shape.read_length);
    std::string read = random_at(shape.seed, series, 1) >> 63 ? reverse_complement(forward) : std::string(forward);
    if (shape.errors > 0)
      for (unsigned j = 0; j < read.size(); ++j) {
        const uint64_t random = random_at(shape.seed, series, j + 2);
        if (unit(random) < shape.errors) read[j] = "ACGT"[(base_code(read[j]) + 1 + mix(random) % 3) % 4];
      }
    set.add_letters(read);
    set.end_read();
  }
  return set;
}

}  // namespace gravel
