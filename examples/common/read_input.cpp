#include "examples/common/read_input.hpp"

#include <fmt/format.h>

#include "examples/common/program.hpp"

namespace app {

void read_input::add_options(command_line& app) {
  app.add_option("reads", files, "Files of reads: FASTA or FASTQ, plain or gzip");
  app.add_option("--reference", reference,
                 "FASTA file of the genome that the reads of files come from: report how many contigs are in it");
  app.add_option("--genome", genome.length, "Instead of files: reads of a random genome of so many bases");
  app.add_option("--coverage", genome.coverage, "How often a base of the random genome is read, on average")
      .capture_default_str();
  app.add_option("--read-length", genome.read_length, "Bases of a read of it").capture_default_str();
  app.add_option("--errors", genome.errors, "Share of the read bases that are wrong").capture_default_str();
  app.add_option("--seed", genome.seed, "Of the random genome and its reads").capture_default_str();
}

void read_input::check() const {
  if (files.empty() == (genome.length == 0))
    fail("give files of reads, or --genome LENGTH for a random genome; see --help");
  if (files.empty()) gravel::check_shape(genome);
  for (const std::string& file : files) need_readable(file);
  if (!reference.empty() && files.empty()) fail("--reference is for reads of files; a random genome is its own");
  if (!reference.empty()) need_readable(reference);
}

read_set read_input::load(read_share share) const {
  if (files.empty()) return gravel::make_reads(gravel::make_genome(genome, threads), genome, share, threads);
  read_set all;
  for (const std::string& file : files) {
    const read_set more = gravel::read_reads(file, share);
    all.codes.insert(all.codes.end(), more.codes.begin() + 1, more.codes.end());
    all.reads += more.reads;
    all.bases += more.bases;
    all.unknown += more.unknown;
  }
  return all;
}

std::vector<std::string> read_input::reference_sequences() const {
  if (files.empty()) return {gravel::make_genome(genome, threads)};
  return reference.empty() ? std::vector<std::string>() : gravel::read_sequences(reference);
}

std::string read_input::description() const {
  if (!files.empty())
    return fmt::format("{}{}", files[0], files.size() > 1 ? fmt::format(" and {} more", files.size() - 1) : "");
  return fmt::format("random genome of {} bases, coverage {}, reads of {}, errors {}, seed {}", genome.length,
                     genome.coverage, genome.read_length, genome.errors, genome.seed);
}

}  // namespace app
