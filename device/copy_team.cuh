// Copy team: lanes that copy together. They are all lanes of a block, some lanes of a warp, or a host thread alone.
#pragma once
#include "device/lane_group.cuh"
#include "device/send.cuh"

namespace gravel::detail {

class copy_team {
 public:
  /// The whole block; on the host the calling thread.
  GRAVEL_BOTH static copy_team block(const gravel_t& g) {
#if GRAVEL_ON_GPU
    (void)g;
    return {thread_number(), blockDim.x * blockDim.y * blockDim.z, 0};
#elif GRAVEL_CUDA
    (void)g;
    return alone();
#else
    return g.from == sender::kernel ? copy_team(thread_number(), blockDim.x * blockDim.y * blockDim.z, 0) : alone();
#endif
  }
  /// The lanes of the calling warp that are in `lanes` and that the block has; on the host the calling thread.
  GRAVEL_BOTH static copy_team warp([[maybe_unused]] const gravel_t& g, [[maybe_unused]] uint32_t lanes) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
    return alone();
#else
    if (g.from != sender::kernel) return alone();
    const uint32_t thread = thread_number(), lane = thread % 32,
                   rest = blockDim.x * blockDim.y * blockDim.z - (thread - lane);
    if (rest < 32) lanes &= (1u << rest) - 1;
    return {lane_group::popcount(lanes & ((1u << lane) - 1)), lane_group::popcount(lanes), lanes};
#endif
  }
  /// The calling lane alone; on the host the calling thread.
  GRAVEL_BOTH static copy_team lane(const gravel_t& g) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
    (void)g;
    return alone();
#else
    return warp(g, 1u << thread_number() % 32);
#endif
  }
  GRAVEL_BOTH static copy_team alone() { return {0, 1, 0}; }
  /// The whole block, for a kernel that knows its shape: THREADS threads of one dimension, in whole warps.
  template <uint32_t THREADS>
  GRAVEL_DEVICE static copy_team block_of() {
    return {threadIdx.x, THREADS, 0};
  }
  GRAVEL_DEVICE static copy_team whole_warp() { return {threadIdx.x % 32, 32, ~0u}; }

  GRAVEL_BOTH uint32_t rank() const { return rank_; }
  GRAVEL_BOTH uint32_t size() const { return size_; }
  GRAVEL_BOTH bool is_leader() const { return rank_ == 0; }
  GRAVEL_BOTH bool is_warp() const { return lanes_ != 0; }
  /// The lanes, if the team is of a warp; 0: a block, or one thread.
  GRAVEL_BOTH uint32_t lanes() const { return lanes_; }

  /// The first warp of a block of at least 32 threads. Thread scope: the threads of that warp.
  GRAVEL_BOTH copy_team first_warp() const { return {rank_, 32, ~0u}; }

  /// Waits for all lanes of the team, and orders memory among them.
  GRAVEL_BOTH void sync() const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (size_ == 1) return;
    if (lanes_) __syncwarp(lanes_);
    else __syncthreads();
#endif
  }
  /// Returns the leader's value. A sync() must lie between two calls.
  GRAVEL_BOTH uint64_t from_leader(uint64_t value) const {
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
    if (size_ == 1) return value;
    if (lanes_) return __shfl_sync(lanes_, value, static_cast<int>(lane_group::lowest(lanes_)));
    __shared__ uint64_t shared;
    if (rank_ == 0) shared = value;
    __syncthreads();
    value = shared;
#endif
    return value;
  }

 private:
  GRAVEL_BOTH copy_team(uint32_t rank, uint32_t size, uint32_t lanes) : rank_(rank), size_(size), lanes_(lanes) {}
#if GRAVEL_ON_GPU || !GRAVEL_CUDA
  GRAVEL_BOTH static uint32_t thread_number() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
#endif
  uint32_t rank_, size_;
  uint32_t lanes_;  ///< lanes, if the team is of a warp; 0: a block, or one thread
};

/// Copies units from `i` on, as long as there are AT_ONCE for each thread. Their loads are under way together: over
/// PCIe one load takes more than a microsecond. Returns the next unit. Thread scope: the team, each thread for its own
/// units.
template <uint32_t AT_ONCE>
GRAVEL_BOTH uint64_t copy_units(const copy_team& team, unit* to, const unit* from, uint64_t i, uint64_t end) {
  const uint64_t step = team.size();
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    unit held[AT_ONCE];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) held[k] = load_unit(from + i + k * step);
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < AT_ONCE; ++k) store_unit(to + i + k * step, held[k]);
  }
  return i;
}
/// Copies the bytes from `done` on by words, as long as there are whole ones. `done` is a multiple of their size, to
/// which both sides are aligned. Up to 8 loads of a thread are under way together: over NVLink, too, one takes about a
/// microsecond. Returns the next byte. Thread scope: the team, each thread for its own words.
template <class Word>
GRAVEL_BOTH uint64_t copy_words(const copy_team& team, char* to, const char* from, uint64_t done, uint64_t bytes) {
  constexpr uint32_t at_once = 8;
  auto* const there = reinterpret_cast<Word*>(to);
  const auto* const here = reinterpret_cast<const Word*>(from);
  const uint64_t end = bytes / sizeof(Word), step = team.size();
  for (uint64_t i = done / sizeof(Word) + team.rank(); i < end; i += at_once * step) {
    Word held[at_once] = {};
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k)
      if (i + k * step < end) held[k] = here[i + k * step];
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k)
      if (i + k * step < end) there[i + k * step] = held[k];
  }
  return end * sizeof(Word);
}

/// Copies by the widest words to which both sides are aligned, and the rest by narrower ones. Thread scope: the team.
GRAVEL_BOTH void copy_bytes(const copy_team& team, char* to, const char* from, uint64_t bytes) {
  uint64_t done = 0;
#if !GRAVEL_ON_GPU
  if (team.size() == 1) {
    if (bytes) __builtin_memcpy(to, from, bytes);
    return;
  }
#endif
  const uint64_t unaligned = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from);
  if (unaligned % 16 == 0) {
    done = bytes / 16 * 16;
    auto* const there = reinterpret_cast<unit*>(to);
    const auto* const here = reinterpret_cast<const unit*>(from);
    uint64_t i = team.rank();
    if (GRAVEL_ON_GPU)
      i = copy_units<2>(team, there, here, copy_units<4>(team, there, here, i, bytes / 16), bytes / 16);
    copy_units<1>(team, there, here, i, bytes / 16);
  }
#if GRAVEL_ON_GPU
  if (unaligned % 8 == 0) done = copy_words<uint64_t>(team, to, from, done, bytes);
  if (unaligned % 4 == 0) done = copy_words<uint32_t>(team, to, from, done, bytes);
#endif
  copy_words<char>(team, to, from, done, bytes);
}

}  // namespace gravel::detail
