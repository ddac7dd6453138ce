// A program of NVSHMEM, as it is, but for one line: a histogram that is spread over all PEs. Bin b lives at PE b % n.
// Lanes draw different numbers of samples, so they diverge.
//
//     gravel-nvcc --nvshmem histogram.cu -o histogram && ucx-run -n 4 ./histogram
//     gravel-nvcc --nvshmem -DNVSHMEM_GATHER histogram.cu -o histogram && ucx-run -n 4 ./histogram
//
// With -DNVSHMEM_GATHER the line NVSHMEM_GATHER_BLOCK makes each block gather its increments before it sends them.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#ifndef NVSHMEM_GATHER_BLOCK  // NVSHMEM has no such line
#define NVSHMEM_GATHER_BLOCK(threads)
#endif

constexpr int threads = 128, blocks = 4;
constexpr uint32_t bins = 1000;

__global__ void draw(uint64_t* bin) {
  NVSHMEM_GATHER_BLOCK(threads);
  const uint32_t n = static_cast<uint32_t>(nvshmem_n_pes());
  uint32_t random = blockIdx.x * threads + threadIdx.x + 1;
  for (unsigned i = 0; i < 100 + threadIdx.x; ++i) {
    random = random * 1664525u + 1013904223u;
    const uint32_t b = (random >> 8) % bins;
    if (b % 3 != 0) nvshmem_uint64_atomic_inc(&bin[b / n], static_cast<int>(b % n));
  }
}

int main() {
  nvshmem_init();
  int devices = 1;
  cudaGetDeviceCount(&devices);
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
  auto* bin = static_cast<uint64_t*>(nvshmem_calloc(bins, sizeof(uint64_t)));
  auto* count = static_cast<uint64_t*>(nvshmem_calloc(2, sizeof(uint64_t)));  // of this PE, and of all
  void* arguments[] = {&bin};
  if (nvshmemx_collective_launch((const void*)draw, blocks, threads, arguments, 0, 0) != 0) return 1;
  cudaDeviceSynchronize();
  nvshmem_barrier_all();

  std::vector<uint64_t> mine(bins);
  cudaMemcpy(mine.data(), bin, bins * sizeof(uint64_t), cudaMemcpyDeviceToHost);
  uint64_t here = 0, all = 0, expected = 0;
  for (uint64_t in_bin : mine) here += in_bin;
  cudaMemcpy(&count[0], &here, sizeof(here), cudaMemcpyHostToDevice);
  nvshmem_uint64_sum_reduce(NVSHMEM_TEAM_WORLD, &count[1], &count[0], 1);
  cudaMemcpy(&all, &count[1], sizeof(all), cudaMemcpyDeviceToHost);

  for (unsigned lane = 0; lane < blocks * threads; ++lane) {
    uint32_t random = lane + 1;
    for (unsigned i = 0; i < 100 + lane % threads; ++i) {
      random = random * 1664525u + 1013904223u;
      expected += (random >> 8) % bins % 3 != 0;
    }
  }
  expected *= static_cast<uint64_t>(nvshmem_n_pes());
  if (nvshmem_my_pe() == 0) std::printf("%llu samples\n", static_cast<unsigned long long>(all));
  nvshmem_free(bin);
  nvshmem_free(count);
  nvshmem_finalize();
  return all != expected;
}
