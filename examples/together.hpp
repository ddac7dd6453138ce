// Calls that all PEs of an example make together, between gravel_init and gravel_finalize.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "examples/program.hpp"
#include "gravel.cuh"

namespace gravel {

/// Runs `work`, which makes no collective calls itself, on every PE. Where it throws on any PE, the first
/// such PE says why and the whole job leaves with status 1: an error that all PEs meet (a damaged file) is so
/// told once.
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

/// Leaves the job and gives the status for main. `right`: the same on all PEs.
inline int finish(const char* program, bool right) {
  std::fflush(stdout);
  if (!right && gravel_my_pe() == 0) std::fprintf(stderr, "%s: the result is WRONG\n", program);
  gravel_finalize();
  return right ? 0 : exit_wrong_result;
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
  return 5 * static_cast<unsigned>(processors);  // measured: fewer leave bandwidth unused, more do not fit
#else
  const unsigned cores = std::thread::hardware_concurrency();
  return cores ? cores : 1;
#endif
}

}  // namespace gravel
