// FASTA and FASTQ, plain and gzip; what cut and malformed files say; the generator; k-mers.
#include "lib/reads/reads.hpp"

#include <set>

#include "lib/reads/reference.hpp"

#include "test/support/error_of.hpp"
#include "test/support/gzip_samples.hpp"
#include "test/support/scratch.hpp"

using namespace gravel::detail;

namespace {

std::string text_of(const read_set& set) {
  std::string text;
  for (const uint8_t code : set.codes) text += "ACGT|"[code];
  return text;
}

const std::string fasta = ">one a name\r\nACg\r\nTT\r\n\r\n>two\nNNAC!\n";
const std::string fastq = "@a\nACGT\n+\n@@@@\n@b\nGNnA\n+b\n!!!!\n\n";

}  // namespace

TEST_CASE("FASTA: lines of a record are one read, and unknown letters split it") {
  const scratch files;
  const std::string good = ">one\r\nACg\r\nTT\r\n\r\n>two\nNNAC\nRG\n>three\nNN\n";
  for (const std::string& path : {files.write(good), files.write_gzip(good)}) {
    const read_set set = read_reads(path);
    CHECK(text_of(set) == "|ACGTT|AC|G|");
    CHECK(set.reads == 3);
    CHECK(set.bases == 8);
    CHECK(set.unknown == 5);
    CHECK(set.kmers(3) == 3);
    CHECK(text_of(read_reads(path, {1, 2})) == "|AC|G|");
    CHECK(text_of(read_reads(path, {0, 2})) == "|ACGTT|");
    CHECK(read_sequences(path) == std::vector<std::string>{"ACGTT", "NNACNG", "NN"});
  }
}

TEST_CASE("FASTQ: quality may begin with @") {
  const scratch files;
  CHECK(text_of(read_reads(files.write(fastq))) == "|ACGT|G|A|");
  CHECK(text_of(read_reads(files.write_gzip(fastq), {1, 2})) == "|G|A|");
}

TEST_CASE("cut and malformed files are refused with file and line") {
  const scratch files;
  const auto said = [&](const std::string& text) {
    return error_of([&] { read_reads(files.write(text, "x"), {1, 2}); });
  };
  CHECK(said("") == files.path("x") + " is empty");
  CHECK(said("\n\n").find("x is empty") != std::string::npos);
  CHECK(said("ACGT\n").find("x:1: expected a record of FASTA ('>') or FASTQ ('@'), not 'ACGT'") != std::string::npos);
  CHECK(said(fasta).find("x:6: '!' is no letter of a sequence") != std::string::npos);
  CHECK(said("@a\nACGT\n+\n").find("x:1: the record is cut off") != std::string::npos);
  CHECK(said("@a\nA\n+\nI\n@b\nAC\n").find("x:5: the record is cut off") != std::string::npos);
  CHECK(said("@a\n\n+\nI\n").find("x:4: 1 characters of quality for 0 letters") != std::string::npos);
  CHECK(said(">a\nAC GT\n").find("x:2: ' ' is no letter") != std::string::npos);
  CHECK(said(">a\nMEL\n").find("x:2: 'E' is no letter") != std::string::npos);
  CHECK(said("@a\nAC\nGT\n+\n").find("x:3: expected '+'") != std::string::npos);
  CHECK(said("@a\nACGT\n+\nIII\n").find("x:4: 3 characters of quality for 4 letters") != std::string::npos);
  CHECK(said("@a\nA\n+\nI\n>b\nA\n").find("x:5: expected a record that begins with '@'") != std::string::npos);
  CHECK(error_of([&] { read_reads(files.path("absent")); }).find("absent: No such file") != std::string::npos);
  const std::string whole = files.write_gzip(fastq, "cut.gz");
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 10);
  CHECK(error_of([&] { read_reads(whole); }).find("the gzip data are cut off") != std::string::npos);
}

TEST_CASE("records without letters are reads too") {
  const scratch files;
  for (const char* text : {"@a\n\n+\n\n@b\nAC\n+\nII\n@c\n\n+\n", "@a\n \n+\n\n\n@b\nAC\n+\nII\n@c\n\n+\n\n",
                           ">a\n>b\nAC\n>c\n", ">a\n\n>b\nA\nC\n\n>c"}) {
    INFO(text);
    const std::string path = files.write(text);
    const read_set set = read_reads(path);
    CHECK(set.reads == 3);
    CHECK(text_of(set) == "|AC|");
    CHECK(read_reads(path, {1, 2}).bases == 2);
    CHECK(read_reads(path, {0, 2}).reads == 2);
    CHECK(read_sequences(path) == std::vector<std::string>{"", "AC", ""});
  }
}

