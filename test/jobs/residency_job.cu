// A service with many resident blocks, the resolver, and kernels that fill the GPU and wait for both, again and again:
// with blocks that want all shared memory of a multiprocessor, with cudaMalloc, cudaFree and cudaDeviceSynchronize
// beside them, and with pauses in which the service goes to sleep. If a service
// block cannot become resident, the job does not end, so run it with a time limit:
//   ucx-run -n 1 --timeout 120 residency_job [rounds [service_blocks]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

namespace {

/// Writes the value of a message to a word of the PE, for which a kernel waits.
struct answerer {
  static constexpr const char* name = "answerer";
  static constexpr uint32_t threads = 64;
  struct message {
    uint32_t slot, value;
  };
  uint32_t* answers;
  __device__ void operator()(const gravel_service_block<answerer>& here,
                             const gravel_service_batch<message>& batch) const {
    for (uint32_t i = here.rank(); i < batch.size(); i += here.size())
      gravel::detail::store_release<gravel::detail::scope::device>(&answers[batch[i].slot], batch[i].value);
  }
};

/// Every block waits for the answer of its service block and for that of another PE's resolver. It touches all shared
/// memory that it asked for.
__global__ void ask(gravel_service_handle<answerer> to, uint32_t* answers, uint64_t* counter, uint32_t round,
                    uint32_t shared_words) {
  auto* const room = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  for (uint32_t i = threadIdx.x; i < shared_words; i += blockDim.x) room[i] = round;
  __syncthreads();
  if (threadIdx.x != 0) return;
  gravel_service_send(to, static_cast<int>(to.g.my_pe), blockIdx.x % to.blocks(), {blockIdx.x, round});
  gravel_fetch_add(to.g, counter, uint64_t{1}, static_cast<int>((to.g.my_pe + 1) % to.g.n_pes));
  for (gravel::detail::relax wait;
       gravel::detail::load_acquire<gravel::detail::scope::device>(&answers[blockIdx.x]) != round; wait()) {
  }
}

/// Sends to another PE's service and ends at once: there, nothing may run that keeps it awake.
__global__ void send_far(gravel_service_handle<answerer> to, uint32_t slot, uint32_t value) {
  if (threadIdx.x < to.blocks())
    gravel_service_send(to, static_cast<int>((to.g.my_pe + 1) % to.g.n_pes), threadIdx.x, {slot + threadIdx.x, value});
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t rounds = GRAVEL_CUDA ? 100 : 5, service_blocks = GRAVEL_CUDA ? 32 : 3;
  if (argc > 1) rounds = static_cast<uint32_t>(std::atoi(argv[1]));
  if (argc > 2) service_blocks = static_cast<uint32_t>(std::atoi(argv[2]));
  gravel_init<gravel_service_delivery<answerer>>();
  unsigned blocks = 6;
  size_t shared = 4096;
#if GRAVEL_CUDA
  int device = 0, processors = 0, most = 0;
  gravel::detail::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  gravel::detail::cuda_check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attributes");
  gravel::detail::cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                             "attributes");
  blocks = 3 * static_cast<unsigned>(processors);
  shared = static_cast<size_t>(most);
#endif
  auto* answers = gravel_malloc<uint32_t>((blocks + service_blocks) * sizeof(uint32_t));
  auto* counter = gravel_malloc<uint64_t>(sizeof(uint64_t));
  uint64_t wrong = 0;
  {
    gravel_service<answerer> service(answerer{answers}, {.blocks = service_blocks, .chunks = 16});
    for (uint32_t round = 1; round <= rounds; ++round) {
      // In turn with the largest shared memory, and without: those blocks may share multiprocessors with service
      // blocks.
      const size_t bytes = round % 2 ? shared : 0;
      gravel_launch(ask, gravel_launch_config{.grid = blocks, .block = 256, .shared_bytes = bytes}, service.handle(),
                    answers, counter, round, static_cast<uint32_t>(bytes / sizeof(uint32_t)));
#if GRAVEL_CUDA
      void* memory = nullptr;
      gravel::detail::cuda_check(cudaMalloc(&memory, 16 << 20), "cudaMalloc beside a service");
      if (round % 3 == 0) gravel::detail::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize beside a service");
      gravel::detail::cuda_check(cudaFree(memory), "cudaFree beside a service");
#endif
      gravel_synchronize();
      if (round % 10 == 0) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(5));  // longer than a quantum: without the lease the service ends
#if GRAVEL_CUDA
        gravel::detail::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize beside a service that sleeps");
#endif
        gravel_barrier_all();
        gravel_launch(send_far, 1, 256, service.handle(), blocks, round);
        gravel_wait_quiescent();
        std::vector<uint32_t> far(service_blocks);
        gravel_copy(far.data(), answers + blocks, service_blocks * sizeof(uint32_t));
        for (uint32_t value : far) wrong += value != round;
      }
    }
  }
  gravel_barrier_all();
  uint64_t counted = 0;
  gravel_copy(&counted, counter, sizeof(counted));
  std::vector<uint32_t> last(blocks);
  gravel_copy(last.data(), answers, blocks * sizeof(uint32_t));
  for (uint32_t value : last) wrong += value != rounds;
  wrong += counted != uint64_t{rounds} * blocks;
  const uint64_t all_wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0)
    std::printf("%s: %u rounds of %u blocks beside %u service blocks, %d PEs, %s\n", all_wrong ? "FAILED" : "ok",
                rounds, blocks, service_blocks, gravel_n_pes(), gravel_backend());
  gravel_finalize();
  return all_wrong ? 1 : 0;
}
