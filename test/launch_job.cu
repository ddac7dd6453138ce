// gravel_launch in all its forms, each checked by what it leaves in memory. One source for the CPU backend and for GPUs; run
// under ucx-run with any number of PEs, and with a time limit: most mistakes here would show as a job that does not end.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gravel.cuh"

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s\n", gravel_my_pe(), what);
}
void expect_refusal(const char* what, const char* word, const std::function<void()>& launch) {
  std::string text = "(nothing)";
  try {
    launch();
  } catch (const gravel::error& e) {
    text = e.what();
  }
  if (text.find(word) != std::string::npos) return;
  ++failures;
  fprintf(stderr, "PE %d: %s: expected an error with '%s' in it, got %s\n", gravel_my_pe(), what, word, text.c_str());
}

uint64_t read(const uint64_t* symmetric) {
  uint64_t value;
  gravel_copy(&value, symmetric, sizeof(value));
  return value;
}

__global__ void increment(gravel_t g, uint64_t* counter) { gravel_inc(g, counter, (gravel_my_pe(g) + 1) % gravel_n_pes(g)); }

/// Needs the resolver to run beside it: every lane waits for an answer.
__global__ void fetch(gravel_t g, uint64_t* counter) { gravel_fetch_add(g, counter, uint64_t{1}, (gravel_my_pe(g) + 1) % gravel_n_pes(g)); }

/// Lane i of the block fills its part of the dynamic shared memory, and adds up another lane's.
__global__ void use_shared(gravel_t g, uint64_t* sum, uint32_t words) {
  auto* shared = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i + blockIdx.x;
  __syncthreads();
  uint64_t mine = 0;
  for (uint32_t i = blockDim.x - 1 - threadIdx.x; i < words; i += blockDim.x) mine += shared[i];
  gravel_add(g, sum, mine, gravel_my_pe(g));
}

/// Every block waits until all have come: a barrier of the grid.
__global__ void meet(gravel_t g, uint64_t* arrived, uint64_t* met) {
  if (threadIdx.x != 0) return;
  gravel::fetch_add<gravel::scope::device>(arrived, uint64_t{1});
  for (gravel::relax wait; gravel::load_acquire<gravel::scope::device>(arrived) < gridDim.x; wait()) {
  }
  gravel_inc(g, met, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

/// A lane's array does not fit into registers, nor into the stack that CUDA gives every lane at first.
constexpr int local_words = 1024;
__global__ void use_local(gravel_t g, uint64_t* sum, int stride) {
  volatile uint32_t array[local_words];
  for (int i = 0; i < local_words; ++i) array[i * stride % local_words] = static_cast<uint32_t>(i);
  uint64_t mine = 0;
  for (int i = 0; i < local_words; ++i) mine += array[i];
  gravel_add(g, sum, mine, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

void check_refusals(uint64_t* counter) {
  const gravel_t g = gravel_handle();
  expect_refusal("a block of 2048", "block of (2048,1,1)", [&] { gravel_launch(increment, 1, 2048, g, counter); });
  expect_refusal("a block of none", "block of (0,1,1)", [&] { gravel_launch(increment, 1, 0, g, counter); });
  expect_refusal("a grid of none", "grid of (0,1,1)", [&] { gravel_launch(increment, 0, 32, g, counter); });
  expect_refusal("a high grid", "grid of (1,70000,1)", [&] { gravel_launch(increment, dim3(1, 70000), 32, g, counter); });
  expect_refusal("much shared memory", "shared memory", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 1, .block = 32, .shared_bytes = 1 << 20}, g, counter);
  });
  expect_refusal("a cooperative grid that has no room", "cooperative grid of 1000000", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 1000000, .block = 1024, .cooperative = true}, g, counter);
  });
  expect_refusal("a cluster of 64", "cluster", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 64, .block = 32, .cluster = dim3(64)}, g, counter);
  });
  // Nothing of it is left: the resolver still comes and goes, and this ends.
  gravel_launch(fetch, 2, 64, g, counter);
  gravel_synchronize();
#if GRAVEL_CUDA
  gravel::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize after refused launches");
#endif
  gravel_barrier_all();
  expect(read(counter) == 128, "kernels after refused launches");
}

void check_threads(uint64_t* counter) {
  // A thread that knows nothing of devices.
  std::thread([&] {
    gravel_launch(fetch, 2, 64, gravel_handle(), counter);
    gravel_synchronize();
    uint64_t value = 77;
    gravel_copy(&counter[1], &value, sizeof(value));
    gravel_quiet();
  }).join();
#if GRAVEL_CUDA
  // One that means another device, and does so afterwards.
  int devices = 0, chosen = -1;
  gravel::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  for (int device = 0; device < devices; ++device) {
    gravel::cuda_check(cudaSetDevice(device), "cudaSetDevice");
    gravel_launch(increment, 1, 32, gravel_handle(), &counter[2]);
    gravel_quiet();
    gravel::cuda_check(cudaGetDevice(&chosen), "cudaGetDevice");
    expect(chosen == device, "the program's device is another after gravel_launch");
  }
  gravel_barrier_all();
  expect(read(&counter[2]) == 32u * static_cast<unsigned>(devices), "launches while the program means another device");
#endif
  gravel_barrier_all();
  expect(read(counter) == 128, "a launch from another thread");
  expect(read(&counter[1]) == 77, "gravel_copy from another thread");
}

void check_shared(uint64_t* sum) {
  constexpr uint32_t words = 25 << 10, blocks = 6;  // 100 KiB, twice what a kernel has without asking
  gravel_launch(use_shared, gravel_launch_config{.grid = blocks, .block = 128, .shared_bytes = words * 4}, gravel_handle(), sum, words);
  gravel_barrier_all();
  const uint64_t in_one = uint64_t{words} * (words - 1) / 2;
  expect(read(sum) == blocks * in_one + uint64_t{words} * (blocks * (blocks - 1) / 2), "dynamic shared memory");
}

void check_cooperative(uint64_t* words) {
  if (getenv("GRAVEL_CPU_SEED")) return;  // one block at a time
  constexpr unsigned blocks = 16;
  gravel_launch(meet, gravel_launch_config{.grid = blocks, .block = 32, .cooperative = true}, gravel_handle(), words, words + 1);
  gravel_barrier_all();
  expect(read(words) == blocks && read(words + 1) == blocks, "a cooperative kernel");
}

void check_local(uint64_t* sum) {
  gravel_launch(use_local, 2, 32, gravel_handle(), sum, 3);
  gravel_barrier_all();
  expect(read(sum) == uint64_t{64} * local_words * (local_words - 1) / 2, "a kernel with much local memory");
}

}  // namespace

/// With the word "cuda-first" CUDA is in use, and its way to load kernels decided, before Gravel can say a word.
int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "cuda-first") {
#if GRAVEL_CUDA
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    gravel::cuda_check(cudaFree(nullptr), "cudaFree");
#endif
  }
  gravel_init<>();
  const std::function<void(uint64_t*)> checks[] = {check_refusals, check_threads, check_shared, check_cooperative, check_local};
  for (const auto& check : checks) {
    auto* words = gravel_malloc<uint64_t>(16 * sizeof(uint64_t));
    check(words);
    gravel_barrier_all();
    gravel_free(words);
  }
  const uint64_t all = gravel_sum_all(uint64_t(failures));
  if (gravel_my_pe() == 0) printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
