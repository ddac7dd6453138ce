#include "device/cpu/simt_block.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/error.hpp"

namespace gravel::detail::simt::inner {

namespace {
uint32_t relax_lane(uint32_t rounds) { return in_launch->relax(rounds); }
void interleave_lane() { in_launch->interleave(); }

/// From here on this thread runs lanes by `runner`, or none (nullptr), with these hooks of relax.hpp and atomic.hpp.
void run_lanes_by(block_runner* runner, bool exploring, relax_function relax, interleave_function interleave) {
  in_launch = runner;
  running_lanes = runner != nullptr;
  explores = exploring;
  relax_hook = relax;
  interleave_hook = interleave;
}
}  // namespace

void launch_state::record(std::exception_ptr e) {
  std::lock_guard lock(mutex);
  if (!error) error = std::move(e);
  failed.store(true, std::memory_order_relaxed);
}

std::string launch_state::enter_grid(uint64_t block, uint64_t number, team_call call) {
  std::lock_guard lock(mutex);
  if (number == grid_calls.size()) grid_calls.emplace_back(call, block);
  const auto& [other, by] = grid_calls[number];
  if (other != call)
    return fmt::format("block {} of the grid calls {} where block {} called {}. {}", block, facts_of(call).name, by,
                       facts_of(other).name, rule_of(call));
  if (number < fewest_grid_calls) return {};
  return fmt::format("{} was called by block {} of the grid, but block {} has ended without it. {}",
                     facts_of(call).name, block, ended_with_fewest, rule_of(call));
}
std::string launch_state::leave_grid(uint64_t block, uint64_t made) {
  std::lock_guard lock(mutex);
  if (made < fewest_grid_calls) {
    fewest_grid_calls = made;
    ended_with_fewest = block;
  }
  if (made >= grid_calls.size()) return {};
  const auto& [call, by] = grid_calls[made];
  return fmt::format("{} was called by block {} of the grid, but block {} has ended without it. {}",
                     facts_of(call).name, by, block, rule_of(call));
}

block_runner& block_runner::of_this_thread() {
  static thread_local block_runner runner;
  return runner;
}
block_runner::block_runner() : lanes_(max_lanes) {}

block_runner::~block_runner() {
  // If a lane has called exit(), from here on this thread is no lane, and static destructors may relax.
  if (in_launch == this) run_lanes_by(nullptr, false, nullptr, nullptr);
}

// ---- a thread's share of a launch

void block_runner::prepare(launch_state& launch) {
  launch_ = &launch;
  order_ = launch.order;
  if (!carriers_ || carriers_->stack_bytes() < launch.stack_bytes)
    carriers_ = std::make_unique<carriers>(
        launch.stack_bytes, [](void* owner, carrier& self) { static_cast<block_runner*>(owner)->carry(self); }, this);
  constexpr size_t alignment = 128;
  if (shared_bytes_ < launch.shared_bytes || !shared_) {
    shared_.reset(new char[launch.shared_bytes + alignment]);
    shared_bytes_ = launch.shared_bytes;
  }
  dynamic_shared =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(shared_.get()) + alignment - 1) & ~(alignment - 1));
  dynamic_shared_bytes = launch.shared_bytes;
  cooperative = launch.cooperative;
  grid_arrivals = &launch.grid_arrivals;
  blockDim = launch.block;
  gridDim = launch.grid;
  lanes_count_ = launch.block.x * launch.block.y * launch.block.z;
  warps_ = (lanes_count_ + 31) / 32;
  if (shape_.x != blockDim.x || shape_.y != blockDim.y || shape_.z != blockDim.z) {
    uint32_t id = 0;
    for (uint3 at{0, 0, 0}; at.z < blockDim.z; ++at.z)
      for (at.y = 0; at.y < blockDim.y; ++at.y)
        for (at.x = 0; at.x < blockDim.x; ++at.x) lanes_[id++].index = at;
    shape_ = blockDim;
  }
}

void block_runner::run_share(launch_state& launch) {
  const auto relax_before = relax_hook;
  const auto interleave_before = interleave_hook;
  try {
    prepare(launch);
    run_lanes_by(this, launch.seed != 0, relax_lane, launch.seed ? interleave_lane : nullptr);
    while (!launch.failed.load(std::memory_order_relaxed)) {
      const uint64_t i = launch.next_block.fetch_add(1, std::memory_order_relaxed);
      if (i >= launch.blocks) break;
      run_in_turn(i);
    }
  } catch (...) {
    launch.record(std::current_exception());
    if (launch.order) launch.order->abort_join();
  }
  run_lanes_by(nullptr, false, relax_before, interleave_before);
}

void block_runner::run_in_turn(uint64_t claimed) {
  // 128 bits, as the product may pass 64
  const auto index = static_cast<uint64_t>(
      (static_cast<unsigned __int128>(launch_->stride) * claimed + launch_->offset) % launch_->blocks);
  if (!order_) return run_block(index);
  claimed_ = static_cast<uint32_t>(claimed);
  if (!order_->join(claimed_)) return;
  const std::unique_ptr<baton, void (*)(baton*)> membership(order_, [](baton* b) { b->leave(in_launch->claimed_); });
  run_block(index);
}

