// Turns to poll: of all lanes that wait for the same words in host memory, one at a time reads them, for all.
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

/// Takes the turn to poll, if it is the caller's. The next turn comes `ns` later, or at the time that pass_turn() sets.
/// A turn depends on the clock and not on a lock, so no lane depends on the lane that has the turn. `next_turn`: the
/// time from which on a lane may poll, in device memory. Thread scope: lane.
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

/// Calls `poll` if it is the caller's turn, and returns its result; otherwise returns false.
///
/// On a GPU one lane polls at a time (for 20 us at most), with a pause before the next. If thousands of lanes read over
/// PCIe, they delay the packets' data and each other (measured: a twentieth of the rate). On the host it is always the
/// caller's turn.
template <class F>
GRAVEL_BOTH bool in_turn([[maybe_unused]] uint64_t* next_turn, [[maybe_unused]] uint64_t pause_ns, F poll) {
#if GRAVEL_ON_GPU
  constexpr uint64_t longest_ns = 20'000;
  if (!take_turn(next_turn, longest_ns)) return false;
  const bool found = poll();
  pass_turn(next_turn, pause_ns);
  return found;
#else
  return poll();
#endif
}

}  // namespace gravel::detail
