// CUDA's cooperative groups for the CPU backend: blocks, tiles of a warp, and grids of cooperative launches.
#pragma once
#include <gravel/cuda_on_cpu/cuda_runtime.h>

namespace cooperative_groups {

/// All threads of the block.
class thread_block {
 public:
  static void sync() { __syncthreads(); }
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

/// `Size` neighbouring lanes of a warp: a power of two, at most 32.
template <unsigned Size>
class thread_block_tile {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  static constexpr unsigned num_threads() { return Size; }
  static constexpr unsigned size() { return Size; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
  static void sync() { __syncwarp(mask()); }
  template <class T>
  static T shfl(T value, int source) {
    return static_cast<T>(__shfl_sync(mask(), value, source, Size));
  }
  template <class T>
  static T shfl_up(T value, unsigned delta) {
    return static_cast<T>(__shfl_up_sync(mask(), value, delta, Size));
  }
  template <class T>
  static T shfl_down(T value, unsigned delta) {
    return static_cast<T>(__shfl_down_sync(mask(), value, delta, Size));
  }
  template <class T>
  static T shfl_xor(T value, int lanes) {
    return static_cast<T>(__shfl_xor_sync(mask(), value, lanes, Size));
  }
  static bool any(int predicate) { return __any_sync(mask(), predicate) != 0; }
  static bool all(int predicate) { return __all_sync(mask(), predicate) != 0; }
  static unsigned ballot(int predicate) { return __ballot_sync(mask(), predicate) >> first(); }

 private:
  static unsigned first() { return thread_block::thread_rank() % 32 / Size * Size; }
  static unsigned mask() { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << first(); }
};
template <unsigned Size, class Parent>
thread_block_tile<Size> tiled_partition(const Parent&) {
  return {};
}

/// All threads of the grid of a cooperative launch.
class grid_group {
 public:
  static bool is_valid() { return gravel_is_cooperative(); }
  static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
  }
  static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
  /// Waits for all blocks. The arrivals count on: those of the n-th call are complete at n times the number of blocks.
  static void sync() {
    __syncthreads();
    if (thread_block::thread_rank() == 0) {
      using namespace gravel;
      uint64_t* const arrivals = detail::simt::inner::grid_arrivals;
      const uint64_t before = detail::fetch_add_release<detail::scope::device>(arrivals, uint64_t{1});
      const uint64_t complete = (before / num_blocks() + 1) * num_blocks();
      for (detail::relax wait; detail::load_acquire<detail::scope::device>(arrivals) < complete; wait.attentively()) {
      }
    }
    __syncthreads();
  }
};
inline grid_group this_grid() { return {}; }

template <class Group>
void sync(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups
