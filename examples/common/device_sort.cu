#include "examples/common/device_sort.hpp"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "examples/common/program.hpp"

namespace app {
namespace {

void need(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail_text(std::string(what) + " on the GPU: " + cudaGetErrorString(status));
}

/// Runs a function of CUB, which first returns how much memory it needs.
template <class Work>
void with_memory(const char* what, Work&& work) {
  size_t bytes = 0;
  need(work(nullptr, bytes), what);
  void* memory = nullptr;
  need(cudaMalloc(&memory, bytes), what);
  const cudaError_t status = work(memory, bytes);
  const cudaError_t ended = cudaStreamSynchronize(nullptr);
  need(cudaFree(memory), what);
  need(status, what);
  need(ended, what);
}

}  // namespace

uint64_t* sort_keys(uint64_t* keys, uint64_t* other, uint64_t count, int bits) {
  cub::DoubleBuffer<uint64_t> both(keys, other);
  with_memory("sorting", [&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, both, count, 0, bits);
  });
  return both.Current();
}

uint64_t* sort_pairs(uint64_t* keys, uint64_t* other, uint32_t* values, uint32_t* other_values, uint64_t count,
                     int bits) {
  cub::DoubleBuffer<uint64_t> both(keys, other);
  cub::DoubleBuffer<uint32_t> both_values(values, other_values);
  with_memory("sorting", [&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, both, both_values, count, 0, bits);
  });
  if ((both.Current() == keys) != (both_values.Current() == values))
    fail_text("sorting on the GPU: keys and values parted");
  return both.Current();
}

uint64_t keep_first(const uint64_t* keys, uint64_t* kept, uint64_t count) {
  int64_t* number = nullptr;
  need(cudaMalloc(&number, sizeof(int64_t)), "removing duplicates");
  with_memory("removing duplicates", [&](void* memory, size_t& bytes) {
    return cub::DeviceSelect::Unique(memory, bytes, keys, kept, number, static_cast<int64_t>(count));
  });
  int64_t host = 0;
  need(cudaMemcpy(&host, number, sizeof(host), cudaMemcpyDeviceToHost), "removing duplicates");
  need(cudaFree(number), "removing duplicates");
  return static_cast<uint64_t>(host);
}

}  // namespace app
