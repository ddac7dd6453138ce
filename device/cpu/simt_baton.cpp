#include "device/cpu/simt_baton.hpp"

#include <algorithm>

#include "lib/base/relax.hpp"

namespace gravel::simt::detail {

baton::baton(uint64_t seed, uint32_t blocks) : blocks_(blocks), random_(seed ^ 0x6a09e667f3bcc909u) {
  for (uint32_t b = 0; b < blocks; ++b) {
    turn_.emplace_back();
    running_.push_back(b);
  }
  turn_[random_.below(blocks)].give();
}

bool baton::join(uint32_t block) {
  {
    std::unique_lock lock(lock_);
    if (++joined_ == blocks_) gate_.notify_all();
    gate_.wait(lock, [this] { return joined_ == blocks_ || given_up_; });
    if (joined_ != blocks_) return false;
  }
  turn_[block].wait();
  return true;
}

void baton::give_up() {
  std::lock_guard lock(lock_);
  given_up_ = true;
  gate_.notify_all();
}

void baton::leave(uint32_t block) {
  moved();
  std::erase(running_, block);
  if (!running_.empty()) turn_[running_[random_.below(static_cast<uint32_t>(running_.size()))]].give();
}

uint32_t baton::wait(uint32_t block, uint32_t rounds) {
  const auto others = static_cast<uint32_t>(running_.size()) - 1;
  if (idle_++ >= 2 * others) {  // drawn so often, each of them has mostly had its turn
    idle_ = 0;
    ++idle_rounds_;
    return std::min(rounds, relax::yields_from - 1 + idle_rounds_);
  }
  pass(block);
  return 0;
}

void baton::pass(uint32_t block) {
  uint32_t place = random_.below(static_cast<uint32_t>(running_.size()) - 1);
  if (running_[place] >= block) ++place;  // the places behind this block's belong to the others too
  turn_[running_[place]].give();
  turn_[block].wait();
}

}  // namespace gravel::simt::detail
