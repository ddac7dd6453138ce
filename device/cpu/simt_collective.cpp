// Barriers and warp collectives of the CPU backend. Each lane posts its value, and the last lane that arrives computes
// the results.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "device/cpu/simt_block.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail::simt::inner {

// ---- barriers

__forceinline__ bool block_runner::arrive_at_barrier(block_op op) {
  stop_if_failed();
  if (stopping_) {
    stop_lane();
    return false;
  }
  const uint32_t id = running_;
  at_barrier_[id / 32] |= 1u << id % 32;
  if (++arrived_[static_cast<size_t>(op)] == live_) {
    if (teams_.is_open_for_block() && abandon_incomplete()) {
      stop_lane();
      return false;
    }
    at_barrier_[id / 32] &= ~(1u << id % 32);
    return true;
  }
  suspend();
  return false;
}

/// A lane reads the result of the barrier before it arrives at the next one, which needs all live lanes.
void block_runner::release_barrier(block_op op) {
  if (op == block_op::count) barrier_result_ = static_cast<int>(votes_);
  else if (op == block_op::any) barrier_result_ = votes_ > 0;
  else barrier_result_ = votes_ == arrived_[static_cast<size_t>(op)];
  votes_ = 0;
  arrived_[static_cast<size_t>(op)] = 0;
  for (uint32_t w = 0; w < warps_; ++w)
    for (uint32_t waiting = std::exchange(at_barrier_[w], 0); waiting; waiting &= waiting - 1)
      make_ready(w * 32 + static_cast<uint32_t>(std::countr_zero(waiting)));
}

__forceinline__ int block_runner::block_collective(block_op op, bool predicate) {
  votes_ += predicate;
  if (arrive_at_barrier(op)) {
    release_barrier(op);
    const int result = barrier_result_;
    if (explores) interleave();
    return result;
  }
  return barrier_result_;
}

// ---- warps

/// The last lane that arrives computes the results of all lanes: a lane that continues may post again before others
/// have read.
void block_runner::complete_collective(uint32_t warp, uint32_t mask, warp_op op) {
  lane* const lanes = &lanes_[warp * 32];
  const auto each = [&](auto f) {
    for (uint32_t left = mask; left; left &= left - 1) f(lanes[std::countr_zero(left)]);
  };
  uint64_t common = lanes[std::countr_zero(mask)].value;
  const auto fold = [&](auto f) {
    for (uint32_t left = mask & (mask - 1); left; left &= left - 1)
      common = f(static_cast<uint32_t>(common), static_cast<uint32_t>(lanes[std::countr_zero(left)].value));
  };
  using u32 = uint32_t;
  switch (op) {
    case warp_op::sync: break;
    case warp_op::ballot:
    case warp_op::any:
    case warp_op::all: {
      const uint32_t votes = lanes_where(warp, mask, [](const lane& l) { return l.value != 0; });
      if (op == warp_op::ballot) common = votes;
      else if (op == warp_op::any) common = votes != 0;
      else common = votes == mask;
      break;
    }
    case warp_op::shuffle:
      each([&](lane& to) { to.result = mask >> to.argument & 1 ? lanes[to.argument].value : ~to.value; });
      return;
    case warp_op::match_any:
      each([&](lane& to) { to.result = lanes_where(warp, mask, [&](const lane& l) { return l.value == to.value; }); });
      return;
    case warp_op::match_all:
      common = lanes_where(warp, mask, [&](const lane& l) { return l.value != common; }) ? 0 : mask;
      break;
    case warp_op::add: fold([](u32 a, u32 b) { return a + b; }); break;
    case warp_op::min_unsigned: fold([](u32 a, u32 b) { return std::min(a, b); }); break;
    case warp_op::max_unsigned: fold([](u32 a, u32 b) { return std::max(a, b); }); break;
    case warp_op::min_signed: fold([](u32 a, u32 b) { return u32(std::min(int32_t(a), int32_t(b))); }); break;
    case warp_op::max_signed: fold([](u32 a, u32 b) { return u32(std::max(int32_t(a), int32_t(b))); }); break;
    case warp_op::bit_and: fold([](u32 a, u32 b) { return a & b; }); break;
    case warp_op::bit_or: fold([](u32 a, u32 b) { return a | b; }); break;
    case warp_op::bit_xor: fold([](u32 a, u32 b) { return a ^ b; }); break;
  }
  each([&](lane& to) { to.result = common; });
}

__forceinline__ uint64_t block_runner::warp_collective(warp_op op, uint32_t mask, uint64_t value, uint32_t argument) {
  stop_if_failed();
  if (stopping_) {
    stop_lane();
    return 0;
  }
  const uint32_t id = running_, warp = id / 32, bit = 1u << id % 32;
  lane& self = lanes_[id];
  mask &= existing(warp);
  if (!(mask & bit)) fail("{}: {} with mask {:#010x}, which does not name the caller", place(), name_of(op), mask);
  self.op = op;
  self.mask = mask;
  self.value = value;
  self.argument = argument;
  if (mask & ended_[warp]) {
    if (incomplete_ && abandon_incomplete()) {
      stop_lane();
      return 0;
    }
    check_mask(warp, bit);
  }
  posted_[warp] |= bit;
  if ((posted_[warp] & mask) != mask ||
      lanes_where(warp, mask, [&](const lane& l) { return l.mask != mask || l.op != op; })) {
    suspend();
    return self.result;
  }
  // With a seed, lanes that happen to be together may also be the lanes of a team. This means nothing for the team's
  // calls.
  if (!explores && teams_.is_open_for(warp, mask) && abandon_incomplete()) {
    stop_lane();
    return 0;
  }
  complete_collective(warp, mask, op);
  posted_[warp] &= ~mask;
  bool wait = true;
  for (uint32_t left = mask; left; left &= left - 1) {
    uint32_t& collectives = lanes_[warp * 32 + static_cast<uint32_t>(std::countr_zero(left))].collectives;
    if (collectives < collectives_of_a_wait) ++collectives;
    wait &= collectives < collectives_of_a_wait;
  }
  for (uint32_t left = mask & ~bit; left; left &= left - 1)
    make_ready(warp * 32 + static_cast<uint32_t>(std::countr_zero(left)), wait);
  const uint64_t result = self.result;
  if (explores) interleave();
  return result;
}

