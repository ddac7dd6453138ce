// Two classic queues of the host, to which Gravel's is compared as in figure 8 of the paper. Both move one
// message at a time; what waits does so by relax, as everywhere.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/base/relax.hpp"

namespace gravel_bench {
using namespace gravel::detail;

/// One producer, one consumer. Each writes an index on a cache line of its own, and keeps a copy of the
/// other's index, which it reads again only when the ring looks full or empty.
template <class T>
class spsc_queue {
 public:
  explicit spsc_queue(uint64_t cells) : cells_(std::make_unique<T[]>(cells)), size_(cells) {}

  void push(const T& value) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (relax wait;
         tail - head_seen_ == size_ && tail - (head_seen_ = head_.load(std::memory_order_acquire)) == size_;)
      wait();
    cells_[tail & (size_ - 1)] = value;
    tail_.store(tail + 1, std::memory_order_release);
  }
  T pop() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    for (relax wait; head == tail_seen_ && head == (tail_seen_ = tail_.load(std::memory_order_acquire));) wait();
    const T value = cells_[head & (size_ - 1)];
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

 private:
  const std::unique_ptr<T[]> cells_;
  const uint64_t size_;  ///< power of two
  alignas(64) std::atomic<uint64_t> tail_{0};
  uint64_t head_seen_ = 0;  ///< the producer's
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;  ///< the consumer's
};

/// Many producers, many consumers, bounded (D. Vyukov's): each cell, on lines of its own, has a sequence
/// number that says whose turn it is. Tickets are claimed only when the cell is ready, so nobody waits
/// inside.
template <class T>
class mpmc_queue {
 public:
  explicit mpmc_queue(uint64_t cells) : cells_(std::make_unique<cell[]>(cells)), size_(cells) {
    for (uint64_t i = 0; i < cells; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }

  void push(const T& value) {
    const uint64_t ticket = claim(tail_, 0);
    cell& at = cells_[ticket & (size_ - 1)];
    at.value = value;
    at.sequence.store(ticket + 1, std::memory_order_release);
  }
  T pop() {
    const uint64_t ticket = claim(head_, 1);
    cell& at = cells_[ticket & (size_ - 1)];
    const T value = at.value;
    at.sequence.store(ticket + size_, std::memory_order_release);
    return value;
  }

 private:
  struct alignas(64) cell {
    std::atomic<uint64_t> sequence;
    T value;
  };

  /// Takes the next ticket whose cell has the sequence number ticket + `turn`: 0 is empty, 1 full.
  uint64_t claim(std::atomic<uint64_t>& tickets, uint64_t turn) {
    uint64_t ticket = tickets.load(std::memory_order_relaxed);
    for (relax wait;;) {
      const uint64_t sequence = cells_[ticket & (size_ - 1)].sequence.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(sequence - (ticket + turn));
      if (ahead == 0) {
        if (tickets.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) return ticket;
      } else {
        if (ahead < 0) wait();  // the queue is full, or empty
        ticket = tickets.load(std::memory_order_relaxed);
      }
    }
  }

  const std::unique_ptr<cell[]> cells_;
  const uint64_t size_;  ///< power of two
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) std::atomic<uint64_t> head_{0};
};

}  // namespace gravel_bench
