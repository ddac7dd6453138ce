// Kernels that sort messages as block senders do: for message_sort_test.cpp, and for block_sender_job.cu, which compares them
// with CUB's sort on GPUs.
#pragma once
#include "device/message_sort.cuh"

namespace kernels {

/// What a sort finds.
template <int CAPACITY>
struct sorted_positions {
  uint16_t order[CAPACITY], row_first[CAPACITY];
  uint32_t n_messages, n_rows;
};

__device__ __forceinline__ uint32_t rank_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

/// Each block sorts messages with the CAPACITY keys of its own, and does so `times` times. `lanes`: 0: the whole block sorts;
/// else these lanes of the first warp.
template <int BLOCK, int CAPACITY>
__global__ void __launch_bounds__(BLOCK)
    sort_messages(const uint32_t* keys, uint32_t units, uint32_t key_bits, uint32_t lanes, int times, sorted_positions<CAPACITY>* result) {
  __shared__ gravel::message_sort<BLOCK, CAPACITY> sorter;
  __shared__ uint32_t key[CAPACITY];
  const uint32_t rank = rank_in_block();
  for (uint32_t i = rank; i < CAPACITY; i += BLOCK) key[i] = keys[blockIdx.x * CAPACITY + i];
  __syncthreads();
  for (int t = 0; t < times; ++t) {
    if (lanes == 0) {
      sorter.sort(gravel::block_team<BLOCK>(rank), key, units, key_bits);
    } else if (rank < 32 && (lanes >> rank & 1)) {
      const gravel::lane_group group = gravel::lane_group::active().part(lanes);
      sorter.sort(gravel::group_team<gravel::lane_group>{group}, key, units, key_bits);
    }
    __syncthreads();
  }
  sorted_positions<CAPACITY>& mine = result[blockIdx.x];
  for (uint32_t i = rank; i < CAPACITY; i += BLOCK) {
    mine.order[i] = sorter.order[i];
    mine.row_first[i] = sorter.row_first[i];
  }
  if (rank == 0) {
    mine.n_messages = sorter.n_messages;
    mine.n_rows = sorter.n_rows;
  }
}

}  // namespace kernels
