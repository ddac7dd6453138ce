// The interface of gravel_block_sender over direct sends, so that one kernel body serves both ways to send.
#pragma once
#include <gravel/gravel.cuh>
#include "examples/common/lane_share.hpp"

namespace app {
using gravel::detail::same;

struct direct_sender {
  gravel_t g;
  /// Of one in shared memory, as that of gravel_block_sender. Thread scope: block, converged.
  GRAVEL_DEVICE void begin(const gravel_t& handle) {
    if (threadIdx.x == 0) g = handle;
    __syncthreads();
  }
  GRAVEL_DEVICE void end() {}
  template <class T>
  GRAVEL_DEVICE void put(T* dest, same<T> value, int pe) {
    gravel_put(g, dest, value, pe);
  }
  GRAVEL_DEVICE void inc(uint64_t* dest, int pe) { gravel_inc(g, dest, pe); }
  GRAVEL_DEVICE void add(uint64_t* dest, uint64_t value, int pe) { gravel_add(g, dest, value, pe); }
  GRAVEL_DEVICE void bit_xor(uint64_t* dest, uint64_t value, int pe) { gravel_xor(g, dest, value, pe); }
};

}  // namespace app
