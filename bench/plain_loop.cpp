// The yardstick of GUPS on the CPU backend: one core makes random increments in a plain loop, no atomics, no messages.
// Prints JSON. Usage: plain_loop LOG2_WORDS UPDATES
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  const int log2_words = argc > 1 ? std::atoi(argv[1]) : 24;
  const uint64_t updates = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 40'000'000;
  if (log2_words < 1 || log2_words > 40 || updates == 0) {
    std::fprintf(stderr, "usage: plain_loop LOG2_WORDS UPDATES\n");
    return 2;
  }
  std::vector<uint64_t> table(1ull << log2_words);
  const uint64_t mask = table.size() - 1;
  uint64_t ran = 1;
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < updates; ++i) {
      ran = ran << 1 ^ (static_cast<int64_t>(ran) < 0 ? 7 : 0);  // HPCC's random numbers, as gups uses them
      ++table[(ran * 0x9e3779b97f4a7c15ull >> 20) & mask];
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, static_cast<double>(updates) / seconds);
  }
  uint64_t sum = 0;
  for (uint64_t value : table) sum += value;
  if (sum != 3 * updates) return 1;
  std::printf("{\"benchmark\": \"plain_loop\", \"words\": %llu, \"updates\": %llu, \"updates_per_second\": %.0f}\n",
              static_cast<unsigned long long>(table.size()), static_cast<unsigned long long>(updates), best);
}
