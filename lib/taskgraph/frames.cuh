// Frames of continuations of one type in device memory: a continuation's arguments, its inputs, and how many are still
// missing. Room for them is promised before the task starts that may need it; frames come back in the order in which
// they were taken (lib/channel/slots.hpp), one buffer for each depth.
//
//   task                                                  who brings an input
//   a frame: writes arguments, zeroed inputs, missing     stores the input, or adds to it
//   its children, by a channel  [K4]                      missing -= 1                        [K5] acq_rel
//                                                         was it the last? the row is ready: into a channel [K4]
//
// Who brought the last input has acquired those of the others by [K5], and hands them on by [K4].
#pragma once
#include <cstdint>
#include <type_traits>

#include "lib/channel/channel.cuh"
#include "lib/taskgraph/graph_types.hpp"

namespace gravel::detail {

/// Those of one depth. C: the continuation. Plain data.
template <class C>
struct frames {
  using value = typename task_facts<C>::value;
  using stored = std::conditional_t<std::is_void_v<value>, uint32_t, value>;
  static constexpr uint32_t inputs = task_facts<C>::inputs;
  static_assert(sizeof(stored) == 4 || sizeof(stored) == 8, "an input has 4 or 8 bytes");

  slots<> space;
  uint32_t* missing;  ///< [rows]
  columns<C> arguments;
  stored* input;  ///< [inputs][rows]

  GRAVEL_BOTH static constexpr uint64_t line(uint64_t bytes) { return (bytes + 127) / 128 * 128; }
  GRAVEL_BOTH static constexpr uint32_t rows_for(uint32_t capacity) {
    return slots<>::chunks_for(capacity) * chunk_tickets;
  }
  GRAVEL_BOTH static constexpr uint64_t bytes(uint32_t capacity) {
    const uint64_t rows = rows_for(capacity);
    return sizeof(slots_words) + line(rows / chunk_tickets * 4) + line(rows * 4) + line(columns<C>::bytes(rows)) +
           line(inputs * rows * sizeof(stored));
  }
  /// A view of zeroed memory. room must be set to capacity once.
  GRAVEL_BOTH static frames in(char* memory, uint32_t capacity, uint32_t rows) {
    char* const done = memory + sizeof(slots_words);
    char* const missing = done + line(rows / chunk_tickets * 4);
    char* const arguments = missing + line(uint64_t{rows} * 4);
    char* const input = arguments + line(columns<C>::bytes(rows));
    return {
        {reinterpret_cast<slots_words*>(memory), {reinterpret_cast<uint32_t*>(done), rows / chunk_tickets}, capacity},
        reinterpret_cast<uint32_t*>(missing),
        {reinterpret_cast<uint32_t*>(arguments), rows},
        reinterpret_cast<stored*>(input)};
  }

  GRAVEL_BOTH void begin(uint32_t row, const C& continuation, uint32_t expected) const {
    arguments.store(row, continuation);
    if constexpr (inputs != 0) {
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < inputs; ++i) input[i * arguments.rows + row] = stored{};
    }
    store_relaxed<scope::device>(&missing[row], expected);
  }
};

/// How many frames of each depth, if nothing is said: as many as are wanted, and 4065 at least, but no more than `fits`
/// allows; of the form 2^k - 31, which wastes nothing, and so at least 33, which is enough for any batch.
template <class Fits>
uint32_t usual_frames(uint64_t wanted, Fits fits) {
  uint32_t shift = 12;
  while (shift < 29 && (uint64_t{1} << shift) - 31 < wanted) ++shift;
  while (shift > 6 && !fits((1u << shift) - 31)) --shift;
  return (1u << shift) - 31;
}

/// A frame that waits: where its inputs go.
template <class C>
struct waiting_frame {
  uint32_t word;  ///< of a gravel_return to input 0

  GRAVEL_BOTH gravel_return<typename task_facts<C>::value> operator[](uint32_t input) const {
    return {word | input << gravel_return<void>::row_bits};
  }
};

/// Adds to an input: children that bring their results to the same one.
template <class V>
GRAVEL_DEVICE void add_to_input(V* input, V value) {
  if constexpr (std::is_same_v<V, int64_t>) atomicAdd(reinterpret_cast<uint64_t*>(input), static_cast<uint64_t>(value));
  else atomicAdd(input, value);
}

}  // namespace gravel::detail
