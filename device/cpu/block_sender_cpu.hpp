// Parts of the block sender for a CPU, where one thread runs all lanes of a block.
#pragma once
#include "device/put.cuh"
#include "lib/base/error.hpp"

#if !GRAVEL_CUDA
namespace gravel::detail {

/// Operations on this PE's own memory that wait for their cache line.
///
/// Problem. On a CPU an atomic operation that misses the cache stalls everything behind it. It does not if the line was
/// prefetched some operations earlier. A GPU has no such problem.
/// Solution. Each operation prefetches its line and is applied some operations later.
///
/// This lies outside shared memory, so that a sender is as large as on a GPU. A thread runs one block at a time. All
/// senders of the block add to the same object, and the first one that ends applies all operations. Thread scope: the
/// thread that runs the block.
class own_operations {
 public:
  GRAVEL_API static thread_local own_operations of_this_thread;
  /// Drops the operations of a block that failed.
  void begin() {
    if (block_ == simt::inner::blocks_begun) return;
    block_ = simt::inner::blocks_begun;
    for (entry& e : entries_) e.apply = nullptr;
  }
  template <class T>
  void add(op o, T* dest, T value) {
    __builtin_prefetch(dest, 1);
    entry& oldest = entries_[count_++ % depth];
    if (oldest.apply) oldest.apply(oldest);
    oldest = {&apply_entry<T>, o, dest, to_word(value)};
  }
  void finish() {
    for (uint32_t i = 0; i < depth; ++i) {  // the oldest first: two operations of one lane keep their order
      entry& oldest = entries_[count_++ % depth];
      if (oldest.apply) oldest.apply(oldest);
      oldest.apply = nullptr;
    }
  }

 private:
  static constexpr uint32_t depth = 16;
  struct entry {
    void (*apply)(const entry&);
    op o;
    void* dest;
    uint64_t value;
  };
  template <class T>
  static void apply_entry(const entry& e) {
    apply_mapped(e.o, static_cast<T*>(e.dest), from_word<T>(e.value));
  }
  entry entries_[depth] = {};
  uint32_t count_ = 0;
  uint64_t block_ = 0;  ///< the block to which the entries belong
};
GRAVEL_API inline constinit thread_local own_operations own_operations::of_this_thread{};

}  // namespace gravel::detail
#endif
