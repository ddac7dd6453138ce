// lib/reads: reads of genomes from FASTA and FASTQ files and from a generator. All on the host.
//
// All calls of this file:
// @param path of the file, plain or gzip
// @param source bytes in memory, or an open file (lib/graph/byte_source.hpp)
// @param share which records to keep
// @param shape of the genome and its reads
// @param threads number of threads to use; the result does not depend on it
// @scope any host thread
// @completion on return
// @errors gravel::error with file and line, or for an invalid shape
// @source FASTA, FASTQ; IUPAC's code
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/reads/kmer.hpp"

namespace gravel::detail {

class byte_source;

/// Bases of many reads. `codes` is no_base, then each piece of a read without unknown letters, each followed by
/// no_base.
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source FASTA, FASTQ
struct read_set {
  std::vector<uint8_t> codes{no_base};
  uint64_t reads = 0;    ///< number of records, or of generated reads
  uint64_t bases = 0;    ///< A, C, G and T in `codes`
  uint64_t unknown = 0;  ///< letters at which a read was split

  /// Appends letters to the current read: ACGT in either case, and U as T. Other letters of IUPAC's code, gaps (- and
  /// .) and stops (*) split the read. Returns the first byte that is none of these; 0: all are valid.
  /// @param letters of the read
  char add_letters(std::string_view letters);
  /// Ends a read.
  void end_read();
  /// Returns the number of places at which a k-mer begins.
  /// @param k its length
  uint64_t kmers(unsigned k) const;
};

/// Part `number` of `of`: every of-th record, beginning with record `number`.
struct read_share {
  uint64_t number = 0, of = 1;
};

/// Reads a FASTA or FASTQ file (the first byte decides which), plain or gzip. A record of FASTQ has four lines, a
/// record of FASTA any number. A record without letters counts. Blanks at the end of lines are ignored. The whole file
/// is read and checked, and the records of `share` are kept. Throws gravel::error with file and line for data that are
/// cut off or malformed, for an empty file, and what line_reader throws.
/// @return the records of `share`
read_set read_reads(const std::string& path, read_share share = {});
/// Reads a FASTA or FASTQ file from bytes in memory, or from an open file.
/// @return the records of `share`
read_set read_reads(byte_source& source, read_share share = {});

/// Returns the sequences of a FASTA or FASTQ file as text of ACGT, with other letters as N. Throws as read_reads.
/// @return in the file's order
std::vector<std::string> read_sequences(const std::string& path);
/// Returns the sequences of a FASTA or FASTQ file as text, from bytes in memory or from an open file.
/// @return in the file's order
std::vector<std::string> read_sequences(byte_source& source);

/// A random genome and its reads.
/// @scope any host thread
/// @completion on return
/// @errors none
/// @source Gravel
struct genome_shape {
  uint64_t length = 0;         ///< bases
  double coverage = 30;        ///< how often a base is read on average
  unsigned read_length = 100;  ///< at most `length`
  double errors = 0;           ///< share of read bases that are another base
  uint64_t seed = 1;
  /// Returns the number of reads.
  uint64_t reads() const { return static_cast<uint64_t>(coverage * static_cast<double>(length) / read_length + 0.5); }
};

/// Throws gravel::error for an invalid shape.
void check_shape(const genome_shape& shape);
/// Makes uniformly random bases, as text. Throws as check_shape.
/// @return text of ACGT
std::string make_genome(const genome_shape& shape, int threads = 1);
/// Makes reads of either strand from uniformly random places of `genome`. Read i is the same for every share.
/// @param genome text of ACGT
/// @return the reads of `share`
read_set make_reads(const std::string& genome, const genome_shape& shape, read_share share = {}, int threads = 1);

/// Returns the reverse complement of a text of ACGT; other letters become N.
/// @param text any letters
/// @return a text of the same length
/// @errors none
std::string reverse_complement(std::string_view text);

/// Returns the code of a letter; no_base for letters other than ACGTUacgtu.
/// @param letter any
/// @return 0 to 3, or no_base
/// @errors none
uint8_t base_code(char letter);

}  // namespace gravel::detail
