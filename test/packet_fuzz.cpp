// check_packet against arbitrary bytes. With libFuzzer: link with -fsanitize=fuzzer, which brings a main of its own.
// Elsewhere this program feeds mutations of valid packets to the same function, from a fixed seed.
//
// The bytes lie right before a page that may not be read, so any access past the end ends the program.
#include "lib/base/packet.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "test/packet_samples.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static gravel::guarded_pages pages(64 * 1024);
  // The last 4 bytes choose what is expected; the rest is the packet.
  if (bytes < 4 || bytes - 4 > pages.bytes()) return 0;
  const uint8_t* choice = data + bytes - 4;
  const gravel::packet_expectation expect{choice[0] & 1 ? 4096u : 65536u, choice[1], choice[2] & 1 ? gravel::transit_sink : choice[2] / 2u,
                                          choice[3] + 1u};
  gravel::check_and_walk(pages.at_end(data, bytes - 4), bytes - 4, expect);
  return 0;
}

#ifndef GRAVEL_LIBFUZZER
int main() {
  gravel::random_bits draw(20261121);
  const uint8_t tail[4] = {0, 5, 6, 7};
  uint64_t fine = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::vector<uint8_t> bytes = gravel::sample_packet(draw, 4096, 5, 3, 8);
    if (i % 100) gravel::mutate(bytes, draw);
    bytes.insert(bytes.end(), tail, tail + 4);
    if (i % 4 == 3) bytes[bytes.size() - 1 - draw.below(4)] = static_cast<uint8_t>(draw());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    fine += i % 100 == 0;
  }
  std::printf("100000 inputs, %llu of them not mutated\n", static_cast<unsigned long long>(fine));
}
#endif
