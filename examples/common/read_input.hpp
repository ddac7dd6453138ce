// The reads that `mer` works on: from files, or taken from a synthetic genome.
#pragma once
#include <string>
#include <vector>

#include <gravel/reads.hpp>
#include "examples/common/command_line.hpp"

namespace app {
using gravel::genome_shape;
using gravel::read_set;
using gravel::read_share;

struct read_input {
  /// The options of the command line, and, when they are parsed, whether they go together; throws gravel::error.
  void add_options(command_line& app);
  void check() const;

  /// A share of the reads. Throws gravel::error.
  read_set load(read_share share = {}) const;
  /// What the reads were taken from, if that is known: sequences of ACGTN.
  std::vector<std::string> reference_sequences() const;
  std::string description() const;

  std::vector<std::string> files;
  std::string reference;
  genome_shape genome;
  int threads = 1;  ///< that make the random genome and its reads
};

}  // namespace app
