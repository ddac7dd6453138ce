// Additions to words in shared memory, by all lanes of a block.
#pragma once
#include "device/simt.hpp"
#include "lib/base/atomic.hpp"

namespace gravel::detail {

#if GRAVEL_CUDA
/// Acquire and release: a reservation after the buffer was emptied must see that `written` was reset.
GRAVEL_DEVICE uint32_t block_add(uint32_t* word, uint32_t value) {
  return fetch_add_acq_rel<scope::shared>(word, value);
}
GRAVEL_DEVICE void block_add_release(uint32_t* word, uint32_t value) { fetch_add_release<scope::shared>(word, value); }
/// No order with other words.
GRAVEL_DEVICE uint32_t block_add_relaxed(uint32_t* word, uint32_t value) { return atomicAdd(word, value); }
#else
/// On the CPU backend one thread runs a block, so plain arithmetic is atomic among its lanes.
GRAVEL_DEVICE uint32_t block_add(uint32_t* word, uint32_t value) {
  interleave_point();
  const uint32_t old = *word;
  *word = old + value;
  return old;
}
GRAVEL_DEVICE void block_add_release(uint32_t* word, uint32_t value) { block_add(word, value); }
GRAVEL_DEVICE uint32_t block_add_relaxed(uint32_t* word, uint32_t value) { return block_add(word, value); }
#endif

}  // namespace gravel::detail
