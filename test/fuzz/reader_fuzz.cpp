// The readers of lib/graph and lib/reads against arbitrary bytes, from memory: SNAP, Matrix Market, METIS, Galois,
// FASTQ, FASTA, and gzip of each; and the headers of files with tables (lib/table). With libFuzzer: link with
// -fsanitize=fuzzer, which brings a main of its own. Elsewhere this program feeds mutations of small files, from a
// seed.
//
// For each input the reader ends with a result whose parts fit together, or with a gravel::error that begins with the
// name of the file. Its memory is in proportion to the input. It gives the same result for a gzip form of the input. A
// damaged gzip form gives an error or the whole result, never a part of it.
//
// The bytes lie right before a page that may not be read, so any access past the end ends the program.
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/graph/byte_source.hpp"
#include "lib/graph/graph.hpp"
#include "lib/reads/reads.hpp"
#include "lib/table/tensor_file.hpp"
#include "test/fuzz/fuzz_options.hpp"
#include "test/support/gzip_samples.hpp"
#include "test/support/packet_samples.hpp"

namespace {

size_t allocated = 0;  // bytes, by operator new

}  // namespace

void* operator new(size_t bytes) {
  allocated += bytes;
  if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace gravel::detail;

enum class kind { snap, matrix_market, metis, galois, fastq, fasta, safetensors };
constexpr size_t kinds = 7;
constexpr const char* kind_names[kinds] = {"SNAP", "Matrix Market", "METIS", "Galois", "FASTQ", "FASTA", "safetensors"};

/// How an input is read.
struct setting {
  kind of = kind::snap;
  bool weights = false, real_weights = false, undirected = false, reversed = false;
};

/// The result of a reader for an input.
struct outcome {
  std::string error;    // empty: it was read
  uint64_t digest = 0;  // of the result
  bool operator==(const outcome&) const = default;
};

std::string_view tried;  // the input of now

[[noreturn]] void fault(const char* what, std::string_view more = {}) {
  std::fprintf(stderr, "reader_fuzz: %s %.*s\n", what, static_cast<int>(more.size()), more.data());
  std::abort();
}

void expect(bool right, const char* what) {
  if (!right) fault(what);
}

uint64_t digest_of(const edge_list& list) {
  uint64_t sum = mix(list.vertices) ^ list.total_edges;
  for (const edge& e : list.edges) sum = mix(mix(sum ^ e.source) ^ e.target);
  for (const double weight : list.weights) sum = mix(sum ^ std::bit_cast<uint64_t>(weight));
  for (const uint64_t id : list.ids.listed) sum = mix(sum ^ id);
  return sum;
}

read_options options_of(const setting& s) {
  static constexpr graph_format formats[] = {graph_format::automatic, graph_format::automatic, graph_format::metis,
                                             graph_format::galois};
  return {
      .names = {}, .weights = s.weights, .real_weights = s.real_weights, .format = formats[static_cast<size_t>(s.of)]};
}

uint64_t read_graph_of(byte_source& source, const setting& s) {
  const edge_list list = read_graph(source, {.undirected = s.undirected, .reversed = s.reversed}, options_of(s));
  expect(list.vertices > 0, "a graph without vertices");
  expect(list.total_edges == list.edges.size(), "edges are missing");
  expect(list.weights.size() == (s.weights ? list.edges.size() : 0), "as many weights as edges");
  for (const edge& e : list.edges)
    expect(e.source < list.vertices && e.target < list.vertices, "an edge leads out of the graph");
  for (const double weight : list.weights)
    expect(weight >= 0 && weight <= largest_weight && !std::signbit(weight), "a weight that is none");
  const std::vector<uint64_t>& ids = list.ids.listed;
  expect(ids.empty() || ids.size() == list.vertices, "as many ids as vertices");
  for (size_t i = 1; i < ids.size(); ++i) expect(ids[i - 1] < ids[i], "ids ascend");
  for (const uint64_t v : {uint64_t{0}, list.vertices / 2, list.vertices - 1})
    expect(list.ids.find(list.ids.of(v), list.vertices) == v, "the id of a vertex leads to it");
  return digest_of(list);
}

/// All parts together are the whole.
void check_parts(std::string_view bytes, const setting& s) {
  const auto read = [&](int part, int parts) {
    byte_source source("fuzz", bytes);
    return read_graph(source, {.part = part, .parts = parts, .undirected = s.undirected, .reversed = s.reversed},
                      options_of(s));
  };
  std::vector<edge> whole = read(0, 1).edges, together;
  for (int part = 0; part < 3; ++part) {
    const edge_list share = read(part, 3);
    expect(share.total_edges == whole.size(), "the edges of all parts");
    together.insert(together.end(), share.edges.begin(), share.edges.end());
  }
  std::sort(whole.begin(), whole.end());
  std::sort(together.begin(), together.end());
  expect(whole == together, "the parts together are the whole");
}

uint64_t read_reads_of(byte_source& source) {
  const read_set set = read_reads(source);
  expect(set.reads > 0, "a file without reads");
  expect(set.codes.front() == no_base && set.codes.back() == no_base, "pieces of reads have ends");
  expect(set.bases == static_cast<uint64_t>(
                          std::count_if(set.codes.begin(), set.codes.end(), [](uint8_t code) { return code < 4; })),
         "bases are counted");
  uint64_t sum = mix(set.reads) ^ set.unknown;
  for (const uint8_t code : set.codes) sum = mix(sum ^ code);
  source.rewind();
  uint64_t bases = 0;
  const std::vector<std::string> sequences = read_sequences(source);
  for (const std::string& sequence : sequences)
    bases += static_cast<uint64_t>(
        std::count_if(sequence.begin(), sequence.end(), [](char letter) { return letter != 'N'; }));
  expect(sequences.size() == set.reads && bases == set.bases, "sequences are the reads");
  return sum;
}

/// Finds a tensor in a header, in front of data of 48 bytes.
uint64_t read_header(std::string_view header) {
  constexpr uint64_t data_at = 8, data_bytes = 48;
  const tensor_place t = find_tensor("fuzz", header, data_at, data_bytes, "rows");
  expect(t.begin >= data_at && t.bytes <= data_bytes && t.begin - data_at <= data_bytes - t.bytes,
         "a tensor beyond the data");
  uint64_t sum = mix(t.begin) ^ t.bytes;
  for (const uint64_t extent : t.shape) {
    expect(t.bytes == 0 || (extent && extent <= t.bytes), "a shape that is larger than its tensor");
    sum = mix(sum ^ extent);
  }
  return sum;
}

outcome read(std::string_view bytes, size_t unpacked, const setting& s) {
  static guarded_pages pages(256 << 10);
  const auto placed = pages.bytes_at_end(std::as_bytes(std::span(bytes)));
  allocated = 0;
  outcome result;
  try {
    const std::string_view text(reinterpret_cast<const char*>(placed.data()), placed.size());
    if (s.of == kind::safetensors) {
      result.digest = read_header(text);
    } else {
      byte_source source("fuzz", text);
      result.digest = s.of < kind::fastq ? read_graph_of(source, s) : read_reads_of(source);
    }
  } catch (const error& e) {
    result.error = e.what();
    if (!result.error.starts_with("fuzz")) fault("an error without the file's name:", result.error);
  }
  expect(allocated <= (1 << 20) + 1000 * (bytes.size() + unpacked), "much memory for a small file");
  return result;
}

/// A small file that inputs are made of.
struct sample {
  kind of;
  bool with_weights, without;  // can it be read so?
  std::string text;
};

const std::vector<sample>& samples() {
  const auto galois = [](uint64_t version, bool weights) {
    std::string text;
    for (const uint64_t word :
         {version, uint64_t{weights ? 4u : 0u}, uint64_t{3}, uint64_t{4}, uint64_t{2}, uint64_t{2}, uint64_t{4}})
      append_little_endian(text, word, 8);
    for (const uint64_t target : {2, 1, 0, 2}) append_little_endian(text, target, version == 1 ? 4 : 8);
    for (unsigned e = 0; weights && e < 4; ++e) append_little_endian(text, 7 * e, 4);
    return text;
  };
  static const std::vector<sample> all = {
      {kind::snap, false, true, "# comment\n1\t2\n2 3\n3 1\n7 7\n1 2\n"},
      {kind::snap, true, false, "10 20 0.5\n20 18446744073709551615 1e3\n  # c\n3 3 16777216\r\n"},
      {kind::matrix_market, false, true,
       "%%MatrixMarket matrix coordinate pattern general\n% c\n4 4 3\n1 2\n2 3\n4 4\n"},
      {kind::matrix_market, true, true,
       "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 0.5\n2 1 1.0D+05\n3 2 1e-400\n"},
      {kind::matrix_market, true, true,
       "%%MatrixMarket matrix coordinate integer general\n1000000000 1000000000 2\n1 1000000000 7\n5 6 0\n"},
      {kind::metis, false, true, "4 3\n2 3\n1\n1 4\n3\n"},
      {kind::metis, true, true, "% c\n3 2 111 2\n9 7 7 2 5\n9 7 7 1 5 3 6\n9 7 7 2 6\n"},
      {kind::galois, false, true, galois(1, false)},
      {kind::galois, true, true, galois(1, true)},
      {kind::galois, true, true, galois(2, true)},
      {kind::fastq, false, true, "@a\nACGT\n+\nIIII\n@b\n\n+\n\n@c x\nNNAC\n+c\n@@@@\n"},
      {kind::fasta, false, true, ">a\nACGT\nAC-T\n>b\n>c\nuuN*\n"},
      {kind::safetensors, false, true,
       R"({"__metadata__":{"a":"b"},"rows":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},)"
       R"("more":{"dtype":"I8","shape":[24],"data_offsets":[24,48]}})"},
      {kind::safetensors, false, true, R"({"rows": {"data_offsets": [0, 48], "shape": [2, 1, 12], "dtype": "BF16"}})"},
  };
  return all;
}

/// Changes a text word by word, as the readers parse it.
void mutate_words(std::string& text, random_bits& draw) {
  static constexpr std::string_view words[] = {"\n",
                                               "\r\n",
                                               " ",
                                               "\t",
                                               "%",
                                               "#",
                                               ">",
                                               "@",
                                               "+",
                                               "-",
                                               "0",
                                               "1",
                                               "-1",
                                               "2",
                                               "3",
                                               "16777217",
                                               "1e39",
                                               "1e-400",
                                               "nan",
                                               "inf",
                                               "1.5D3",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "9223372036854775809",
                                               "1000000000000",
                                               "%%MatrixMarket",
                                               "symmetric",
                                               "general",
                                               "real",
                                               "pattern",
                                               "ACGT",
                                               "\xef\xbb\xbf",
                                               "\x1f\x8b",
                                               "011",
                                               "111",
                                               "\"rows\":",
                                               "[",
                                               "]",
                                               "{",
                                               "}",
                                               ",",
                                               "24",
                                               "48"};
  for (uint32_t i = 1 + draw.below(3); i > 0; --i) {
    const size_t at = draw.below(static_cast<uint32_t>(text.size()) + 1);
    const size_t line = text.rfind('\n', at) + 1, after = std::min(text.find('\n', at), text.size() - 1) + 1;
    switch (draw.below(4)) {
      case 0: text.insert(at, words[draw.below(std::size(words))]); break;
      case 1: text.replace(at, 1 + draw.below(4), words[draw.below(std::size(words))]); break;
      case 2:
        if (line < after) text.erase(line, after - line);
        break;
      default:
        if (line < after) text.insert(line, text.substr(line, after - line));
    }
    if (text.empty()) return;
  }
}

/// A gzip form of a text, and where its members begin, and where they end: in the form, and in the text.
struct packed_text {
  std::string bytes;
  std::vector<size_t> begins;
  std::vector<std::pair<size_t, size_t>> ends;
};

std::string deflated(std::string_view text) {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) != Z_OK) fault("deflateInit2");
  std::string member(deflateBound(&z, text.size()), '\0');
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(member.data());
  z.avail_out = static_cast<uInt>(member.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) fault("deflate");
  member.resize(z.total_out);
  deflateEnd(&z);
  return member;
}

