// Events: a kernel, a stream or the host can wait until something is done.
//
// An event is a word of this PE's symmetric heap and the value that the word reaches. A party may wait for an event
// before the work that raises it has been started. Source: Groute, section 4.1 (event pool, event futures).
//
// All calls of this file:
// @param g handle that the kernel received
// @param e the event; an event without a word has always happened
// @param stream nullptr: the PE's own stream
// @completion on return: the event has happened
// @errors none; a wait that lasts for GRAVEL_WATCHDOG_S is reported and continues
// @source Groute, section 4.1 (event futures)
#pragma once
#include "device/wait.cuh"
#include "device/watched_wait.cuh"
#include "host/launch_alone.cuh"
#include "lib/base/error.hpp"

/// An event. Plain data: it may be an argument of kernels of this PE.
struct gravel_event {
  uint64_t* word = nullptr;  ///< nullptr: the event has happened
  uint64_t value = 0;
};

namespace gravel::detail {

/// Thread scope: lane.
GRAVEL_DEVICE void raise_event(const gravel_event& e) {
  if (e.word) store_release(e.word, e.value);  // [L6]
}
GRAVEL_DEVICE void await_event(const gravel_t& g, const gravel_event& e) {
  if (!e.word) return;
  uint64_t seen;
  for (watched_wait wait; (seen = load_acquire(e.word)) < e.value;)  // [L6]
    wait.attentively(g, [&] { return subject_of_word(g, awaited::event, e.word, comparison::ge, e.value, seen); });
}
template <int = 0>
__global__ void __launch_bounds__(32) await_event_in_stream(const __grid_constant__ gravel_t g, gravel_event e) {
  await_event(g, e);
}
template <int = 0>
__global__ void __launch_bounds__(32) raise_event_in_stream(gravel_event e) {
  raise_event(e);
}

}  // namespace gravel::detail

/// Waits for an event in a kernel.
/// @scope lane, kernels of gravel_launch
GRAVEL_DEVICE void gravel_wait(const gravel_t& g, const gravel_event& e) {
  if (e.word) gravel_wait_until(g, e.word, GRAVEL_GE, e.value);  // [L6]
}
/// Waits for an event.
/// @scope any host thread
inline void gravel_wait(const gravel_event& e) {
  if (e.word) gravel_wait_until(gravel_host_handle(), e.word, GRAVEL_GE, e.value);  // [L6]
}
/// Returns whether an event has happened. Does not wait.
/// @return true if it has happened
/// @scope any host thread
/// @completion returns at once
inline bool gravel_has_happened(const gravel_event& e) {
  return !e.word || gravel::detail::poll_word(gravel_host_handle(), e.word) >= e.value;
}
/// Makes a stream wait for an event: work that is put into the stream from now on begins after the event.
/// @scope any host thread
/// @completion returns at once
inline void gravel_wait(const gravel_event& e, gravel_stream_t stream) {
  if (e.word)
    gravel_launch(gravel::detail::await_event_in_stream<>, gravel_launch_config{.stream = stream}, gravel_handle(), e);
}

namespace gravel::detail {

/// For the host: as gravel_wait, but the caller describes in words what it waits for: `describe()`.
template <class Describe>
void await_event_as(const gravel_event& e, const Describe& describe) {
  if (!e.word) return;
  const gravel_t g = gravel_host_handle();
  for (watched_wait wait; poll_word(g, e.word) < e.value;) wait.attentively(describe);  // [L6]
}

/// A pool of event words, which are used again and again. Thread scope: one host thread.
class event_pool {
 public:
  static constexpr uint32_t words = 32;
  /// Symmetric memory, zeroed: [words].
  explicit event_pool(uint64_t* memory = nullptr) : memory_(memory) {}

  /// Returns the next event. If its word is in use by an earlier event, waits for that event; `describe()` says in
  /// words what the earlier event is about.
  template <class Describe>
  gravel_event take(const Describe& describe) {
    const uint64_t number = taken_++;
    uint64_t* const word = &memory_[number % words];
    const gravel_event e{word, number / words + 1};
    if (e.value > 1) await_event_as(gravel_event{word, e.value - 1}, describe);
    return e;
  }
  /// Returns whether take() would not wait.
  bool has_room() const { return gravel_has_happened({&memory_[taken_ % words], taken_ / words}); }

 private:
  uint64_t* memory_;
  uint64_t taken_ = 0;
};

}  // namespace gravel::detail
