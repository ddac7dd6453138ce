// Local store: tasks and frames in the shared memory of one warp, which that warp alone fills and empties.
//
// Problem. Most tasks of a fine recursion are small. A trip through a channel in device memory costs more than their
// work.
// Solution. A worker keeps tasks in its shared memory, by level. A task spawns only into lower levels, so a depth-first
// order bounds the memory. A tree that begins here ends here: its results never go through device memory. (The paper,
// Channels, ISCA 2014, section 9, leaves this hierarchy open.)
//
// Room. A batch of level l starts only if no lower level is full, which means that it has 32 tasks or more, and if 32 *
// l frames of each type are free. A level has 32 places more than a batch may spawn, so each lower level has room for
// all children of the batch. Full batches run first, from the lowest level up. If a batch of level l may not start for
// lack of frames, none of a higher level may.
// Invariant: the lowest level with tasks may always start. The last batch of its level or of a higher one found 32 * l
// frames free, and those that its descendants took are free again. So a worker never blocks here.
//
// Only lanes of one warp use the store, with __syncwarp between batches, so it needs no other memory order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device/lane_group.cuh"
#include "lib/base/error.hpp"
#include "lib/channel/columns.hpp"
#include "lib/taskgraph/frames.cuh"
#include "lib/taskgraph/graph_types.hpp"

namespace gravel::detail {

/// Tasks of one type: a stack for each level.
template <class T, uint32_t ROOM>
struct local_tasks {
  uint32_t* count;  ///< [32]
  uint32_t* words;  ///< [levels][columns<T>::words * ROOM]

  static constexpr uint32_t level_words = columns<T>::words * ROOM;
  GRAVEL_DEVICE columns<T> at(uint32_t level) const { return {words + level * level_words, ROOM}; }
};

/// Frames of one continuation, 32 for each level. `free` and `ready` are stacks of rows.
template <class C>
struct local_frames {
  using stored = typename frames<C>::stored;
  static constexpr uint32_t inputs = frames<C>::inputs,
                            level_words = 32 * (inputs * sizeof(stored) / 4 + columns<C>::words + 2);
  uint32_t *n_free, *n_ready;
  uint32_t rows;
  stored* input;  ///< [inputs][rows]
  uint32_t* missing;
  columns<C> arguments;
  uint16_t *free, *ready;

  GRAVEL_DEVICE static local_frames in(uint32_t* head, uint32_t* words, uint32_t rows) {
    uint32_t* const missing = words + inputs * sizeof(stored) / 4 * rows;
    uint32_t* const arguments = missing + rows;
    auto* const free = reinterpret_cast<uint16_t*>(arguments + columns<C>::words * rows);
    return {head, head + 1, rows, reinterpret_cast<stored*>(words), missing, {arguments, rows}, free, free + rows};
  }
  GRAVEL_DEVICE void begin(uint32_t row, const C& continuation, uint32_t expected) const {
    arguments.store(row, continuation);
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < inputs; ++i) input[i * rows + row] = stored{};
    missing[row] = expected;
  }
};

/// A place in a stack of `room` places. The CPU backend checks that the rules above were kept.
GRAVEL_DEVICE uint32_t checked_place(uint32_t place, [[maybe_unused]] uint32_t room) {
#if !GRAVEL_CUDA
  if (place >= room) fail_text("task graph: a worker's shared memory has no place " + std::to_string(place));
#endif
  return place;
}

/// A continuation that no task of the graph begins. Its frames never lie in shared memory.
struct no_local_frames {
  static constexpr uint32_t level_words = 0;
};

template <class Types>
struct local_store;

/// The store of one warp: a view of `levels` levels in its part of the block's shared memory.
template <class... T>
struct local_store<gravel_types<T...>> {
  static constexpr uint32_t most_levels = 32;  ///< one lane polls each level
  static constexpr uint32_t most_spawns = std::max({task_facts<T>::spawns...});
  static constexpr bool possible = (task_facts<T>::may_be_local && ...);
  static constexpr uint32_t room =
      32 * (most_spawns ? most_spawns + 1 : 2);  ///< places in each level: for the children of a batch, and 32 more
  template <class U>
  static constexpr bool has_frames = task_facts<U>::is_continuation &&
                                     (task_facts<T>::continuations::template has<U> || ...);
  template <class U>
  using part = std::conditional_t<!task_facts<U>::is_continuation, local_tasks<U, room>,
                                  std::conditional_t<has_frames<U>, local_frames<U>, no_local_frames>>;
  static constexpr uint32_t head_words = 32 * sizeof...(T), level_words = (part<T>::level_words + ...);

  GRAVEL_BOTH static constexpr uint32_t bytes(uint32_t levels) { return 4 * (head_words + levels * level_words); }

  uint32_t* memory;
  uint32_t levels;

  template <class U>
  GRAVEL_DEVICE part<U> of() const {
    constexpr uint32_t index = gravel_types<T...>::template index<U>;
    uint32_t* const head = memory + 32 * index;
    constexpr uint32_t before = words_before(index);
    uint32_t* const words = memory + head_words + before * levels;
    if constexpr (has_frames<U>) return part<U>::in(head, words, 32 * levels);
    else if constexpr (task_facts<U>::is_continuation) return {};
    else return {head, words};
  }

  /// Makes the store empty. Thread scope: the warp, converged.
  GRAVEL_DEVICE void begin(const lane_group& warp) const {
    (begin_part(warp, of<T>()), ...);
    warp.sync();
  }

 private:
  GRAVEL_BOTH static constexpr uint32_t words_before(uint32_t index) {
    const uint32_t words[] = {part<T>::level_words...};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < index; ++i) sum += words[i];
    return sum;
  }
  template <class U>
  GRAVEL_DEVICE static void begin_part(const lane_group& warp, const local_tasks<U, room>& p) {
    p.count[warp.rank()] = 0;
  }
  GRAVEL_DEVICE static void begin_part(const lane_group&, const no_local_frames&) {}
  template <class C>
  GRAVEL_DEVICE static void begin_part(const lane_group& warp, const local_frames<C>& p) {
    for (uint32_t i = warp.rank(); i < p.rows; i += 32) p.free[i] = static_cast<uint16_t>(i);
    if (warp.is_leader()) {
      *p.n_free = p.rows;
      *p.n_ready = 0;
    }
  }
};

}  // namespace gravel::detail
