// Memory of a reducer: the symmetric memory that blocks of all PEs share to reduce together, and the writer of each
// word.
//
// A reduction by a grid is one reduction by each of its blocks, on its own part of the arrays. Block b of a PE works
// with block b of every other PE, and with no other block; it does so in slice b of the memory. Slices share nothing,
// so blocks of a PE do not wait for each other.
//
//   per PE and slice                                   written by   when
//   calls          number of this block's calls        this block   at the end of each call
//   header[2][pe]  low half of the number of PE pe's   PE pe        at the beginning of its call (by messages: after
//                  call << 32 | its arguments                       its contribution)
//   done[pe]       2 * number of PE pe's call + 1      PE pe        when it no longer needs this PE's arrays
//   staging[pe]    contribution of PE pe               PE pe
//
// Calls have the same numbers at all PEs, from 1. Two headers are used in turn, for even and odd calls.
//
// Invariant: a PE begins call k + 1 only after it has seen a word of call k of every other PE, which that PE wrote
// after it had read all words of its call k - 1. So a PE is at most one call ahead of another, and it writes words of
// call k + 1 where words of call k - 1 were, which no PE reads any more. Model: test/models/one_shot.pml.
#pragma once
#include "device/bulk.cuh"
#include "device/wait.cuh"
#include "lib/base/reduction.hpp"

namespace gravel::detail {

/// Two words of staging. A word holds 4 bytes of data below the low half of the number of the call, so that each word
/// says by itself whether it has arrived.
struct flagged_words {
  static constexpr uint32_t data_bytes = 8;  ///< in both words

  GRAVEL_BOTH static unit make(uint64_t data, uint64_t call) {
    const uint64_t flag = call << 32;
    return {{(data & 0xffffffff) | flag, data >> 32 | flag}};
  }
  GRAVEL_BOTH static bool are_of(const unit& words, uint64_t call) {
    return words.word[0] >> 32 == (call & 0xffffffff) && words.word[1] >> 32 == (call & 0xffffffff);
  }
  GRAVEL_BOTH static uint64_t data(const unit& words) { return (words.word[0] & 0xffffffff) | words.word[1] << 32; }

  /// Stores two words by one instruction; each is whole by itself. Relaxed: data and flag are one word.
  GRAVEL_BOTH static void store(unit* to, const unit& words) {
#if GRAVEL_ON_GPU
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};"
                 :
                 : "l"(to), "l"(words.word[0]), "l"(words.word[1])
                 : "memory");
#else
    store_relaxed(&to->word[0], words.word[0]);
    store_relaxed(&to->word[1], words.word[1]);
#endif
  }
  GRAVEL_BOTH static unit load(const unit* from) {
#if GRAVEL_ON_GPU
    unit words;
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(words.word[0]), "=l"(words.word[1])
                 : "l"(from)
                 : "memory");
    return words;
#else
    return {{load_relaxed(&from->word[0]), load_relaxed(&from->word[1])}};
#endif
  }
};

/// The memory as kernels see it. Plain data, the same at all PEs except for addresses.
struct reducer_memory {
  static constexpr uint32_t most_blocks = 128, near_heaps = 4;

  char* base;       ///< in this PE's heap
  uint32_t blocks;  ///< slices
  uint32_t n_pes, my_pe;
  uint32_t staged_units;  ///< for each PE, slice and parity
  uint32_t words_offset;  ///< in bytes from `base`, as lay_out() computes them once
  uint64_t staging_offset;
  bool directly;  ///< all PEs reach each other's memory
  char*
      heap[near_heaps];  ///< of the first PEs, as mapped here, if directly: a constant of the kernel instead of a load

  struct alignas(64) slice_line {
    uint64_t calls, spare[7];
  };
  struct alignas(64) grid_line {
    uint64_t blocks_done, spare[7];
  };

  GRAVEL_BOTH static uint64_t padded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
  GRAVEL_BOTH uint32_t words_of_slice() const { return 3 * n_pes; }
  /// Call it when blocks, n_pes and staged_units are known.
  void lay_out() {
    words_offset = static_cast<uint32_t>(padded(sizeof(grid_line) + blocks * sizeof(slice_line)));
    staging_offset = words_offset + padded(uint64_t{blocks} * words_of_slice() * sizeof(uint64_t));
  }
  uint64_t bytes() const { return staging_offset + uint64_t{blocks} * n_pes * 2 * staged_units * sizeof(unit); }

  GRAVEL_BOTH grid_line* grid() const { return reinterpret_cast<grid_line*>(base); }
  GRAVEL_BOTH slice_line* slice(uint32_t c) const {
    return reinterpret_cast<slice_line*>(base + sizeof(grid_line)) + c;
  }
  /// The word of PE `of` in this PE's memory.
  GRAVEL_BOTH uint64_t* header(uint32_t c, uint64_t call, uint32_t of) const {
    const uint32_t parity = static_cast<uint32_t>(call) & 1;
    return reinterpret_cast<uint64_t*>(base + words_offset) + (c * words_of_slice() + parity * n_pes + of);
  }
  GRAVEL_BOTH uint64_t* done(uint32_t c, uint32_t of) const {
    return reinterpret_cast<uint64_t*>(base + words_offset) + (c * words_of_slice() + 2 * n_pes + of);
  }
  /// [staged_units] for even calls, then as many for odd calls.
  GRAVEL_BOTH unit* staging(uint32_t c, uint64_t call, uint32_t of) const {
    const uint32_t row = (c * n_pes + of) * 2 + (static_cast<uint32_t>(call) & 1);
    return reinterpret_cast<unit*>(base + staging_offset) + uint64_t{row} * staged_units;
  }
  /// Returns where symmetric address `mine` lies in the memory of PE `pe`, if all PEs reach each other.
  template <class A>
  GRAVEL_BOTH A* at(const gravel_t& g, A* mine, uint32_t pe) const {
    if (pe == my_pe) return mine;
    char* there = nullptr;
    // All indices are constants. With a variable index nvcc keeps a copy of the whole handle in memory.
    GRAVEL_UNROLL
    for (uint32_t i = 0; i < near_heaps; ++i) there = pe == i ? heap[i] : there;
    if (pe >= near_heaps) there = peer_heap(g, static_cast<int>(pe));
    return reinterpret_cast<A*>(there + (reinterpret_cast<const char*>(mine) - g.heap));
  }
};

}  // namespace gravel::detail

/// The reducer as kernels see it, from gravel_reducer::handle(). Plain data, passed by value.
struct gravel_reducer_handle {
  gravel_t g;
  gravel::detail::reducer_memory memory;
};
