// check_packet against arbitrary bytes. With libFuzzer: link with -fsanitize=fuzzer, which brings a main of its own.
// Elsewhere this program feeds mutations of valid packets to the same function, from a seed, and fails if packets as
// they were made are refused, or if rows of some form were never let through, whole or changed.
//
// The bytes lie right before a page that may not be read, so any access past the end ends the program.
#include "lib/base/packet.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "test/fuzz/fuzz_options.hpp"
#include "test/support/packet_samples.hpp"

namespace {

/// Checks `bytes`, of which the last 4 choose what is expected and the rest is the packet. Calls f(row) for each row of
/// one that is fine.
template <class F>
gravel::detail::packet_fault check(const uint8_t* data, size_t bytes, F f) {
  static gravel::detail::guarded_pages pages(64 * 1024);
  if (bytes < 4 || bytes - 4 > pages.bytes()) return gravel::detail::packet_fault::bad_total;
  const uint8_t* choice = data + bytes - 4;
  const gravel::detail::packet_expectation expect{choice[0] & 1 ? 4096u : 65536u, choice[1],
                                                  choice[2] & 1 ? gravel::detail::transit_sink : choice[2] / 2u,
                                                  choice[3] + 1u};
  const gravel::detail::packet_header* p = pages.at_end(data, bytes - 4);
  const gravel::detail::packet_fault fault = gravel::detail::check_and_walk(p, bytes - 4, expect);
  for (uint32_t r = 0; fault == gravel::detail::packet_fault::fine && r < p->n_rows; ++r)
    f(gravel::detail::rows_of(p)[r]);
  return fault;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  check(data, bytes, [](const gravel::detail::message_row&) {});
  return 0;
}

#ifndef GRAVEL_LIBFUZZER
namespace {

/// The forms of rows: what differs in how they are read.
constexpr const char* forms[] = {"increments", "updates of 2 words", "updates of 3 words", "active messages",
                                 "wide",       "large and bulk"};
size_t form_of(const gravel::detail::row_kind& kind) {
  if (kind.is_wide()) return kind.units() <= gravel::detail::max_small_units ? 4 : 5;
  return kind.operation == gravel::detail::op::am ? 3 : kind.words - 1u;
}

}  // namespace

int main(int argc, char** argv) {
  const fuzz_options options = fuzz_options::parse(argc, argv);
  gravel::detail::random_bits draw(options.seed);
  const uint8_t tail[4] = {0, 5, 6, 7};
  uint64_t rows[2][std::size(forms)] = {}, refused[2] = {};  // [0]: of packets as they were made, [1]: of changed ones
  for (uint64_t i = 0; i < options.inputs; ++i) {
    std::vector<uint8_t> bytes = gravel::detail::sample_packet(draw, 4096, 5, 3, 8);
    const bool changed = i % 100 != 0;
    if (changed) gravel::detail::mutate(bytes, draw);
    bytes.insert(bytes.end(), tail, tail + 4);
    if (i % 4 == 3) bytes[bytes.size() - 1 - draw.below(4)] = static_cast<uint8_t>(draw());
    refused[changed] += check(bytes.data(), bytes.size(), [&](const gravel::detail::message_row& row) {
                          ++rows[changed][form_of(row.kind)];
                        }) != gravel::detail::packet_fault::fine;
  }
  bool good = refused[0] == 0 && refused[1] != 0;
  std::printf("of packets as they were made %llu were refused, of changed ones %llu; rows of the others:\n",
              static_cast<unsigned long long>(refused[0]), static_cast<unsigned long long>(refused[1]));
  for (size_t f = 0; f < std::size(forms); ++f) {
    good = good && rows[0][f] != 0 && rows[1][f] != 0;
    std::printf("%8llu %8llu  %s\n", static_cast<unsigned long long>(rows[0][f]),
                static_cast<unsigned long long>(rows[1][f]), forms[f]);
  }
  if (!good) std::printf("a packet was refused as it was made, none that was changed, or a form never came through\n");
  options.print_done();
  return good ? 0 : 1;
}
#endif
