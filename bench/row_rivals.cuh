// Rows read by random ids without Gravel: from pinned memory of the host by a plain kernel, as language models with
// memories of n-grams do; and by exchanges of NCCL between GPUs, as recommenders do: ids are ordered by owner, sent to
// the owners, which send rows back.
#pragma once
#include <algorithm>
#include <vector>

#include <gravel/table.cuh>
#include "bench/nccl.hpp"
#include "bench/perf/device.cuh"

namespace gravel_bench {

/// out[i] = row ids[i]: a warp reads a row, by words of 4 or 8 bytes.
template <class Word>
__global__ void read_rows(const Word* table, uint64_t words, const uint32_t* ids, uint64_t first, uint64_t n,
                          Word* out) {
  const uint64_t warps = uint64_t{gridDim.x} * (blockDim.x / 32), lane = threadIdx.x % 32;
  for (uint64_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < n; i += warps) {
    const Word* const row = table + (ids[i] - first) * words;
    for (uint64_t w = lane; w < words; w += 32) out[i * words + w] = row[w];
  }
}
/// Starts read_rows(). `first`: number of the table's first row.
inline void start_read_rows(const char* table, uint64_t row_bytes, const uint32_t* ids, uint64_t first, uint64_t n,
                            char* out, gravel_stream_t stream) {
  if (n == 0) return;
  gravel_launch_config how{static_cast<unsigned>(GRAVEL_CUDA ? std::min<uint64_t>((n + 7) / 8, 1056) : 2), 256};
  how.stream = stream;
  const auto start = [&]<class Word>(Word) {
    launch_alone(read_rows<Word>, how, reinterpret_cast<const Word*>(table), row_bytes / sizeof(Word), ids, first, n,
                 reinterpret_cast<Word*>(out));
  };
  if (row_bytes % 8 == 0) start(uint64_t{});
  else start(uint32_t{});
}

#if GRAVEL_CUDA
__global__ void count_owners(rows_view table, const uint32_t* ids, uint64_t n, unsigned long long* counts) {
  __shared__ uint32_t mine[64];
  if (threadIdx.x < 64) mine[threadIdx.x] = 0;
  __syncthreads();
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += uint64_t{gridDim.x} * blockDim.x)
    atomicAdd(&mine[table.owner(ids[i])], 1u);
  __syncthreads();
  if (threadIdx.x < 64 && mine[threadIdx.x]) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
/// Orders ids by owner. `next`: where the next id of each owner goes; places[i]: where ids[i] is.
__global__ void order_by_owner(rows_view table, const uint32_t* ids, uint64_t n, unsigned long long* next,
                               uint32_t* ordered, uint32_t* places) {
  __shared__ uint32_t mine[64];
  __shared__ unsigned long long first[64];
  for (uint64_t begin = uint64_t{blockIdx.x} * blockDim.x; begin < n; begin += uint64_t{gridDim.x} * blockDim.x) {
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    const uint64_t i = begin + threadIdx.x;
    const int owner = i < n ? table.owner(ids[i]) : 0;
    const uint32_t at = i < n ? atomicAdd(&mine[owner], 1u) : 0;
    __syncthreads();
    if (threadIdx.x < 64 && mine[threadIdx.x]) first[threadIdx.x] = atomicAdd(&next[threadIdx.x], mine[threadIdx.x]);
    __syncthreads();
    if (i < n) {
      ordered[first[owner] + at] = ids[i];
      places[i] = static_cast<uint32_t>(first[owner] + at);
    }
    __syncthreads();
  }
}

/// A gather by exchanges of NCCL. PEs may have 64 at most, and the table is dealt in blocks.
class nccl_gather {
 public:
  /// `most`: ids of a call.
  nccl_gather(nccl_ring& nccl, const rows& table, uint64_t most)
      : nccl_(nccl),
        table_(table),
        pes_(static_cast<uint32_t>(gravel_n_pes())),
        counts_(2 * pes),
        ordered_(most),
        places_(most),
        came_(most * pes_),
        rows_(most * pes_ * table.row_bytes()),
        back_(most * table.row_bytes()) {}

  /// The host waits for the counts.
  void gather(char* out, const uint32_t* ids, uint64_t n, cudaStream_t stream) {
    cuda_check(cudaMemsetAsync(counts_.data(), 0, 2 * pes * sizeof(uint64_t), stream), "cudaMemsetAsync");
    auto* const counts = reinterpret_cast<unsigned long long*>(counts_.data());
    count_owners<<<blocks, 256, 0, stream>>>(table_.view(), ids, n, counts);
    std::vector<uint64_t> each(pes_ + 1);
    for (uint32_t pe = 0; pe <= pes_; ++pe) each[pe] = pe * sizeof(uint64_t);
    nccl_.all_to_all(counts_.data(), each, counts_.data() + pes, each, stream);
    std::vector<uint64_t> all(2 * pes);
    cuda_check(cudaMemcpyAsync(all.data(), counts_.data(), 2 * pes * sizeof(uint64_t), cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync");
    cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::vector<uint64_t> sent(pes_ + 1), asked(pes_ + 1);  // ids before those of a PE
    for (uint32_t pe = 0; pe < pes_; ++pe) {
      sent[pe + 1] = sent[pe] + all[pe];
      asked[pe + 1] = asked[pe] + all[pes + pe];
    }
    cuda_check(cudaMemcpyAsync(counts_.data(), sent.data(), pes_ * sizeof(uint64_t), cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    order_by_owner<<<blocks, 256, 0, stream>>>(table_.view(), ids, n, counts, ordered_.data(), places_.data());
    nccl_.all_to_all(ordered_.data(), times(sent, sizeof(uint32_t)), came_.data(), times(asked, sizeof(uint32_t)),
                     stream);
    const uint64_t bytes = table_.row_bytes();
    start_read_rows(static_cast<const char*>(table_.local()), bytes, came_.data(), table_.local_first(), asked[pes_],
                    rows_.data(), stream);
    nccl_.all_to_all(rows_.data(), times(asked, bytes), back_.data(), times(sent, bytes), stream);
    start_read_rows(back_.data(), bytes, places_.data(), 0, n, out, stream);
  }

 private:
  static constexpr uint32_t pes = 64, blocks = 264;
  static std::vector<uint64_t> times(std::vector<uint64_t> all, uint64_t factor) {
    for (uint64_t& one : all) one *= factor;
    return all;
  }
  nccl_ring& nccl_;
  const rows& table_;
  uint32_t pes_;
  perf::device_array<uint64_t> counts_;
  perf::device_array<uint32_t> ordered_, places_, came_;
  perf::device_array<char> rows_, back_;
};
#endif

}  // namespace gravel_bench