TEST_CASE("letters: RNA, gaps, stops, all of IUPAC's; blanks at line ends; a mark of UTF-8; long lines") {
  const scratch files;
  CHECK(text_of(read_reads(files.write("\xef\xbb\xbf>a\nAUu \t\nG-C*\n>b  \r\nacgu.A\r\n"))) == "|ATTG|C|ACGT|A|");
  CHECK(text_of(read_reads(files.write("@a\nAC \n+\nII\n"))) == "|AC|");
  CHECK(read_reads(files.write(">a\nRYSWKMBDHVNXryswkmbdhvnx-*.\n")).unknown == 27);
  CHECK(read_sequences(files.write(">a\nACU-\n")) == std::vector<std::string>{"ACTN"});
  const std::string chromosome(3 << 20, 'A');
  CHECK(read_reads(files.write_gzip(">a\n" + chromosome + "\n>b\nC\n")).bases == chromosome.size() + 1);
  CHECK(read_reads(files.write("@a\n" + chromosome + "\n+\n" + chromosome + "\n")).bases == chromosome.size());
}

TEST_CASE("a gzip file of reads is read to its end, or refused") {
  const scratch files;
  std::string second = gzip_member(fastq);
  CHECK(read_reads(files.write(gzip_member(fastq) + second)).reads == 4);
  CHECK(read_reads(files.write(block_gzip(fastq + fastq))).reads == 4);
  second[1] ^= 0x1b;
  CHECK(error_of([&] {
          read_reads(files.write(gzip_member(fastq) + second));
        }).find("graph: the gzip data are damaged at byte") != std::string::npos);
  CHECK(error_of([&] { read_reads(files.write(gzip_member(fastq) + fastq)); }).find("found '@a\\x0aACGT") !=
        std::string::npos);
  CHECK(error_of([&] { read_reads(files.write_gzip(std::string("BAM\1\0\0", 6))); }).find("alignments in BAM") !=
        std::string::npos);
  CHECK(error_of([&] { read_reads(files.write("@HD\tVN:1.6\n")); }).find("alignments in SAM") != std::string::npos);
}

TEST_CASE("reads of a genome") {
  const genome_shape shape{.length = 1000, .coverage = 20, .read_length = 50, .errors = 0, .seed = 3};
  const std::string genome = make_genome(shape), back = reverse_complement(genome);
  CHECK(reverse_complement(back) == genome);
  const read_set all = make_reads(genome, shape);
  CHECK(all.reads == 400);
  CHECK(all.bases == 20000);
  std::multiset<std::string> whole, parts;
  unsigned forward = 0;
  const auto split = [](const read_set& set, std::multiset<std::string>& into) {
    std::string read;
    for (const uint8_t code : set.codes)
      if (code != no_base) read += "ACGT"[code];
      else if (!read.empty()) {
        into.insert(read);
        read.clear();
      }
  };
  split(all, whole);
  for (uint64_t i = 0; i < 3; ++i) split(make_reads(genome, shape, {i, 3}), parts);
  CHECK(whole == parts);
  for (const std::string& read : whole) {
    const bool found = genome.find(read) != std::string::npos;
    forward += found;
    CHECK((found || back.find(read) != std::string::npos));
  }
  CHECK((forward > 150 && forward < 250));
}

TEST_CASE("a genome and its reads do not depend on the number of threads") {
  const genome_shape shape{.length = 1001, .coverage = 20, .read_length = 50, .errors = 0.1, .seed = 3};
  const std::string genome = make_genome(shape);
  const read_set one = make_reads(genome, shape, {1, 3});
  for (const int threads : {0, 2, 7, 300}) {
    CHECK(make_genome(shape, threads) == genome);
    const read_set many = make_reads(genome, shape, {1, 3}, threads);
    CHECK((many.codes == one.codes && many.reads == one.reads && many.bases == one.bases));
  }
  CHECK(make_reads(genome, {.length = 1001, .coverage = 0.01, .read_length = 50}, {}, 4).reads == 0);
}