packed_text pack(std::string_view text, random_bits& draw) {
  packed_text packed;
  for (size_t at = 0; at < text.size() || packed.ends.empty();) {
    const size_t size = draw.below(3) ? text.size() - at : draw.below(static_cast<uint32_t>(text.size() - at) + 1);
    const std::string_view part = text.substr(at, size);
    packed.begins.push_back(packed.bytes.size());
    if (draw.below(16) == 0) packed.bytes += deflated(part);
    else packed.bytes += gzip_member(part, draw.below(4) ? "" : "BC\2");
    at += size;
    packed.ends.emplace_back(packed.bytes.size(), at);
    if (draw.below(8) == 0) packed.bytes.append(draw.below(20), '\0');
  }
  return packed;
}

/// A gzip form says the same; a damaged or a shortened one the same or an error.
void check_packed(std::string_view text, const outcome& plain, const setting& s, random_bits& draw) {
  packed_text packed = pack(text, draw);
  if (!(read(packed.bytes, text.size(), s) == plain)) fault("a gzip form is read otherwise; plain:", plain.error);
  std::string cut = packed.bytes.substr(0, draw.below(static_cast<uint32_t>(packed.bytes.size())));
  const outcome of_cut = read(cut, text.size(), s);
  if (of_cut.error.empty()) {
    // Right if it was cut after a member: then the rest is a whole file.
    const auto after = std::find_if(packed.ends.rbegin(), packed.ends.rend(),
                                    [&](const auto& end) { return end.first <= cut.size(); });
    expect(after != packed.ends.rend(), "a member that is cut off was read");
    expect(cut.find_first_not_of('\0', after->first) == cut.npos, "a member that is cut off was not missed");
    expect(of_cut == read(std::string(text.substr(0, after->second)), 0, s), "members in front of the cut");
  }
  const size_t at = draw.below(static_cast<uint32_t>(packed.bytes.size()));
  // Nothing checks the header beyond its magic bytes, and its flags and lengths may lead past whole members.
  for (const size_t begin : packed.begins)
    if (at >= begin + 3 && at < begin + 12) return;
  packed.bytes[at] ^= static_cast<char>(1u << draw.below(8));
  const outcome of_damaged = read(packed.bytes, text.size(), s);
  expect(!of_damaged.error.empty() || of_damaged == plain, "damaged gzip data were read as something else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const uint8_t choice = data[0];
  const setting s{static_cast<kind>(choice % kinds), (choice & 8) != 0, (choice & 16) != 0, (choice & 32) != 0,
                  (choice & 64) != 0};
  read({reinterpret_cast<const char*>(data) + 1, bytes - 1}, 1000 * bytes, s);
  return 0;
}

#ifndef GRAVEL_LIBFUZZER
namespace {

void say_input(int signal) {
  std::fprintf(stderr, "reader_fuzz: the input, in hexadecimal numbers:\n");
  for (const char c : tried) std::fprintf(stderr, "%02x", static_cast<unsigned char>(c));
  std::fprintf(stderr, "\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct counts {
  uint64_t as_made[2] = {}, changed[2] = {};  // [0]: refused, [1]: read
};

void try_input(random_bits& draw, counts* all) {
  const sample& from = samples()[draw.below(static_cast<uint32_t>(samples().size()))];
  std::string text = from.text;
  const uint32_t how = draw.below(50);
  const bool as_made = how == 0;
  if (how == 1) {  // random bytes
    text.resize(draw.below(300));
    for (char& c : text) c = static_cast<char>(draw());
  } else if (how > 1 && how < 4) {  // the front of one, the back of another
    const std::string& other = samples()[draw.below(static_cast<uint32_t>(samples().size()))].text;
    text = text.substr(0, draw.below(static_cast<uint32_t>(text.size()))) +
           other.substr(draw.below(static_cast<uint32_t>(other.size())));
  } else if (how >= 4 && how < 25) {
    mutate_words(text, draw);
  } else if (how >= 25) {
    std::vector<uint8_t> bytes(text.begin(), text.end());
    mutate(bytes, draw);
    text.assign(bytes.begin(), bytes.end());
  }
  const bool weights = from.with_weights && (!from.without || draw.below(2) == 0);
  const setting s{from.of, weights, draw.below(2) == 0, draw.below(2) == 0, draw.below(2) == 0};
  tried = text;
  const outcome plain = read(text, 1000 * text.size(), s);
  counts& count = all[static_cast<size_t>(from.of)];
  ++(as_made ? count.as_made : count.changed)[plain.error.empty()];
  if (plain.error.empty() && s.of < kind::fastq && draw.below(8) == 0) check_parts(text, s);
  if (!text.starts_with("\x1f\x8b") && s.of != kind::safetensors) check_packed(text, plain, s, draw);
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz_options options = fuzz_options::parse(argc, argv);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, say_input);
  random_bits draw(options.seed);
  counts all[kinds];
  for (uint64_t i = 0; i < options.inputs; ++i) {
    try_input(draw, all);
    if ((i + 1) % 1'000'000 == 0) std::fprintf(stderr, "%" PRIu64 " of %" PRIu64 " inputs\n", i + 1, options.inputs);
  }
  bool good = true;
  std::printf("read as made, refused as made; read changed, refused changed:\n");
  for (size_t k = 0; k < kinds; ++k) {
    const counts& c = all[k];
    std::printf("%8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %s\n", c.as_made[1], c.as_made[0], c.changed[1],
                c.changed[0], kind_names[k]);
    good = good && c.as_made[0] == 0 && c.as_made[1] > 0 && c.changed[0] > 0 && c.changed[1] > 0;
  }
  if (!good) std::printf("a file was refused as it was made, or of some format all or none that was changed\n");
  options.print_done();
  return good ? 0 : 1;
}
#endif
