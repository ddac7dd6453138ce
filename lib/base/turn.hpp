// Who may look: of all lanes that wait for the same words in host memory one reads them, for all.
#pragma once
#include <time.h>

#include <cstdint>

#include "lib/base/atomic.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

#if GRAVEL_CUDA
__device__ __forceinline__ uint64_t globaltimer_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// True if it is the caller's turn to look. The next turn comes `ns` later, or when pass_turn() says so. By the clock
/// and not by a lock, so that nothing depends on the lane that has its turn. `next_turn`: the time from which on a lane
/// may look, in device memory. Thread scope: lane.
GRAVEL_DEVICE bool take_turn(uint64_t* next_turn, uint64_t ns) {
  const uint64_t begin = load_relaxed<scope::device>(next_turn), now = globaltimer_ns();
  return static_cast<int64_t>(now - begin) >= 0 && compare_swap_acquire<scope::device>(next_turn, begin, now + ns);
}
GRAVEL_DEVICE void pass_turn(uint64_t* next_turn, uint64_t pause_ns) {
  store_relaxed<scope::device>(next_turn, globaltimer_ns() + pause_ns);
}
#else
inline uint64_t globaltimer_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
#endif

/// Calls `look` if it is the caller's turn, and returns what it returns; otherwise false. On a GPU one lane looks at a
/// time (for 20 us at most), and a pause lies between two: thousands of lanes that read over PCIe would keep the
/// packets' data from passing, and each would wait longer than the last (measured: a twentieth of the rate). On the
/// host it is always one's turn.
template <class F>
GRAVEL_BOTH bool in_turn(uint64_t* next_turn, uint64_t pause_ns, F look) {
#if GRAVEL_ON_GPU
  constexpr uint64_t longest_ns = 20'000;
  if (!take_turn(next_turn, longest_ns)) return false;
  const bool found = look();
  pass_turn(next_turn, pause_ns);
  return found;
#else
  (void)next_turn, (void)pause_ns;
  return look();
#endif
}

}  // namespace gravel::detail
