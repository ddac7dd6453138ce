// Baton: makes the blocks of a cooperative launch with a seed run concurrently and still in one order, drawn from the
// seed. Each block has its own thread, since its shared memory is private to a thread. Only the thread that holds the
// baton runs.
#pragma once
#include <semaphore.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <numeric>
#include <vector>

#include "device/cpu/simt_random.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail::simt::inner {

/// A thread's turn. A thread that waits for it sleeps at once. std::binary_semaphore would yield instead, to whatever
/// else this machine runs, for a time slice each, and a launch passes its turn on a hundred thousand times.
class turn {
 public:
  turn() { sem_init(&granted_, 0, 0); }
  ~turn() { sem_destroy(&granted_); }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;
  void grant() { sem_post(&granted_); }
  void wait() {
    while (sem_wait(&granted_) != 0) {  // a signal came
    }
  }

 private:
  sem_t granted_;
};

class baton {
 public:
  baton(uint64_t seed, uint32_t blocks)
      : blocks_(blocks), turn_(blocks), random_(seed ^ 0x6a09e667f3bcc909u), running_(blocks) {
    std::iota(running_.begin(), running_.end(), 0u);
    turn_[random_.below(blocks)].grant();
  }

  /// Waits until all blocks have a thread, and then until it is this block's turn. Returns false if the launch has
  /// failed before: then no block may run.
  bool join(uint32_t block) {
    {
      std::unique_lock lock(lock_);
      if (++joined_ == blocks_) gate_.notify_all();
      gate_.wait(lock, [this] { return joined_ == blocks_ || aborted_; });
      if (joined_ != blocks_) return false;
    }
    turn_[block].wait();
    return true;
  }
  /// Reports that a thread failed before it called join().
  void abort_join() {
    std::lock_guard lock(lock_);
    aborted_ = true;
    gate_.notify_all();
  }
  /// To be called by the holder when its block has ended.
  void leave(uint32_t block) {
    moved();
    std::erase(running_, block);
    if (!running_.empty()) turn_[running_[random_.below(static_cast<uint32_t>(running_.size()))]].grant();
  }

  // ---- called by the block that holds it
  /// Something other than waiting has happened.
  void moved() { idle_ = idle_rounds_ = 0; }
  /// At a place where blocks may be switched: switches now and then.
  void now_and_then(uint32_t block) {
    if (running_.size() > 1 && random_.below(8) == 0) pass(block);
  }
  /// The block cannot advance. Returns 0 if other blocks have run since. Otherwise none of them could advance either,
  /// and the result is the number of rounds, at most `rounds`, for which the caller shall wait.
  uint32_t wait(uint32_t block, uint32_t rounds) {
    const auto others = static_cast<uint32_t>(running_.size()) - 1;
    if (idle_++ >= 2 * others) {  // after so many draws each of them has mostly had its turn
      idle_ = 0;
      ++idle_rounds_;
      return std::min(rounds, relax::yields_from - 1 + idle_rounds_);
    }
    pass(block);
    return 0;
  }

 private:
  void pass(uint32_t block) {
    uint32_t place = random_.below(static_cast<uint32_t>(running_.size()) - 1);
    if (running_[place] >= block) ++place;  // the places behind this block's belong to the others too
    turn_[running_[place]].grant();
    turn_[block].wait();
  }

  const uint32_t blocks_;
  std::mutex lock_;
  std::condition_variable gate_;
  uint32_t joined_ = 0;  ///< under lock_, as is the next
  bool aborted_ = false;

  std::deque<turn> turn_;  ///< by block: granted by the block that passes the baton, and with it the members below
  random_numbers random_;
  std::vector<uint32_t> running_;  ///< blocks that have not ended, in ascending order
  uint32_t idle_ = 0;              ///< calls of wait() in a row
  uint32_t idle_rounds_ = 0;       ///< rounds of such calls
};

}  // namespace gravel::detail::simt::inner
