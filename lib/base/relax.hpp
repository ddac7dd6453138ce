// The one way to wait. A loop that waits for another processor calls a `relax` object once a round. On the GPU it
// sleeps some nanoseconds, more with each round. On the host it pauses, then yields, then sleeps. On a lane of the CPU
// backend it switches to another lane. So an idle process costs next to nothing.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

#if !GRAVEL_ON_GPU
#include <sched.h>
#include <time.h>
#endif

namespace gravel::detail {

/// Set while this thread runs a kernel's lanes: switches to another lane and returns 0. If there is none to run, or all
/// of them only wait, it returns for how many rounds no lane has made progress, at most `rounds`, and the thread waits
/// accordingly. With `rounds` == 0 it notes that the lane has made progress.
#if !GRAVEL_CUDA
using relax_function = uint32_t (*)(uint32_t rounds);
GRAVEL_API extern constinit thread_local relax_function relax_hook;
#endif
#if !GRAVEL_ON_GPU
/// Binary logarithm of the PEs for each processor of this host, 0 to 6. Where many processes share a processor, one
/// that waits yields less often and sleeps longer, so that the others advance. The CPU backend sets it before a PE
/// starts threads.
GRAVEL_API extern constinit uint32_t crowding;
#endif

/// The pause in a loop that waits for another party. The loop calls it once a round. It pauses longer with each round.
/// @scope lane, or a host thread; an object for each wait
/// @completion on return
/// @errors none
/// @source Gravel
class relax {
 public:
  /// On the host: the round from which on it yields the processor, and that from which on it sleeps.
  static constexpr uint32_t yields_from = 32, sleeps_from = 256;

  /// One round.
  GRAVEL_BOTH void operator()() {
    ++rounds_;
#if GRAVEL_ON_GPU
    uint32_t pause_ns = 500;
    if (rounds_ < 8) pause_ns = 20;
    else if (rounds_ < 64) pause_ns = 100;
    __nanosleep(pause_ns);
#else
    uint32_t idle = rounds_;
#if !GRAVEL_CUDA
    if (relax_hook) idle = relax_hook(rounds_);
#endif
    if (idle) wait_on_host(idle);
#endif
  }

  /// Waits for an event that must come soon: on the host it sleeps only after thousands of rounds.
  GRAVEL_BOTH void briefly() {
#if !GRAVEL_ON_GPU
    if (rounds_ == sleeps_from - 1 && brief_ < 20'000u >> crowding) {
      ++brief_;
      --rounds_;
    }
#endif
    (*this)();
  }

  /// Waits for an event that may come any moment, but may also take long: for a second it sleeps 80 us at most. On the
  /// GPU it is for a lane that waits for its own word: for some 100 us it hardly sleeps.
  GRAVEL_BOTH void attentively() {
#if GRAVEL_ON_GPU
    if (rounds_ == 7 && attentive_ < 256) {
      ++attentive_;
      --rounds_;
    }
#else
    if (rounds_ == sleeps_from + 3 * 64 - 1 && attentive_ < 8'000) {
      ++attentive_;
      --rounds_;
    }
#endif
    briefly();
  }

  /// Waits, as one lane of a block, for an event that running parties cause within a few microseconds: on the GPU it
  /// does not sleep at first.
  GRAVEL_BOTH void closely() {
#if GRAVEL_ON_GPU
    if (attentive_ < 64) {
      ++attentive_;
      return;
    }
#endif
    attentively();
  }

  /// True if the wait is long, but only in some rounds: on the host when it sleeps, on the GPU about every half
  /// millisecond.
  GRAVEL_BOTH bool is_long() const {
#if GRAVEL_ON_GPU
    return rounds_ % 1024 == 1023;
#else
    return rounds_ >= sleeps_from && rounds_ % 64 == 63;
#endif
  }

  /// To be called when the wait made progress.
  GRAVEL_BOTH void reset() {
    rounds_ = brief_ = attentive_ = 0;
#if !GRAVEL_ON_GPU && !GRAVEL_CUDA
    if (relax_hook) relax_hook(0);
#endif
  }

 private:
#if !GRAVEL_ON_GPU
  static void wait_on_host(uint32_t rounds) {
    if (rounds < yields_from) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (rounds < sleeps_from) {
      sched_yield();
    } else {
      // 20 us, doubling every 64 rounds up to 10 ms, after two thirds of a second: an idle process wakes up a hundred
      // times a second.
      const unsigned step = (rounds - sleeps_from) / 64 + crowding;
      const timespec pause{0, 20'000l << (step < 9 ? step : 9)};
      nanosleep(&pause, nullptr);
    }
  }
#endif
  uint32_t rounds_ = 0, brief_ = 0, attentive_ = 0;
};

}  // namespace gravel::detail
