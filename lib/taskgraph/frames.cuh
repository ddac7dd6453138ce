// Frames: continuations of one type that wait for their inputs, in device memory. A frame holds the continuation's
// arguments, its inputs, and how many inputs are missing.
//
// Room for a frame is promised before the task starts that may need the frame (task_admission.cuh). Frames come back in
// the order of their tickets (lib/channel/slots.hpp). There is one buffer for each depth.
//
//   task                                                  a task that delivers an input
//   a frame: writes arguments, zeroed inputs, missing     stores the input, or adds to it
//   its children, by a channel  [K4]                      missing -= 1                        [K5] acq_rel
//                                                         was it the last? the row is ready: into a channel [K4]
//
// The lane that delivers the last input has acquired the other inputs by [K5], and makes them visible by [K4].
#pragma once
#include <cstdint>
#include <type_traits>

#include "lib/channel/channel.cuh"
#include "lib/taskgraph/graph_types.hpp"

namespace gravel::detail {

/// The frames of continuation C at one depth. Plain data.
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
  /// A view of zeroed memory. `room` must be set to `capacity` once.
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

  /// Writes a new frame, which waits for `expected` inputs.
  GRAVEL_BOTH void begin(uint32_t row, const C& continuation, uint32_t expected) const {
    arguments.store(row, continuation);
    if constexpr (inputs != 0) {
      GRAVEL_UNROLL
      for (uint32_t i = 0; i < inputs; ++i) input[i * arguments.rows + row] = stored{};
    }
    store_relaxed<scope::device>(&missing[row], expected);
  }
};

/// Default number of frames of each depth: as many as are wanted, and at least 4065, but no more than `fits` allows. It
/// has the form 2^k - 31, which wastes nothing. So it is at least 33, which suffices for any batch.
template <class Fits>
uint32_t usual_frames(uint64_t wanted, Fits fits) {
  uint32_t shift = 12;
  while (shift < 29 && (uint64_t{1} << shift) - 31 < wanted) ++shift;
  while (shift > 6 && !fits((1u << shift) - 31)) --shift;
  return (1u << shift) - 31;
}

/// A frame that waits for its inputs. `frame[i]` is where input i goes.
template <class C>
struct waiting_frame {
  uint32_t word;  ///< the word of a gravel_return to input 0

  GRAVEL_BOTH gravel_return<typename task_facts<C>::value> operator[](uint32_t input) const {
    return {word | input << gravel_return<void>::row_bits};
  }
};

/// Adds a result to an input to which several children deliver.
template <class V>
GRAVEL_DEVICE void add_to_input(V* input, V value) {
  if constexpr (std::is_same_v<V, int64_t>) atomicAdd(reinterpret_cast<uint64_t*>(input), static_cast<uint64_t>(value));
  else atomicAdd(input, value);
}

}  // namespace gravel::detail
