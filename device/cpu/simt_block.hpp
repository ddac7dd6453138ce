// Block runner: runs the lanes of one block on the fibers of one OS thread (internal to the CPU backend).
//
// Invariant. Every lane that has not ended is in exactly one place. It runs. Or it is ready (not started, preempted,
// relaxing, or released). Or it waits at a barrier, in a warp collective, or in __activemask. If lanes wait, and none
// is ready or runs, this is a deadlock, which is detected at once.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cpu/simt_baton.hpp"
#include "device/cpu/simt_cpu.hpp"
#include "device/cpu/simt_fiber.hpp"
#include "device/cpu/simt_random.hpp"
#include "device/cpu/simt_stack.hpp"
#include "device/cpu/team_ledger.hpp"

namespace gravel::detail::simt::inner {

constexpr uint32_t max_lanes = 1024;

/// State that the threads of one launch share.
struct launch_state {
  dim3 grid, block;
  const std::function<void()>& kernel;
  uint64_t seed;
  size_t shared_bytes, stack_bytes;
  bool cooperative;
  uint64_t blocks;                  ///< in the grid
  baton* order = nullptr;           ///< for a cooperative launch with a seed
  uint64_t stride = 1, offset = 0;  ///< the i-th block claimed is (stride * i + offset) mod blocks
  std::atomic<uint64_t> next_block{0};
  uint64_t grid_arrivals = 0;       ///< counted by blocks of a cooperative launch
  std::atomic<bool> failed{false};  ///< running blocks are to end; set after `error`
  std::mutex mutex{};
  std::exception_ptr error{};  ///< the first error

  void record(std::exception_ptr e);

  // Calls of whole grids, which only blocks that run at the same time make. Block `block` makes its call number
  // `number`, or ends after `made` calls. Returns what is wrong, or nothing.
  bool has_grid_calls() const { return cooperative && blocks > 1; }
  std::string enter_grid(uint64_t block, uint64_t number, team_call);
  std::string leave_grid(uint64_t block, uint64_t made);
  std::vector<std::pair<team_call, uint64_t>> grid_calls{};          ///< in order, each with a block that made it
  uint64_t fewest_grid_calls = ~uint64_t{0}, ended_with_fewest = 0;  ///< of the blocks that have ended
};

class block_runner {
 public:
  static block_runner& of_this_thread();
  /// The runner whose kernel runs on this thread. Throws gravel::error outside a kernel.
  static block_runner& current(const char* who);
  [[noreturn]] static void fail_outside(const char* who);

  block_runner();
  ~block_runner();
  block_runner(const block_runner&) = delete;
  /// Runs blocks of the launch until none is left or the launch has failed.
  void run_share(launch_state& launch);

  // ---- called by lanes
  uint64_t warp_collective(warp_op op, uint32_t mask, uint64_t value, uint32_t argument);
  int block_collective(block_op op, bool predicate);
  uint32_t active_mask(const void* site);
  void enter_team(team_call call, uint32_t lanes, const uint64_t* arguments, uint32_t count);
  uint32_t relax(uint32_t rounds);
  void interleave();
  std::string place() const;  ///< "lane 3 of block (0,0,0)"

  /// Whether the address lies below the stack of a lane. Called by a signal handler.
  bool find_overflow(const void* address, overflow& found) const;

 private:
  struct lane {
    carrier* on = nullptr;  ///< null: not started, or ended
    uint3 index{};
    bool relaxing = false;
    warp_op op{};
    uint32_t mask = 0;
    uint64_t value = 0, result = 0;
    uint32_t argument = 0;
    const void* site = nullptr;
    uint32_t points = 0;       ///< interleaving points since it relaxed, up to points_of_a_wait
    uint32_t collectives = 0;  ///< warp collectives since it relaxed again, up to collectives_of_a_wait
  };
  /// A lane that is preempted within so many interleaving points after it relaxed counts as still waiting: a round of a
  /// waiting loop has a few atomics, and more if it reads many words.
  static constexpr uint32_t points_of_a_wait = 64;
  /// A lane that comes out of so few warp collectives after it relaxed once more counts as still waiting, too: a group
  /// of lanes that waits for many words votes in each round. Otherwise the thread would never rest in such a loop.
  static constexpr uint32_t collectives_of_a_wait = 16;
  /// Thrown where a lane waits when the launch has failed. If it cannot be thrown there (in a destructor or a noexcept
  /// function) it ends the program, and its text says why.
  struct cancelled : std::exception {
    explicit cancelled(launch_state& launch) : launch(launch) {}
    const char* what() const noexcept override;
    launch_state& launch;
  };

  void prepare(launch_state& launch);
  void run_in_turn(uint64_t claimed);
  void run_block(uint64_t index);
  void carry(carrier& self);
  void enter(uint32_t id);
  void end_lane(uint32_t id);
  int choose();
  void suspend(bool may_throw = true);
  void stop_if_failed();
  void stop_lane();
  void abandon_deadlocked();
  void make_ready(uint32_t id, bool relaxing = false);
  void moved() {
    idle_calls_ = idle_rounds_ = 0;
    if (order_) order_->moved();
  }
  uint32_t working() const { return lanes_count_ - next_unstarted_ + ready_ - ready_relaxing_; }
  bool arrive_at_barrier(block_op op);
  void release_barrier(block_op op);
  /// Returns the lanes in `mask` of a warp for which is(lane) holds.
  template <class F>
  uint32_t lanes_where(uint32_t warp, uint32_t mask, F is) const {
    uint32_t found = 0;
    for (uint32_t left = mask; left; left &= left - 1)
      if (is(lanes_[warp * 32 + static_cast<uint32_t>(std::countr_zero(left))])) found |= left & -left;
    return found;
  }
  void complete_collective(uint32_t warp, uint32_t mask, warp_op op);
  void release_group();
  void check_mask(uint32_t warp, uint32_t waiting) const;
  std::string describe_block() const;
  std::string describe_deadlock() const;
  std::string describe_missing() const;
  std::string state_of(uint32_t id) const;
  uint64_t block_number() const {
    return blockIdx.x + uint64_t{gridDim.x} * (blockIdx.y + uint64_t{gridDim.y} * blockIdx.z);
  }
  void abandon(const std::string& why);
  bool abandon_incomplete();
  uint32_t existing(uint32_t warp) const {
    const uint32_t lanes = lanes_count_ - warp * 32;
    return lanes >= 32 ? ~0u : (1u << lanes) - 1;
  }

