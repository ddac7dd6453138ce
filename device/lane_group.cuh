// Lane group: the lanes of a warp that are at the same place of the code right now. They act together when a message is
// sent directly. A group has 1 to 32 lanes. On the host, and on the CPU backend without a seed, it always has one.
// Thread scope of every member: all lanes of the group, and no others.
#pragma once
#include "device/simt.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// Lanes of a warp that act together, 1 to 32. On the host, and on the CPU backend without a seed, it is always one.
/// gravel_batch, which batch handlers get, is a lane_group.
/// @scope all lanes of the group, and no others
/// @completion on return
/// @errors none are checked
/// @source CUDA: cooperative_groups::coalesced_group
class lane_group {
 public:
  /// Returns the lanes that make this call together. Always inlined: on the CPU backend the address of the call
  /// determines which lanes can be together.
  /// @scope lane, from divergent code
  [[gnu::always_inline]] GRAVEL_BOTH static lane_group active() {
    lane_group group = active_to_count();
#if GRAVEL_ON_GPU
    uint32_t below, not_below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(not_below));
    // All bits of `below | not_below` are set, but the compiler does not know this. If it knew, it would take the mask
    // for the same in all lanes that run together later. But lanes of two groups that wait in one loop may leave it
    // together: then a shuffle of one group released a lane of the other group too early (CUDA 13.0, sm_90).
    group.mask_ &= below | not_below;
#endif
    return group;
  }
  /// Returns a group of given lanes of the calling warp. The caller is one of them.
  /// @param mask a bit for each lane
  GRAVEL_BOTH static lane_group of(uint32_t mask) {
    lane_group group = active_to_count();
    group.mask_ = mask;
    return group;
  }
  /// As active(), but cheaper, and only to count: for size(), rank() and is_leader(), at once.
  /// @scope lane, from divergent code
  [[gnu::always_inline]] GRAVEL_BOTH static lane_group active_to_count() {
#if GRAVEL_ON_GPU
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return {__activemask(), lane};
#elif GRAVEL_CUDA
    return {1u, 0u};
#else
    if (!simt::in_kernel()) return {1u, 0u};
    return {__activemask(), simt::lane_in_warp()};
#endif
  }

  /// Returns the calling warp, which must be converged.
  /// @param rank number of the calling thread in its block
  /// @param threads of the block
  [[gnu::always_inline]] GRAVEL_BOTH static lane_group converged_warp(uint32_t rank, uint32_t threads) {
    lane_group group = active();
    const uint32_t left = threads - rank / 32 * 32;
    group.mask_ = left >= 32 ? ~0u : (1u << left) - 1;
    return group;
  }

  /// Returns the lanes of the group that are in `some`. The caller is one of them.
  /// @param some a bit for each lane
  GRAVEL_BOTH lane_group part(uint32_t some) const { return {some, lane_}; }

  /// A bit for each lane of the group.
  GRAVEL_BOTH uint32_t mask() const { return mask_; }
  /// Whether all 32 lanes are in the group.
  GRAVEL_BOTH bool is_whole_warp() const { return mask_ == ~0u; }
  /// Number of lanes.
  GRAVEL_BOTH uint32_t size() const { return popcount(mask_); }
  /// How many lanes of the group are below this one.
  GRAVEL_BOTH uint32_t rank() const { return popcount(below()); }
  /// How many lanes of the group are below `lane`.
  /// @param lane another of the group's lanes
  GRAVEL_BOTH uint32_t rank_of(uint32_t lane) const { return popcount(mask_ & ((1u << lane) - 1)); }
  /// The lowest lane of the group.
  GRAVEL_BOTH uint32_t leader_lane() const { return lowest(mask_); }
  /// Whether this is the lowest lane of the group.
  GRAVEL_BOTH bool is_leader() const { return leader_lane() == lane_; }
  /// Number of this lane in its warp.
  GRAVEL_BOTH uint32_t lane() const { return lane_; }
  /// How many of the lanes in `some` are below this one.
  /// @param some a bit for each lane
  GRAVEL_BOTH uint32_t rank_in(uint32_t some) const { return popcount(some & ((1u << lane_) - 1)); }

  /// A bit for each lane of the group whose vote is true.
  /// @param vote of this lane
  GRAVEL_BOTH uint32_t ballot(bool vote) const {
#if GRAVEL_ON_GPU
    return __ballot_sync(mask_, vote);
#elif GRAVEL_CUDA
    return vote ? mask_ : 0;
#else
    if (alone()) return vote ? mask_ : 0;
    return __ballot_sync(mask_, vote);
#endif
  }
  /// The value of another lane.
  /// @param value of this lane
  /// @param lane one of the group
  template <class T>
  GRAVEL_BOTH T from_lane(T value, uint32_t lane) const {
#if GRAVEL_ON_GPU
    return __shfl_sync(mask_, value, static_cast<int>(lane));
#elif GRAVEL_CUDA
    (void)lane;
    return value;
#else
    return alone() ? value : __shfl_sync(mask_, value, static_cast<int>(lane));
#endif
  }
  /// The value of the lowest lane.
  /// @param value of this lane
  template <class T>
  GRAVEL_BOTH T from_leader(T value) const {
    return from_lane(value, leader_lane());
  }
  /// Waits for all lanes of the group, and orders memory among them.
  GRAVEL_BOTH void sync() const {
#if GRAVEL_ON_GPU
    __syncwarp(mask_);
#elif !GRAVEL_CUDA
    if (!alone()) __syncwarp(mask_);
#endif
  }
  /// Runs `wait` by each lane, in a loop in which the group comes together. On the CPU backend one lane waits for all:
  /// a thread whose lanes wait for each other never sleeps.
  /// @param wait called by all lanes of the group
  template <class Wait>
  GRAVEL_BOTH void wait_together(Wait wait) const {
#if GRAVEL_ON_GPU
    wait();
#else
    if (is_leader()) wait();
    sync();
#endif
  }
  /// Lanes of the group whose `key`, an integer of 4 or 8 bytes, equals this lane's.
  /// @param key of this lane
  template <class T>
  GRAVEL_BOTH uint32_t match([[maybe_unused]] T key) const {
#if GRAVEL_ON_GPU
    return __match_any_sync(mask_, key);
#elif GRAVEL_CUDA
    return mask_;
#else
    return alone() ? mask_ : __match_any_sync(mask_, key);
#endif
  }

  /// Sum of `value` over the group's lanes.
  /// @param value of this lane
  template <class T>
  GRAVEL_BOTH T sum(T value) const {
    T total{};
    for (uint32_t rest = mask_; rest != 0; rest &= rest - 1)
      total = static_cast<T>(total + from_lane(value, lowest(rest)));
    return total;
  }

  /// Number of bits that are 1.
  /// @param bits any
  GRAVEL_BOTH static uint32_t popcount(uint32_t bits) {
#if GRAVEL_ON_GPU
    return static_cast<uint32_t>(__popc(bits));
#else
    // On the CPU backend groups mostly have one lane, and not every x86-64 has popcnt.
    if ((bits & (bits - 1)) == 0) return bits != 0;
    return static_cast<uint32_t>(__builtin_popcount(bits));
#endif
  }
  /// Number of the lowest bit that is 1.
  /// @param bits not 0
  GRAVEL_BOTH static uint32_t lowest(uint32_t bits) {
#if GRAVEL_ON_GPU
    return static_cast<uint32_t>(__ffs(static_cast<int>(bits)) - 1);
#else
    return static_cast<uint32_t>(__builtin_ctz(bits));
#endif
  }

 private:
  GRAVEL_BOTH lane_group(uint32_t mask, uint32_t lane) : mask_(mask), lane_(lane) {}
  GRAVEL_BOTH bool alone() const { return (mask_ & (mask_ - 1)) == 0; }
  GRAVEL_BOTH uint32_t below() const { return mask_ & ((1u << lane_) - 1); }
  uint32_t mask_, lane_;
};

