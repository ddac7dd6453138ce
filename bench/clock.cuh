// A clock that kernels read, on both backends.
#pragma once
#include <gravel/gravel.cuh>

#if !GRAVEL_CUDA
#include <time.h>
#endif

namespace gravel_bench {
using namespace gravel::detail;

/// Nanoseconds since some moment. Thread scope: lane.
GRAVEL_DEVICE uint64_t nanoseconds_now() {
#if GRAVEL_ON_GPU
  return globaltimer_ns();
#elif !GRAVEL_CUDA
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
#else
  return 0;
#endif
}

}  // namespace gravel_bench