  signal_stack signal_stack_;
  std::unique_ptr<carriers> carriers_;
  launch_state* launch_ = nullptr;
  baton* order_ = nullptr;  ///< of the launch
  uint32_t claimed_ = 0;    ///< the block's number in the order of claims
  std::unique_ptr<char[]> shared_;
  size_t shared_bytes_ = 0;
  dim3 shape_{0, 0, 0};  ///< the shape for which lanes_[].index is set

  std::vector<lane> lanes_;
  uint32_t lanes_count_ = 0, warps_ = 0;
  uint32_t running_ = 0;         ///< the lane that runs
  uint32_t live_ = 0;            ///< lanes that have not ended
  uint32_t next_unstarted_ = 0;  ///< without a seed: lanes from here on have not started; they run before others
  bool stopping_ = false;        ///< the block is being abandoned
  uint32_t stops_ignored_ = 0, stops_thrown_ = 0;

  std::array<uint16_t, max_lanes> queue_;  ///< ready lanes, a ring
  uint32_t head_ = 0, ready_ = 0, ready_relaxing_ = 0;
  uint32_t idle_calls_ = 0;   ///< relax() calls in this round, since all ready lanes began to relax
  uint32_t idle_rounds_ = 0;  ///< rounds in sequence in which each lane relaxed and nothing else happened

  lane_masks ended_, at_barrier_, posted_, grouping_;
  std::array<uint32_t, 4> arrived_;  ///< by block_op
  uint32_t votes_ = 0;
  int barrier_result_ = 0;
  uint32_t grouping_count_ = 0;

  team_ledger teams_;
  bool incomplete_ = false;       ///< a call of a team lacks lanes that have ended
  uint64_t grid_calls_made_ = 0;  ///< calls of whole grids by this block

  random_numbers random_;
  uint32_t preempt_ = 0;  ///< probability that an interleaving point switches, in 1/65536
};

/// Set while this thread runs lanes.
inline constinit thread_local block_runner* in_launch = nullptr;

const char* name_of(warp_op op);
const char* name_of(block_op op);

// ---- Inline, because each return from a function that has switched fibers is mispredicted: the processor's stack of
// return addresses does not switch with the fibers.

inline block_runner& block_runner::current(const char* who) {
  if (!in_launch) [[unlikely]]
    fail_outside(who);
  return *in_launch;
}

inline void block_runner::enter(uint32_t id) {
  running_ = id;
  lane_in_block = id;
  threadIdx = lanes_[id].index;
}

/// Takes the next lane to run from the ready ones; -1: there is none. When the block is being abandoned, it is a lane
/// that waits anywhere, so that its stack is unwound.
inline int block_runner::choose() {
  if (stopping_) [[unlikely]] {
    for (uint32_t id = 0; id < lanes_count_; ++id)
      if (lanes_[id].on) return static_cast<int>(id);
    return -1;
  }
  if (next_unstarted_ < lanes_count_) return static_cast<int>(next_unstarted_++);
  if (explores && grouping_count_ && (working() == 0 || random_.below(16) == 0)) release_group();
  if (ready_ == 0) return -1;
  if (explores) std::swap(queue_[head_ % max_lanes], queue_[(head_ + random_.below(ready_)) % max_lanes]);
  const uint32_t id = queue_[head_++ % max_lanes];
  --ready_;
  if (lanes_[id].relaxing) {
    lanes_[id].relaxing = false;
    --ready_relaxing_;
  }
  return static_cast<int>(id);
}

inline void block_runner::make_ready(uint32_t id, bool relaxing) {
  queue_[(head_ + ready_++) % max_lanes] = static_cast<uint16_t>(id);
  lanes_[id].relaxing = relaxing;
  if (relaxing) {
    ++ready_relaxing_;
  } else {
    moved();
  }
}

/// Runs other lanes until the calling lane, which waits or is ready, is chosen.
__forceinline__ void block_runner::suspend(bool may_throw) {
  const uint32_t self = running_;
  const int id = choose();
  if (id < 0) {
    abandon_deadlocked();
    return stop_lane();
  }
  if (static_cast<uint32_t>(id) == self) return;
  if (!lanes_[id].on) {
    carrier& fresh = carriers_->take();
    fresh.lane = static_cast<uint32_t>(id);
    carriers_->switch_to(fresh);
  } else {
    carriers_->switch_to(*lanes_[id].on);
  }
  enter(self);
  if (stopping_ && may_throw) stop_lane();
}

inline void block_runner::stop_if_failed() {
  if (launch_->failed.load(std::memory_order_relaxed)) [[unlikely]]
    stopping_ = true;
}

}  // namespace gravel::detail::simt::inner
