// The yardstick of GUPS on the CPU backend: one core makes random increments in a plain loop, no atomics, no
// messages.
#include <vector>

#include "bench/bench.hpp"
#include "lib/base/error.hpp"

using namespace gravel_bench;
using namespace gravel::detail;

int main(int argc, char** argv) {
  install_terminate_handler();
  bench b("plain_loop", "Random increments in a plain loop on one core: what GUPS on the CPU backend is compared with.",
          {{"words_log2", "log2(words)"}, {"updates", "updates"}, {"million_updates_per_s", "M updates/s"}});
  uint32_t words_log2 = 24;
  uint64_t updates = 40'000'000;
  b.app.add_option("--words-log2", words_log2, "words of the table").range(1, 40).capture_default_str();
  b.app.add_option("--updates", updates, "updates of a run")
      .range(uint64_t{1000}, uint64_t{1} << 40)
      .capture_default_str();
  b.parse(argc, argv);

  std::vector<uint64_t> table(1ull << words_log2);
  const uint64_t mask = table.size() - 1;
  uint64_t ran = 1;
  const double seconds = b.median_of([&] {
    const double begin = seconds_now();
    for (uint64_t i = 0; i < updates; ++i) {
      ran = ran << 1 ^ (static_cast<int64_t>(ran) < 0 ? 7 : 0);  // HPCC's random numbers, as gups uses them
      ++table[(ran * 0x9e3779b97f4a7c15ull >> 20) & mask];
    }
    return seconds_now() - begin;
  });
  uint64_t sum = 0;
  for (uint64_t value : table) sum += value;
  if (sum != b.repeat * updates) fail("the table sums up to {} after {} increments", sum, b.repeat * updates);
  b.row({words_log2, updates, static_cast<double>(updates) / seconds / 1e6});
  b.finish();
}
