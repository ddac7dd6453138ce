// Counting the k-mers of reads by all PEs. Reads come from <gravel/reads.hpp>.
#pragma once
#include "lib/reads/kmer_counter.cuh"

namespace gravel {
using detail::kmer_counter;
using detail::kmer_counter_options;
}  // namespace gravel
