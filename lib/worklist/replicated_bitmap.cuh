// Replicated bitmap: a bit for each vertex of all PEs, at every PE.
//
// Problem. A kernel asks for one bit of any vertex, millions of times. A request to the owner of each costs more than
// the bit.
// Solution. Every PE has a copy, in its L2 cache if it is small enough. The owner of a vertex makes its bit, and stores
// whole words to all copies. No message and no atomic operation crosses between PEs.
//
// Order of the bits. Vertices of a PE are divided into strips. The strips of all PEs take turns: strip s of PE p is
// number s * PEs + p. If each PE numbers its vertices by falling degree, the first words are those of the vertices with
// the most edges, at all PEs together: the *hub part*, which a block copies into its shared memory.
//
// Invariants. A word belongs to one PE, and in kernels that keep words in shared memory to one block. Between two
// rendezvous of blocks (lib/worklist/level_rendezvous.cuh) a copy is either read or written: there are two bitmaps in
// turn.
#pragma once
#include <algorithm>

#include "host/mapped_sender.cuh"
#include "host/pe/collectives.hpp"

namespace gravel::detail {

/// Four words, which are loaded and stored at once.
struct alignas(16) word4 {
  uint32_t word[4];
};

/// The bitmap as kernels see it. Plain data. A code is the number of a vertex's bit.
struct replicated_bitmap {
  /// Vertices of a strip: as many as a block has threads. Small on the CPU backend, so that small graphs have several.
  static constexpr uint32_t strip = GRAVEL_CUDA ? 1024 : 128, strip_words = strip / 32;

  uint32_t* words[2];  ///< symmetric
  uint32_t strips;     ///< of each PE
  uint32_t pes, me;

  /// Number of bits.
  GRAVEL_BOTH uint32_t codes() const { return strips * pes * strip; }
  GRAVEL_BOTH uint32_t code_of(int owner, uint32_t place) const {
    return (place / strip * pes + static_cast<uint32_t>(owner)) * strip + place % strip;
  }
  GRAVEL_BOTH int owner_of(uint32_t code) const { return static_cast<int>(code / strip % pes); }
  GRAVEL_BOTH uint32_t place_of(uint32_t code) const { return code / strip / pes * strip + code % strip; }
  /// Where the word of an own place lies.
  GRAVEL_BOTH uint32_t own_word(uint32_t place) const {
    return (place / strip * pes + me) * strip_words + place % strip / 32;
  }

  /// Stores four words, those from the own place on, in bitmap `turn` of other PEs, and of this one if `here`. Thread
  /// scope: lane.
  GRAVEL_DEVICE void publish(const mapped_sender& others, uint32_t turn, uint32_t place, word4 four, bool here) const {
    auto* const at = reinterpret_cast<word4*>(&words[turn][own_word(place)]);
    for (uint32_t pe = 0; pe < pes; ++pe)
      if (here || pe != me) *others.at(at, static_cast<int>(pe)) = four;
  }
  /// Copies the first words of bitmap `turn` into shared memory. `count`: a multiple of 4. Thread scope: block; a
  /// barrier must follow.
  GRAVEL_DEVICE void copy_hub_part(uint32_t turn, word4* to, uint32_t count) const {
    constexpr uint32_t at_once = 4;  // loads that are under way before the first store
    const auto* const from = reinterpret_cast<const word4*>(words[turn]);
    for (uint32_t first = threadIdx.x; first < count / 4; first += at_once * blockDim.x) {
      word4 four[at_once];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j)
        if (first + j * blockDim.x < count / 4) four[j] = from[first + j * blockDim.x];
      GRAVEL_UNROLL
      for (uint32_t j = 0; j < at_once; ++j)
        if (first + j * blockDim.x < count / 4) to[first + j * blockDim.x] = four[j];
    }
  }
  /// Finds out which of N codes have their bits in bitmap `turn`. A code of all ones has none. `hub`: the hub part in
  /// shared memory, of `hub_codes` bits. Returns a bit for each code. All loads are under way before the first use.
  /// Thread scope: lane.
  template <int N>
  GRAVEL_DEVICE uint32_t test(uint32_t turn, const uint32_t* code, const uint32_t* hub, uint32_t hub_codes) const {
    uint32_t word[N], found = 0;
    GRAVEL_UNROLL
    for (int k = 0; k < N; ++k) {
      word[k] = 0;
      if (code[k] >= hub_codes && code[k] != ~0u) word[k] = load_once(&words[turn][code[k] / 32]);
    }
    GRAVEL_UNROLL
    for (int k = 0; k < N; ++k)
      if (code[k] < hub_codes) word[k] = hub[code[k] / 32];
    GRAVEL_UNROLL
    for (int k = 0; k < N; ++k) found |= (word[k] >> code[k] % 32 & 1) << k;
    return found;
  }

 private:
  /// A load that leaves the L1 cache to others.
  GRAVEL_DEVICE static uint32_t load_once(const uint32_t* word) {
#if GRAVEL_ON_GPU
    return __ldcg(word);
#else
    return *word;
#endif
  }
};

/// The host's side. make() and release() are collective.
class bitmap_memory {
 public:
  /// Allocates two bitmaps, all 0, in the symmetric heap. `strips`: the most of any PE.
  void make(uint32_t strips) {
    view_.strips = strips;
    view_.pes = static_cast<uint32_t>(gravel_n_pes());
    view_.me = static_cast<uint32_t>(gravel_my_pe());
    const uint64_t bytes = std::max<uint64_t>(view_.codes() / 8, sizeof(word4));
    for (uint32_t*& words : view_.words) words = gravel_malloc<uint32_t>(bytes);
  }
  void release() {
    for (uint32_t*& words : view_.words) {
      if (words) gravel_free(words);
      words = nullptr;
    }
  }
  const replicated_bitmap& view() const { return view_; }

 private:
  replicated_bitmap view_{};
};

}  // namespace gravel::detail
