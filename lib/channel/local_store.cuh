// The channel in front of a worker: tasks and frames in shared memory, which one warp alone fills and empties. Tasks lie there by level, of
// which a task spawns only into lower ones; so depth-first order bounds what is needed, and what began here ends here: its results never
// leave through device memory. This is the hierarchy that the paper leaves open (section 9): most tasks of a fine recursion never reach L2.
//
// Room. A batch of level l starts only if no lower level is full, that is, has 32 tasks or more, and 32 * l frames of each type are free. So
// each lower level has room for 32 times what a task may spawn, which is 32 places less than there are. Full batches go first, from the
// lowest level up; if one of level l may not start for want of frames, none above it may. The lowest level in which there are tasks always
// may: as the last batch of its level or a higher one found 32 * l frames, of which all are free again that its descendants took, so
// many are free. So nothing here can block.
//
// Only the lanes of one warp touch it, with __syncwarp between batches: no order but that.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device/lane_group.cuh"
#include "lib/base/error.hpp"
#include "lib/channel/columns.hpp"
#include "lib/channel/frames.cuh"
#include "lib/channel/task_types.hpp"

namespace gravel {

/// Tasks of one type: stacks, one for each level.
template <class T, uint32_t LEVELS, uint32_t ROOM>
struct local_tasks {
  uint32_t count[LEVELS];
  uint32_t words[LEVELS][columns<T>::words * ROOM];

  GRAVEL_DEVICE columns<T> at(uint32_t level) { return {words[level], ROOM}; }
};

/// Frames of one continuation: `free` and `ready` are stacks of rows.
template <class C, uint32_t FRAMES>
struct local_frames {
  using stored = typename frames<C>::stored;
  static constexpr uint32_t inputs = frames<C>::inputs;
  uint32_t n_free, n_ready;
  uint32_t missing[FRAMES];
  uint32_t words[columns<C>::words * FRAMES];
  stored input[inputs ? inputs * FRAMES : 1];
  uint16_t free[FRAMES], ready[FRAMES];

  GRAVEL_DEVICE columns<C> arguments() { return {words, FRAMES}; }
  GRAVEL_DEVICE void begin(uint32_t row, const C& continuation, uint32_t expected) {
    arguments().store(row, continuation);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < inputs; ++i) input[i * FRAMES + row] = stored{};
    missing[row] = expected;
  }
};

/// A place in a stack of `room`: on the CPU backend it is looked at whether the rules above have been kept.
template <uint32_t ROOM>
GRAVEL_DEVICE uint32_t checked_place(uint32_t place) {
#if !GRAVEL_CUDA
  if (place >= ROOM) fail_text("task graph: a worker's shared memory has no place " + std::to_string(place));
#endif
  return place;
}

/// The lanes that are here for the same word. Of the CPU's compiler two places that look alike may become one, where lanes with different words
/// then meet.
[[gnu::always_inline]] GRAVEL_DEVICE lane_group sharers_of([[maybe_unused]] const uint32_t* word) {
  const lane_group here = lane_group::active();
#if GRAVEL_CUDA
  return here;
#else
  return here.part(here.match(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(word))));
#endif
}

/// One place of a stack for each lane that calls this now. Thread scope: lane, divergent.
[[gnu::always_inline]] GRAVEL_DEVICE uint32_t push_place(uint32_t* count) {
  const lane_group group = sharers_of(count);
  uint32_t first = 0;
  if (group.is_leader()) first = atomicAdd(count, group.size());
  return group.from_leader(first) + group.rank();
}
[[gnu::always_inline]] GRAVEL_DEVICE uint32_t pop_place(uint32_t* count) {
  const lane_group group = sharers_of(count);
  uint32_t left = 0;
  if (group.is_leader()) left = atomicAdd(count, 0u - group.size());
  return group.from_leader(left) - 1 - group.rank();
}

template <class Types>
struct local_store;

/// All of one warp. `bytes_wanted` bounds the number of levels.
template <class... T>
struct local_store<gravel_types<T...>> {
  static constexpr uint32_t bytes_wanted = 16 << 10;
  static constexpr uint32_t most_spawns = std::max({task_facts<T>::spawns...});
  static constexpr bool possible = (task_facts<T>::may_be_local && ...);
  static constexpr uint32_t room = 32 * (most_spawns ? most_spawns + 1 : 2);  ///< in each level: of a batch, and a batch besides
  template <class U>
  static constexpr uint32_t bytes_of_level = task_facts<U>::is_continuation ? 32 * ((sizeof(U) + 3) / 4 * 4 + 8 * task_facts<U>::inputs + 8)
                                                                            : room*((sizeof(U) + 3) / 4 * 4) + 4;
  static constexpr uint32_t fitting = bytes_wanted / (bytes_of_level<T> + ... + 0);
  /// Levels 0 to levels - 1 may be local; 0: none.
  static constexpr uint32_t levels = !possible ? 0 : fitting > 24 ? 24 : fitting;
  static constexpr uint32_t places = levels ? levels : 1, n_frames = 32 * places;

  template <class U>
  struct part : local_tasks<U, places, room> {};
  template <class U>
  requires task_facts<U>::is_continuation struct part<U> : local_frames<U, n_frames> {
  };

  struct parts : part<T>... {};
  parts all;

  template <class U>
  GRAVEL_DEVICE part<U>& of() {
    return static_cast<part<U>&>(all);
  }

  /// Thread scope: the warp, converged.
  GRAVEL_DEVICE void begin(const lane_group& warp) {
    (begin_part(warp, of<T>()), ...);
    warp.sync();
  }

 private:
  template <class U>
  GRAVEL_DEVICE void begin_part(const lane_group& warp, part<U>& p) {
    if constexpr (task_facts<U>::is_continuation) {
      for (uint32_t i = warp.rank(); i < n_frames; i += 32) p.free[i] = static_cast<uint16_t>(i);
      if (warp.is_leader()) p.n_free = n_frames, p.n_ready = 0;
    } else if (warp.rank() < places) {
      p.count[warp.rank()] = 0;
    }
  }
};

}  // namespace gravel
