// Reads of genomes, from FASTA and FASTQ files or from a generator. All functions run on the host. Link with
// libgravel_graph.
#pragma once
#include "lib/reads/reads.hpp"
#include "lib/reads/reference.hpp"

namespace gravel {
using detail::base_code;
using detail::check_shape;
using detail::genome_shape;
using detail::kmer_shape;
using detail::longest_kmer;
using detail::make_genome;
using detail::make_reads;
using detail::no_base;
using detail::read_reads;
using detail::read_sequences;
using detail::read_set;
using detail::read_share;
using detail::reference_genome;
using detail::reverse_complement;
}  // namespace gravel