void block_runner::run_block(uint64_t index) {
  const dim3& grid = launch_->grid;
  blockIdx.x = static_cast<unsigned>(index % grid.x);
  blockIdx.y = static_cast<unsigned>(index / grid.x % grid.y);
  blockIdx.z = static_cast<unsigned>(index / grid.x / grid.y);
  ++blocks_begun;
  live_ = lanes_count_;
  stopping_ = false;
  stops_ignored_ = stops_thrown_ = head_ = ready_ = ready_relaxing_ = grouping_count_ = votes_ = 0;
  moved();
  arrived_.fill(0);
  for (uint32_t w = 0; w < warps_; ++w) ended_[w] = at_barrier_[w] = posted_[w] = grouping_[w] = 0;
  next_unstarted_ = 0;
  teams_.begin(lanes_count_);
  incomplete_ = false;
  grid_calls_made_ = 0;
  if (launch_->seed) {
    random_ = random_numbers(launch_->seed ^ (index + 1) * 0xd1342543de82ef95u);
    // Some bugs need many switches, others one switch at the right place. So a seed also draws how often lanes are
    // preempted.
    constexpr uint32_t rates[] = {32768, 16384, 8192, 2048};
    preempt_ = rates[random_.below(4)];
    for (; next_unstarted_ < lanes_count_; ++next_unstarted_) make_ready(next_unstarted_);
  }
  carrier& first = carriers_->take();
  first.lane = static_cast<uint32_t>(choose());
  carriers_->switch_to(first);  // returns when the block has ended
}

// ---- scheduling

/// The function of a carrier: runs its first lane, then other lanes that have not started. It ends when no lane is
/// left, or when the next lane to run is suspended on another carrier.
void block_runner::carry(carrier& self) {
  int id = static_cast<int>(self.lane);
  do {
    const auto lane_id = static_cast<uint32_t>(id);
    lanes_[lane_id].on = &self;
    lanes_[lane_id].points = points_of_a_wait;
    lanes_[lane_id].collectives = collectives_of_a_wait;
    enter(lane_id);
    try {
      launch_->kernel();
    } catch (const cancelled&) {
    } catch (...) {
      launch_->record(std::current_exception());
    }
    end_lane(lane_id);
    id = choose();
    if (id < 0 && live_ > 0 && !stopping_) {
      abandon_deadlocked();
      id = choose();
    }
  } while (id >= 0 && !lanes_[id].on);
  carriers_->put_back(self);
  carriers_->switch_to(id >= 0 ? *lanes_[id].on : carriers_->main());
}

void block_runner::end_lane(uint32_t id) {
  const uint32_t warp = id / 32, bit = 1u << id % 32;
  lanes_[id].on = nullptr;
  ended_[warp] |= bit;
  --live_;
  moved();
  stop_if_failed();
  if (stopping_) return;
  if (teams_.is_open() && teams_.lacks(ended_)) {
    // The other lanes continue until they wait, so that all missing lanes are known.
    incomplete_ = true;
    if (live_ == 0 && abandon_incomplete()) return;
  }
  if (posted_[warp] && !incomplete_) {
    try {
      check_mask(warp, posted_[warp]);
    } catch (...) {
      launch_->record(std::current_exception());
      stopping_ = true;
      return;
    }
  }
  if (live_ == 0 && launch_->has_grid_calls())
    if (const std::string why = launch_->leave_grid(block_number(), grid_calls_made_); !why.empty())
      return abandon(why);
  for (auto op : {block_op::sync, block_op::count, block_op::all, block_op::any})
    if (live_ > 0 && arrived_[static_cast<size_t>(op)] == live_) {
      if (!teams_.is_open_for_block() || !abandon_incomplete()) release_barrier(op);
      return;
    }
}

uint32_t block_runner::relax(uint32_t rounds) {
  if (rounds == 0) {  // progress
    lanes_[running_].collectives = collectives_of_a_wait;
    moved();
    return 0;
  }
  stop_if_failed();
  if (stopping_) {
    stop_lane();
    return 0;
  }
  if (incomplete_ && working() == 0 && grouping_count_ == 0 && abandon_incomplete()) {
    stop_lane();
    return 0;
  }
  if (order_) order_->now_and_then(claimed_);
  lanes_[running_].collectives = rounds == 1 ? collectives_of_a_wait : 0;
  if (next_unstarted_ == lanes_count_ && ready_ == 0 && grouping_count_ == 0) {
    if (!order_) return rounds;
    if (rounds == 1) moved();
    return order_->wait(claimed_, rounds);
  }
  // When all lanes relax, the thread has to relax: in each round one call returns to the caller's own back-off. The
  // waiting time of a single lane means nothing: other lanes may have advanced meanwhile. A lane that waits for the
  // first time has done something since it last ran.
  if (working() > 0 || grouping_count_ > 0 || rounds == 1) {
    moved();
  } else if (++idle_calls_ > ready_) {
    idle_calls_ = 0;
    if (order_) return order_->wait(claimed_, rounds);
    ++idle_rounds_;
    return std::min(rounds,
                    gravel::detail::relax::yields_from - 1 + idle_rounds_);  // the other lanes' calls were the pause
  }
  lanes_[running_].points = 0;
  make_ready(running_, true);
  suspend();
  return 0;
}

