// cudaMalloc, cudaFree and cudaDeviceSynchronize in the middle of traffic must not hang: while kernels send, while
// handlers of other PEs' messages run here, and while nothing of this PE runs but messages still arrive. A foreign
// kernel that fills the GPU, before or after ours, may delay the job but not stop it.
#include <cstdio>

#include <gravel/gravel.cuh>
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

__global__ void spray(gravel_t g, uint64_t* table, uint64_t words, int each) {
  __shared__ gravel_block_sender<256> sender;
  sender.begin(g);
  uint64_t x = (blockIdx.x * blockDim.x + threadIdx.x + 1) * 0x9e3779b97f4a7c15ull * (g.my_pe + 1);
  for (int i = 0; i < each; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    sender.inc(&table[x % words], static_cast<int>((x >> 40) % g.n_pes));
  }
  sender.end();
}

#if GRAVEL_CUDA
/// A foreign kernel: blocks that want all shared memory of a multiprocessor, for a tenth of a second.
__global__ void occupy() {
  extern __shared__ char room[];
  room[0] = 1;
  for (const uint64_t begin = gravel::detail::globaltimer_ns(); gravel::detail::globaltimer_ns() - begin < 100'000'000;
       __nanosleep(1000)) {
  }
}
void fill_gpu() {
  int device = 0, processors = 0, shared = 0;
  gravel::detail::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  gravel::detail::cuda_check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attributes");
  gravel::detail::cuda_check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                             "attributes");
  gravel::detail::cuda_check(cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
                             "shared memory");
  static cudaStream_t stream = nullptr;
  if (!stream)
    gravel::detail::cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  occupy<<<processors, 1024, shared, stream>>>();
  gravel::detail::cuda_check(cudaGetLastError(), "a kernel that fills the GPU");
}
#endif

int main() {
  gravel_init<>();
  constexpr uint64_t words = 1 << 16;
  constexpr int each = 200, rounds = 10, blocks = GRAVEL_CUDA ? 264 : 8;
  auto* table = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  for (int round = 0; round < rounds; ++round) {
#if GRAVEL_CUDA
    if (round % 4 == 1) fill_gpu();
#endif
    gravel_launch(spray, blocks, 256, gravel_handle(), table, words, each);
#if GRAVEL_CUDA
    if (round % 4 == 3) fill_gpu();
    for (int i = 0; i < 3; ++i) {
      void* memory = nullptr;
      gravel::detail::cuda_check(cudaMalloc(&memory, 64 << 20), "cudaMalloc in traffic");
      if (i == 1) gravel::detail::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize in traffic");
      gravel::detail::cuda_check(cudaFree(memory), "cudaFree in traffic");
    }
#endif
  }
  gravel_barrier_all();
  // Messages in flight to a freed object do not reach the object that takes its place.
  uint64_t late = 0;
  for (int round = 0; round < rounds; ++round) {
    auto* object = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
    uint64_t part[4096];
    for (uint64_t at = 0; at < words; at += 4096) {
      gravel_copy(part, object + at, sizeof(part));
      for (uint64_t value : part) late += value;
    }
    gravel_barrier_all();
    gravel_launch(spray, 8, 256, gravel_handle(), object, words, each);
    gravel_free(object);
  }
  late = gravel_sum_all(late);
  uint64_t sum = 0;
  for (uint64_t at = 0; at < words; at += 4096) {
    uint64_t part[4096];
    gravel_copy(part, table + at, sizeof(part));
    for (uint64_t value : part) sum += value;
  }
  const uint64_t all = gravel_sum_all(sum), wanted = uint64_t(blocks) * 256 * each * rounds * uint64_t(gravel_n_pes());
  if (gravel_my_pe() == 0)
    printf("%s: %llu increments, expected %llu; %llu came into an object that was freed\n",
           all == wanted && !late ? "ok" : "FAILED", (unsigned long long)all, (unsigned long long)wanted,
           (unsigned long long)late);
  gravel_finalize();
  return all != wanted || late;
}