TEST_CASE("as many errors as asked for") {
  genome_shape shape{.length = 5000, .coverage = 20, .read_length = 100, .errors = 0, .seed = 4};
  const std::string genome = make_genome(shape);
  const read_set right = make_reads(genome, shape);
  shape.errors = 0.02;
  const read_set wrong = make_reads(genome, shape);
  REQUIRE(right.codes.size() == wrong.codes.size());
  uint64_t different = 0;
  for (size_t i = 0; i < right.codes.size(); ++i) different += right.codes[i] != wrong.codes[i];
  CHECK((different > 1700 && different < 2300));  // 2000 expected, standard deviation 44
}

TEST_CASE("genomes that cannot be") {
  CHECK(error_of([] { make_genome({.length = 0}); }).find("a genome has 1 to") != std::string::npos);
  CHECK(error_of([] { make_genome({.length = 50, .read_length = 51}); }).find("reads of 51 bases") !=
        std::string::npos);
  CHECK(error_of([] { make_genome({.length = 500, .coverage = 0}); }).find("coverage") != std::string::npos);
  CHECK(error_of([] { make_genome({.length = 500, .errors = 1}); }).find("errors") != std::string::npos);
}

TEST_CASE("k-mers in words") {
  for (const unsigned k : {1u, 5u, 31u}) {
    const kmer_shape shape{k};
    const std::string text = make_genome({.length = 200, .seed = k});
    uint64_t forward = 0, reverse = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint8_t code = base_code(text[i]);
      forward = shape.append(forward, code);
      reverse = shape.append_reverse(reverse, code);
      if (i + 1 < k) continue;
      CHECK(shape.reverse_complement(forward) == reverse);
      CHECK(shape.reverse_complement(reverse) == forward);
      CHECK(forward != reverse);
      CHECK(shape.last(forward) == code);
      CHECK(shape.first(forward) == base_code(text[i + 1 - k]));
    }
  }
}

TEST_CASE("a reference finds the same as a search of its text") {
  // Few different letters in short sequences, so that there are repeats, and texts that are their own reverse
  // complement.
  uint64_t seed = 1, whole = 0, palindromes = 0;
  const auto random = [&](uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
  };
  const auto text = [&](uint64_t size) {
    std::string made;
    while (made.size() < size) made += "ACGTN"[random(40) == 0 ? 4 : random(4)];
    return made;
  };
  for (unsigned k = 3; k <= 31; k += 2) {
    const std::vector<std::string> sequences{text(200), text(k - 1), text(60)};
    reference_genome reference(sequences, k);
    std::vector<std::vector<bool>> covered;
    std::set<std::string> kmers;
    uint64_t bases = 0, expected = 0;
    for (const std::string& sequence : sequences) {
      covered.emplace_back(sequence.size());
      for (const char letter : sequence) bases += letter != 'N';
      for (size_t at = 0; at + k <= sequence.size(); ++at) {
        const std::string kmer = sequence.substr(at, k);
        if (kmer.find('N') == std::string::npos) kmers.insert(std::min(kmer, reverse_complement(kmer)));
      }
    }
    CHECK(reference.bases() == bases);
    CHECK(reference.kmers() == kmers.size());
    for (unsigned asked = 0; asked < 200; ++asked) {
      std::string contig = asked % 2 ? text(k + random(4)) : sequences[0].substr(random(150), k + random(20));
      for (char& letter : contig)
        if (letter == 'N') letter = 'A';
      if (asked % 3 == 0) contig = reverse_complement(contig);
      if (asked % 7 == 0) contig = contig.substr(0, k / 2 + 1) + reverse_complement(contig.substr(0, k / 2 + 1));
      palindromes += contig == reverse_complement(contig);
      bool there = false;
      for (size_t s = 0; s < sequences.size(); ++s)
        for (const std::string& strand : {contig, reverse_complement(contig)})
          for (size_t at = sequences[s].find(strand); at != std::string::npos; at = sequences[s].find(strand, at + 1)) {
            there = true;
            std::fill_n(covered[s].begin() + static_cast<std::ptrdiff_t>(at), strand.size(), true);
          }
      CHECK(reference.contains(contig) == there);
      CHECK(reference.cover(contig) == there);
      whole += there;
    }
    for (const auto& marks : covered)
      for (const bool mark : marks) expected += mark;
    CHECK(reference.covered() == expected);
  }
  CHECK(whole > 500);
  CHECK(palindromes > 100);
  CHECK_FALSE(reference_genome({"ACGTT"}, 5).contains("ACG"));
  CHECK(reference_genome({"ACGTT"}, 5).has_kmer(0b0000011011));        // AACGT, the canonical form
  CHECK_FALSE(reference_genome({"ACGTT"}, 5).has_kmer(0b0001101111));  // ACGTT
}