void block_runner::interleave() {
  if (stopping_) {
    // Loops of atomics without relax() must end too. A destructor with a few atomics should still finish.
    if (++stops_ignored_ > 10'000) stop_lane();
    return;
  }
  uint32_t& points = lanes_[running_].points;
  if (points < points_of_a_wait) ++points;
  if (random_.below(65536) >= preempt_) return;
  if (order_) order_->now_and_then(claimed_);
  make_ready(running_, points < points_of_a_wait);
  suspend(false);
}

/// Leaves the lane by an exception, if that is possible. It is not while a destructor runs because of another
/// exception. Then the lane continues without having waited, but not for ever. Nor may it catch the exception for ever.
void block_runner::stop_lane() {
  if (std::uncaught_exceptions() != 0 && ++stops_ignored_ <= 1'000'000) return;
  if (++stops_thrown_ <= 100'000) throw cancelled(*launch_);
  try {
    throw cancelled(*launch_);
  } catch (...) {
    std::terminate();  // which prints the exception in flight
  }
}

const char* block_runner::cancelled::what() const noexcept {
  static thread_local std::string text;
  std::lock_guard lock(launch.mutex);
  text =
      "a lane that waits cannot be ended, for it catches what should end it, or waits in a destructor or noexcept "
      "function; it is to end "
      "because of this: " +
      text_of_thrown(launch.error, "something was thrown that is no std::exception");
  return text.c_str();
}

// ---- stacks

bool block_runner::find_overflow(const void* address, overflow& found) const {
  for (uint32_t id = 0; id < lanes_count_; ++id) {
    if (!lanes_[id].on) continue;
    const char* const bottom = static_cast<const char*>(lanes_[id].on->stack_bottom);
    if (address >= bottom || address < bottom - guard_bytes) continue;
    found = {id, {blockIdx.x, blockIdx.y, blockIdx.z}, lanes_[id].on->stack_bytes};
    return true;
  }
  return false;
}
bool is_overflow(const void* address, overflow& found) { return in_launch && in_launch->find_overflow(address, found); }

// ---- messages

const char* name_of(warp_op op) {
  static constexpr const char* names[] = {GRAVEL_WARP_OPS(GRAVEL_TEXT)};
  return names[static_cast<size_t>(op)];
}

const char* name_of(block_op op) {
  static constexpr const char* names[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and",
                                          "__syncthreads_or"};
  return names[static_cast<size_t>(op)];
}

void block_runner::fail_outside(const char* who) {
  fail("{} called outside a kernel (only lanes of gravel::detail::simt::launch may)", who);
}

void block_runner::abandon(const std::string& why) {
  launch_->record(std::make_exception_ptr(error(why)));
  stopping_ = true;
}
void block_runner::abandon_deadlocked() { abandon(teams_.is_open() ? describe_missing() : describe_deadlock()); }
/// Ends the block if a call of a team lacks lanes.
bool block_runner::abandon_incomplete() {
  if (!teams_.is_open()) return incomplete_ = false;
  abandon(describe_missing());
  return true;
}

std::string block_runner::describe_block() const {
  return fmt::format("block ({},{},{})", blockIdx.x, blockIdx.y, blockIdx.z);
}
std::string block_runner::place() const { return fmt::format("lane {} of {}", running_, describe_block()); }

std::string block_runner::describe_missing() const {
  return teams_.describe(describe_block(), [this](uint32_t id) { return state_of(id); });
}
std::string block_runner::state_of(uint32_t id) const {
  const uint32_t warp = id / 32, bit = 1u << id % 32;
  if (ended_[warp] & bit) return "ended without it";
  if (at_barrier_[warp] & bit) return "wait at a barrier of the block (__syncthreads)";
  if (posted_[warp] & bit) return fmt::format("wait in {}", name_of(lanes_[id].op));
  return "did not";
}

std::string block_runner::describe_deadlock() const {
  std::string text = describe_block() + ": deadlock, none of its lanes can go on:";
  for (size_t op = 0; op < arrived_.size(); ++op)
    if (arrived_[op]) text += fmt::format(" {} wait in {};", arrived_[op], name_of(block_op(op)));
  for (uint32_t w = 0; w < warps_; ++w) {
    for (uint32_t left = posted_[w]; left;) {
      const lane& first = lanes_[w * 32 + static_cast<uint32_t>(std::countr_zero(left))];
      const uint32_t same =
          lanes_where(w, left, [&](const lane& l) { return l.op == first.op && l.mask == first.mask; });
      text += fmt::format(" {} of warp {} (lanes {:#010x}) wait in {} with mask {:#010x};", std::popcount(same), w,
                          same, name_of(first.op), first.mask);
      left &= ~same;
    }
  }
  return text + fmt::format(" {} of {} have ended", lanes_count_ - live_, lanes_count_);
}

}  // namespace gravel::detail::simt::inner
