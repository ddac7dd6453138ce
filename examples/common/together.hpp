// Calls that all PEs of an example make together, between gravel_init and gravel_finalize.
#pragma once
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#include "examples/common/facts.hpp"
#include "examples/common/program.hpp"

namespace app {

/// Runs `work`, which makes no collective calls itself, on every PE. Where it throws on any PE, the first
/// such PE says why and the whole job leaves with status 1: an error of all PEs (a damaged file) is so
/// reported once.
template <class Work>
void all_succeed(const char* program, Work&& work) {
  std::string why;
  bool failed = false;
  try {
    work();
  } catch (const std::exception& e) {
    failed = true;
    why = e.what();
  }
  const auto me = static_cast<uint64_t>(gravel_my_pe());
  const uint64_t first = gravel_min_all(failed ? me : ~uint64_t{0});
  if (first == ~uint64_t{0}) return;
  if (first == me) std::fprintf(stderr, "%s: PE %d: %s\n", program, gravel_my_pe(), why.c_str());
  gravel_finalize();
  std::exit(exit_wrong_result);
}

/// Writes PREFIX-WHAT.csv: the rows of all PEs, in their order, and in front the PE that each comes from. Nothing if
/// `prefix` is empty. All rows pass through every PE's memory, 8 bytes a number. Collective.
inline void dump_columns(const char* program, const std::string& prefix, const std::string& what,
                         const std::vector<column>& mine) {
  if (prefix.empty()) return;
  const auto n_pes = static_cast<size_t>(gravel_n_pes());
  std::vector<uint64_t> rows(n_pes);
  gravel_allgather(rows.data(),
                   static_cast<uint64_t>(std::max(mine.front().values.size(), mine.front().numbers.size())));
  const uint64_t most = *std::max_element(rows.begin(), rows.end());
  const auto gather = [&](const auto& here, auto& all) {
    auto padded = here, table = here;
    padded.resize(most);
    table.resize(most * n_pes);
    if (most) gravel_allgather(table.data(), padded.data(), most);
    for (size_t pe = 0; pe < n_pes; ++pe) {
      const auto from = table.begin() + static_cast<std::ptrdiff_t>(pe * most);
      all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(rows[pe]));
    }
  };
  std::vector<column> all{{"pe", {}}};
  for (size_t pe = 0; pe < n_pes; ++pe) all[0].values.insert(all[0].values.end(), rows[pe], static_cast<double>(pe));
  for (const column& c : mine) {
    all.push_back({c.name, {}});
    // The same at all PEs, also at those that have no rows.
    if (gravel_max_all(uint64_t{!c.numbers.empty()}) != 0) gather(c.numbers, all.back().numbers);
    else gather(c.values, all.back().values);
  }
  all_succeed(program, [&] {
    if (gravel_my_pe() == 0) write_columns(prefix + '-' + what + ".csv", all);
  });
}

/// Leaves the job and gives the status for main. `right`: the same on all PEs.
inline int finish(const char* program, bool right) {
  std::fflush(stdout);
  if (!right && gravel_my_pe() == 0) std::fprintf(stderr, "%s: the result is WRONG\n", program);
  gravel_finalize();
  return right ? 0 : exit_wrong_result;
}

/// Threads of the host that a PE may use while it makes its input: its share of the hardware threads that it may run
/// on. PEs of emulated nodes are taken for those of different machines.
inline int host_threads_of_pe() {
  cpu_set_t allowed;
  const int threads = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  int here = 0;
  for (int pe = 0; pe < gravel_n_pes(); ++pe) here += gravel_node_of(pe) == gravel_node_of(gravel_my_pe());
  return std::max(1, threads / here);
}

/// Lanes of a thread block that gathers messages. On the CPU backend lanes take turns on one core, so more of
/// them do not run faster, but have to be passed by one that waits for room.
constexpr unsigned lanes_of_block = GRAVEL_CUDA ? 128 : 32;

/// Thread blocks that fill the device when each loops over many messages.
inline unsigned blocks_to_fill_device() {
#if GRAVEL_CUDA
  int device = 0, processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 1;
  return 5 * static_cast<unsigned>(processors);
#else
  const unsigned cores = std::thread::hardware_concurrency();
  return cores ? cores : 1;
#endif
}

/// Where each has a multiprocessor for itself, beside so many of a service.
inline unsigned blocks_beside(unsigned service_blocks) {
#if GRAVEL_CUDA
  const unsigned processors = blocks_to_fill_device() / 5;
  return processors > service_blocks ? processors - service_blocks : 1;
#else
  (void)service_blocks;
  return blocks_to_fill_device();
#endif
}

/// The same where they handle `items` messages together. Of many there are several times as many blocks as fit: how
/// many fit is what the resolver leaves, and of few long ones the last would have the device for themselves (measured
/// on two H200s, 10^9 uniform increments each: 12.2, 13.2, 13.6, 13.8 G/s with 5, 10, 20, 40 blocks per
/// multiprocessor).
inline unsigned blocks_for(uint64_t items) {
  const unsigned least = blocks_to_fill_device();
  return GRAVEL_CUDA ? static_cast<unsigned>(std::clamp<uint64_t>(items / (128 * lanes_of_block), least, 8 * least))
                     : least;
}

}  // namespace app