/// A single lane, for functions that a group calls. The functions then have no collectives. Lanes of a warp that each
/// call one stay together on a GPU; with a lane_group of one lane each collective would wait for a mask of its own, and
/// the lanes would run one after the other.
/// @scope lane
/// @completion on return
/// @errors none
/// @source Gravel
struct lone_lane {
  GRAVEL_BOTH static constexpr uint32_t size() { return 1; }
  GRAVEL_BOTH static constexpr uint32_t rank() { return 0; }
  GRAVEL_BOTH static uint32_t lane() { return 0; }
  GRAVEL_BOTH static constexpr bool is_leader() { return true; }
  GRAVEL_BOTH static constexpr bool is_whole_warp() { return false; }
  GRAVEL_BOTH static constexpr uint32_t rank_in(uint32_t) { return 0; }
  GRAVEL_BOTH static constexpr uint32_t ballot(bool vote) { return vote; }
  GRAVEL_BOTH static constexpr uint32_t match(uint32_t) { return 1; }
  template <class T>
  GRAVEL_BOTH static constexpr T from_lane(T value, uint32_t) {
    return value;
  }
  template <class T>
  GRAVEL_BOTH static constexpr T from_leader(T value) {
    return value;
  }
  GRAVEL_BOTH static void sync() {}
};

}  // namespace gravel::detail
