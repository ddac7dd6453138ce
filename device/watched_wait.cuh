// Watched wait: the one way to wait for a party that may never come. It is a `relax` that reports a long wait
// (lib/base/wait_report.hpp).
#pragma once
#include <functional>
#include <string>

#include "device/handle.cuh"
#include "device/simt.hpp"
#include "device/value.cuh"
#include "lib/base/relax.hpp"
#include "lib/base/wait_report.hpp"

namespace gravel::detail {

/// State of a wait of a host thread.
struct host_wait {
  uint64_t since_ns = 0;  ///< 0: the wait was not checked yet
  report_times times;
};
/// Reports on stderr that a host thread waits: when GRAVEL_WATCHDOG_S has passed, then each time that the wait has
/// become twice as long (host/pe/gravel.cpp). `describe`: says what the thread waits for.
void note_host_wait(host_wait&, const std::function<std::string()>& describe);
void note_host_wait(host_wait&, const wait_subject&);

#if GRAVEL_ON_GPU
/// Not inlined: there are many waits, and this is seldom called.
__device__ GRAVEL_NOINLINE inline uint32_t note_lane_wait_here(lane_waits* waits, uint32_t since,
                                                               wait_subject subject) {
  return note_lane_wait(*waits, globaltimer_ns(), since, subject,
                        {{blockIdx.x, blockIdx.y, blockIdx.z}, {threadIdx.x, threadIdx.y, threadIdx.z}});
}
#endif

/// One wait, of a lane or of a host thread.
class watched_wait {
 public:
  /// To be called once a round. `subject()`: returns the wait_subject; it is called now and then. Thread scope: lane,
  /// or a host thread.
  template <class Subject>
  GRAVEL_BOTH void attentively(const gravel_t& g, const Subject& subject) {
    relax_.attentively();
    if (relax_.is_long()) [[unlikely]]
      note(g, subject());
  }
  /// As attentively(), for an event that running parties cause within a few microseconds: on the GPU the lane does not
  /// sleep at first.
  template <class Subject>
  GRAVEL_BOTH void closely(const gravel_t& g, const Subject& subject) {
    relax_.closely();
    if (relax_.is_long()) [[unlikely]]
      note(g, subject());
  }
  /// For a loop that does other things besides waiting: in this round it waits for the subject only if `waits`.
  template <class Subject>
  GRAVEL_BOTH void attentively(const gravel_t& g, bool waits, const Subject& subject) {
    relax_.attentively();
    if (!relax_.is_long()) return;
    if (waits) note(g, subject());
    else since_ = 0;
  }
  /// For a host thread that describes in words what it waits for: `describe()`.
  template <class Describe>
  void attentively(const Describe& describe) {
    relax_.attentively();
    if (relax_.is_long()) note_host_wait(host_, describe);
  }
  /// As attentively(), for a host thread whose polls are expensive: it soon sleeps, and longer each time.
  template <class Describe>
  void patiently(const Describe& describe) {
    relax_();
    if (relax_.is_long()) note_host_wait(host_, describe);
  }
  /// To be called by a lane whose wait made progress: it begins to wait anew.
  GRAVEL_BOTH void reset() {
    relax_.reset();
    since_ = 0;
  }

 private:
  GRAVEL_BOTH void note(const gravel_t& g, const wait_subject& subject) {
#if GRAVEL_ON_GPU
    since_ = note_lane_wait_here(g.waits, since_, subject);
#else
    if (g.from == sender::host) return note_host_wait(host_, subject);
#if !GRAVEL_CUDA
    if (!g.waits) return;  // a handle that was made by hand
    lane_place at{};
    if (simt::in_kernel()) at = {{blockIdx.x, blockIdx.y, blockIdx.z}, {threadIdx.x, threadIdx.y, threadIdx.z}};
    since_ = note_lane_wait(*g.waits, globaltimer_ns(), since_, subject, at);
#endif
#endif
  }

  relax relax_;
  uint32_t since_ = 0;  ///< start of a lane's wait
  host_wait host_;
};

/// Returns the word of a wait as a subject. Thread scope: lane, or a host thread.
template <class T>
GRAVEL_BOTH wait_subject subject_of_word(const gravel_t& g, awaited what, const T* word, comparison compare, T wanted,
                                         T found) {
  wait_subject s{what, compare};
  const auto offset = static_cast<uint64_t>(reinterpret_cast<const char*>(word) - g.heap);
  if (offset < g.heap_bytes) s.offset = offset;
  s.type = static_cast<uint8_t>(value_type_of<T>());
  s.wanted = to_word(wanted);
  s.found = to_word(found);
  return s;
}

}  // namespace gravel::detail
