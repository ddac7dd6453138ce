// Kernels that sort messages as block senders do: for message_sort_test.cpp, and for block_sender_job.cu, which
// compares them with CUB's sort on GPUs.
#pragma once
#include "device/message_sort.cuh"

namespace kernels {

/// The result of a sort.
template <int CAPACITY>
struct sorted_positions {
  uint16_t order[CAPACITY], row_first[CAPACITY];
  uint32_t n_messages, n_rows;
};

__device__ __forceinline__ uint32_t rank_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/// Thread scope: block.
template <int BLOCK, int CAPACITY>
__device__ __forceinline__ void store_result(const gravel::detail::message_sort<BLOCK, CAPACITY>& sorter,
                                             sorted_positions<CAPACITY>& result) {
  const uint32_t rank = rank_in_block();
  for (uint32_t i = rank; i < CAPACITY; i += BLOCK) {
    result.order[i] = sorter.order[i];
    result.row_first[i] = sorter.row_first[i];
  }
  if (rank == 0) {
    result.n_messages = sorter.n_messages;
    result.n_rows = sorter.n_rows;
  }
}

/// Each block sorts messages with the CAPACITY keys of its own, and does so `times` times. `lanes`: 0: the whole block
/// sorts; else these lanes of the first warp.
template <int BLOCK, int CAPACITY>
__global__ void __launch_bounds__(BLOCK) sort_messages(const uint32_t* keys, uint32_t units, uint32_t key_bits,
                                                       uint32_t lanes, int times, sorted_positions<CAPACITY>* result) {
  __shared__ gravel::detail::message_sort<BLOCK, CAPACITY> sorter;
  __shared__ uint32_t key[CAPACITY];
  const uint32_t rank = rank_in_block();
  for (uint32_t i = rank; i < CAPACITY; i += BLOCK) key[i] = keys[blockIdx.x * CAPACITY + i];
  __syncthreads();
  for (int t = 0; t < times; ++t) {
    if (lanes == 0) {
      sorter.sort(gravel::detail::block_team<BLOCK>(rank), key, units, key_bits);
    } else if (rank < 32 && (lanes >> rank & 1)) {
      const gravel::detail::lane_group group = gravel::detail::lane_group::active().part(lanes);
      sorter.sort(gravel::detail::group_team<gravel::detail::lane_group>{group}, key, units, key_bits);
    }
    __syncthreads();
  }
  store_result(sorter, result[blockIdx.x]);
}

/// Sorts messages that the block's threads count, each by itself or with its neighbours. Before that the block has
/// sorted other messages, some with keys that are not counted. `lanes`: as above.
template <int BLOCK, int CAPACITY>
__global__ void __launch_bounds__(BLOCK) sort_counted_messages(const uint32_t* keys, uint32_t units, uint32_t key_bits,
                                                               uint32_t lanes, sorted_positions<CAPACITY>* result) {
  using sort = gravel::detail::message_sort<BLOCK, CAPACITY>;
  __shared__ sort sorter;
  __shared__ uint32_t key[CAPACITY];
  const uint32_t rank = rank_in_block();
  sorter.begin_count(rank, BLOCK);
  for (uint32_t is_last = 0; is_last < 2; ++is_last) {
    const uint32_t more_bits = is_last ? 0 : 1;
    __syncthreads();
    for (uint32_t i = rank; i < units; i += BLOCK) {
      const uint32_t drawn = keys[blockIdx.x * CAPACITY + i];
      key[i] = drawn == sort::no_message ? drawn : drawn | (i & more_bits) << key_bits;
      if (key[i] != sort::no_message) sorter.count(gravel::detail::lane_group::active(), key[i], i);
    }
    __syncthreads();
    if (lanes == 0) {
      sorter.sort_counted(gravel::detail::block_team<BLOCK>(rank), key, units, key_bits + more_bits);
    } else if (rank < 32 && (lanes >> rank & 1)) {
      const gravel::detail::lane_group group = gravel::detail::lane_group::active().part(lanes);
      sorter.sort_counted(gravel::detail::group_team<gravel::detail::lane_group>{group}, key, units,
                          key_bits + more_bits);
    }
  }
  __syncthreads();
  store_result(sorter, result[blockIdx.x]);
}

}  // namespace kernels