/// Throws if one of the lanes `waiting` waits for one that has ended.
void block_runner::check_mask(uint32_t warp, uint32_t waiting) const {
  for (; waiting; waiting &= waiting - 1) {
    const auto id = static_cast<uint32_t>(std::countr_zero(waiting));
    const lane& l = lanes_[warp * 32 + id];
    if (const uint32_t gone = l.mask & ended_[warp])
      fail("{}: deadlock: lane {} of warp {} waits in {} with mask {:#010x}, which names lane {}, but that has ended",
           describe_block(), id, warp, name_of(l.op), l.mask, std::countr_zero(gone));
  }
}

uint32_t block_runner::active_mask(const void* site) {
  stop_if_failed();
  const uint32_t id = running_, bit = 1u << id % 32;
  if (stopping_) {
    stop_lane();
    return bit;
  }
  lanes_[id].site = site;
  grouping_[id / 32] |= bit;
  ++grouping_count_;
  suspend();
  return static_cast<uint32_t>(lanes_[id].result);
}

/// Lets some lanes that wait in __activemask continue as a group: one lane drawn from all, and with it all or some
/// lanes of its warp that are at the same place. Called now and then, and always when only relaxing lanes are ready, so
/// that no lane waits there for ever.
void block_runner::release_group() {
  uint32_t skip = random_.below(grouping_count_), warp = 0;
  for (; static_cast<uint32_t>(std::popcount(grouping_[warp])) <= skip; ++warp)
    skip -= static_cast<uint32_t>(std::popcount(grouping_[warp]));
  uint32_t first = grouping_[warp];
  for (; skip; --skip) first &= first - 1;
  first &= -first;
  const void* const site = lanes_[warp * 32 + static_cast<uint32_t>(std::countr_zero(first))].site;
  uint32_t group = lanes_where(warp, grouping_[warp], [&](const lane& l) { return l.site == site; });
  if (random_.below(2)) group &= static_cast<uint32_t>(random_()) | first;
  grouping_[warp] &= ~group;
  grouping_count_ -= static_cast<uint32_t>(std::popcount(group));
  for (uint32_t left = group; left; left &= left - 1) {
    const uint32_t id = warp * 32 + static_cast<uint32_t>(std::countr_zero(left));
    lanes_[id].result = group;
    make_ready(id);
  }
}

// ---- calls of teams

void block_runner::enter_team(team_call call, uint32_t lanes, const uint64_t* arguments, uint32_t count) {
  stop_if_failed();
  if (stopping_) return stop_lane();
  const uint32_t id = running_, warp = id / 32;
  if (lanes >> id % 32 & 1) lanes &= existing(warp);
  bool first = false;
  std::string why = teams_.enter(id, call, lanes, arguments, count, &first);
  if (!why.empty()) why = fmt::format("{}: {}", describe_block(), why);
  else if (first && facts_of(call).scope == team_scope::grid && launch_->has_grid_calls())
    why = launch_->enter_grid(block_number(), grid_calls_made_++, call);
  if (!why.empty()) {
    abandon(why);
    return stop_lane();
  }
  if (first) incomplete_ |= teams_.is_open() && teams_.lacks(ended_);
}

// ---- what kernels call

uint64_t warp_collective(warp_op op, uint32_t mask, uint64_t value, uint32_t argument) {
  return block_runner::current("a warp collective").warp_collective(op, mask, value, argument);
}
int block_collective(block_op op, bool predicate) {
  return block_runner::current("__syncthreads").block_collective(op, predicate);
}
GRAVEL_NOINLINE uint32_t active_mask() {
  return block_runner::current("__activemask").active_mask(__builtin_return_address(0));
}
void sleep(unsigned nanoseconds) {
  // A waiting loop may sleep here instead of relaxing. Then the thread yields, but does not sleep longer than
  // requested.
  if (relax_hook && relax_hook(relax::sleeps_from - 1) == 0) return;
  const timespec pause{nanoseconds / 1'000'000'000, static_cast<long>(nanoseconds % 1'000'000'000)};
  nanosleep(&pause, nullptr);
}
void trap() { fail("{}: __trap()", block_runner::current("__trap").place()); }
void bad_width(int width) {
  fail("{}: a shuffle of width {}; it must be 1, 2, 4, 8, 16 or 32", block_runner::current("a shuffle").place(), width);
}

}  // namespace gravel::detail::simt::inner

namespace gravel::detail::simt {
void enter_team(team_call call, uint32_t lanes, const uint64_t* arguments, uint32_t count) {
  if (inner::in_launch) inner::in_launch->enter_team(call, lanes, arguments, count);
}
}  // namespace gravel::detail::simt
