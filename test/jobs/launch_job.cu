// gravel_launch in all its forms, each checked by what it leaves in memory. One source for the CPU backend and for
// GPUs; run under ucx-run with any number of PEs, and with a time limit: most mistakes here would show as a job that
// does not end.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#if GRAVEL_CUDA
#include <cooperative_groups.h>

#include "host/pe/device_scope.cuh"
#endif

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
  } catch (const gravel::detail::error& e) {
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

__global__ void increment(gravel_t g, uint64_t* counter) {
  gravel_inc(g, counter, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

/// Needs the resolver to run beside it: every lane waits for an answer.
__global__ void fetch(gravel_t g, uint64_t* counter) {
  gravel_fetch_add(g, counter, uint64_t{1}, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

/// Lane i of the block fills its part of the dynamic shared memory, and adds up another lane's.
__global__ void use_shared(gravel_t g, uint64_t* sum, uint32_t words) {
  auto* shared = reinterpret_cast<uint32_t*>(gravel_dynamic_shared());
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i + blockIdx.x;
  __syncthreads();
  uint64_t mine = 0;
  for (uint32_t i = blockDim.x - 1 - threadIdx.x; i < words; i += blockDim.x) mine += shared[i];
  gravel_add(g, sum, mine, gravel_my_pe(g));
}

/// A barrier of the grid: every block waits until all have arrived.
__global__ void wait_for_grid(gravel_t g, uint64_t* arrived, uint64_t* passed) {
  if (threadIdx.x != 0) return;
  gravel::detail::fetch_add<gravel::detail::scope::device>(arrived, uint64_t{1});
  for (gravel::detail::relax wait; gravel::detail::load_acquire<gravel::detail::scope::device>(arrived) < gridDim.x;
       wait()) {
  }
  gravel_inc(g, passed, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

/// A token goes round through the blocks of all PEs: block 0 of each, block 1 of each, and so on. Every block waits for
/// one of another PE, so all of them must run at the same time, everywhere. The first lane says in dynamic shared
/// memory what the last one waits for.
__global__ void pass_token(gravel_t g, uint64_t* token, uint64_t rounds) {
  auto* turn = reinterpret_cast<uint64_t*>(gravel_dynamic_shared());
  const uint64_t n_pes = static_cast<uint64_t>(gravel_n_pes(g)), me = static_cast<uint64_t>(gravel_my_pe(g));
  for (uint64_t round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) *turn = (round * gridDim.x + blockIdx.x) * n_pes + me;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
      gravel_wait_until(g, token, GRAVEL_EQ, *turn);
      gravel_put(g, token, *turn + 1, static_cast<int>((me + 1) % n_pes));
      gravel_flush(g);
    }
    __syncthreads();
  }
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

/// Waits for a word, then writes one: chains of kernels that only end if they run at the same time.
__global__ void wait_and_notify(gravel_t g, const uint64_t* awaited, uint64_t* notified, int pe) {
  gravel_wait_until(g, awaited, GRAVEL_NE, 0);
  gravel_put(g, notified, uint64_t{1}, pe);
}
/// A kernel of a sequence: right only if those before it have ended.
__global__ void step(gravel_t g, uint64_t* place, uint64_t number, uint64_t* wrong) {
  if (*place != number) gravel_inc(g, wrong, gravel_my_pe(g));
  *place = number + 1;
}

#if GRAVEL_CUDA
/// Each block writes its rank to its neighbour in the cluster, in shared memory that only blocks of one cluster reach,
/// and adds up the ranks that it receives.
__global__ void notify_neighbour([[maybe_unused]] gravel_t g, [[maybe_unused]] uint64_t* sum) {
#if __CUDA_ARCH__ >= 900
  __shared__ uint32_t received;
  const auto cluster = cooperative_groups::this_cluster();
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  if (threadIdx.x == 0) received = 0;
  cluster.sync();
  if (threadIdx.x == 0) *cluster.map_shared_rank(&received, (rank + 1) % blocks) = rank + 1;
  cluster.sync();
  if (threadIdx.x == 0) gravel_fetch_add(g, sum, uint64_t{received}, (gravel_my_pe(g) + 1) % gravel_n_pes(g));
#endif
}
#else
__global__ void throw_something(int) { throw std::runtime_error("thrown in a lane"); }
__global__ void call_host() { gravel_synchronize(); }
#endif

void check_refusals(uint64_t* counter) {
  const gravel_t g = gravel_handle();
  expect_refusal("a block of 2048", "block of (2048,1,1)", [&] { gravel_launch(increment, 1, 2048, g, counter); });
  expect_refusal("a block of none", "block of (0,1,1)", [&] { gravel_launch(increment, 1, 0, g, counter); });
  expect_refusal("a grid of none", "grid of (0,1,1)", [&] { gravel_launch(increment, 0, 32, g, counter); });
  expect_refusal("a high grid", "grid of (1,70000,1)",
                 [&] { gravel_launch(increment, dim3(1, 70000), 32, g, counter); });
  expect_refusal("much shared memory", "shared memory", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 1, .block = 32, .shared_bytes = 1 << 20}, g, counter);
  });
  expect_refusal("a cooperative grid that has no room", "cooperative grid of 1000000", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 1000000, .block = 1024, .cooperative = true}, g, counter);
  });
  expect_refusal("a cluster of 64", "cluster", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 64, .block = 32, .cluster = dim3(64)}, g, counter);
  });
  expect_refusal("a flat cluster", "cluster of (0,2,1)", [&] {
    gravel_launch(increment, gravel_launch_config{.grid = 64, .block = 32, .cluster = dim3(0, 2)}, g, counter);
  });
  // Nothing of it is left: the resolver still comes and goes, and this ends.
  gravel_launch(fetch, 2, 64, g, counter);
  gravel_synchronize();
#if GRAVEL_CUDA
  gravel::detail::cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize after refused launches");
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
  int devices = 0, chosen = -1, own = -1;
  gravel::detail::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  gravel::detail::cuda_check(cudaGetDevice(&own), "cudaGetDevice");
  for (int device = 0; device < devices; ++device) {
    gravel::detail::cuda_check(cudaSetDevice(device), "cudaSetDevice");
    gravel_launch(increment, 1, 32, gravel_handle(), &counter[2]);
    gravel_quiet();
    gravel::detail::cuda_check(cudaGetDevice(&chosen), "cudaGetDevice");
    expect(chosen == device, "the program's device is another after gravel_launch");
  }
  gravel::detail::cuda_check(cudaSetDevice(own), "cudaSetDevice");
  gravel_barrier_all();
  expect(read(&counter[2]) == 32u * static_cast<unsigned>(devices), "launches while the program means another device");
#endif
  gravel_barrier_all();
  expect(read(counter) == 128, "a launch from another thread");
  expect(read(&counter[1]) == 77, "gravel_copy from another thread");
}

void check_shared(uint64_t* sum) {
  constexpr uint32_t words = 25 << 10, blocks = 6;  // 100 KiB, twice what a kernel has without asking
  gravel_launch(use_shared, gravel_launch_config{.grid = blocks, .block = 128, .shared_bytes = words * 4},
                gravel_handle(), sum, words);
  gravel_barrier_all();
  const uint64_t in_one = uint64_t{words} * (words - 1) / 2;
  expect(read(sum) == blocks * in_one + uint64_t{words} * (blocks * (blocks - 1) / 2), "dynamic shared memory");
}

void check_cooperative(uint64_t* words) {
  constexpr unsigned blocks = 16;
  gravel_launch(wait_for_grid, gravel_launch_config{.grid = blocks, .block = 32, .cooperative = true}, gravel_handle(),
                words, words + 1);
  gravel_barrier_all();
  expect(read(words) == blocks && read(words + 1) == blocks, "a cooperative kernel");

  constexpr uint64_t rounds = 3;
  gravel_launch(pass_token, gravel_launch_config{.grid = 4, .block = 32, .shared_bytes = 64, .cooperative = true},
                gravel_handle(), words + 8, rounds);
  gravel_barrier_all();
  if (gravel_my_pe() == 0)
    expect(read(words + 8) == rounds * 4 * static_cast<uint64_t>(gravel_n_pes()),
           "cooperative kernels that wait for each other's blocks");
}

void check_local(uint64_t* sum) {
  gravel_launch(use_local, 2, 32, gravel_handle(), sum, 3);
  gravel_barrier_all();
  expect(read(sum) == uint64_t{64} * local_words * (local_words - 1) / 2, "a kernel with much local memory");
}

void check_streams(uint64_t* words) {
  const gravel_t g = gravel_handle(), host = gravel_host_handle();
  const int me = gravel_my_pe(), next = (me + 1) % gravel_n_pes();
  const gravel_stream_t one = gravel_stream_create(), two = gravel_stream_create();
  uint64_t *go = words, *middle = words + 1, *last = words + 2;
  // A launch returns although its kernel waits for what the host does later; and the second kernel runs beside the
  // first.
  gravel_launch(wait_and_notify, gravel_launch_config{.stream = one}, g, middle, last, next);
  gravel_launch(wait_and_notify, gravel_launch_config{.stream = two}, g, go, middle, next);
  gravel_launch(increment, 1, 32, g, words + 3);
  gravel_stream_synchronize(nullptr);
  gravel_put(host, go, uint64_t{1}, next);
  gravel_flush(host);
  gravel_stream_synchronize(one);
  gravel_stream_synchronize(two);
  gravel_barrier_all();
  expect(read(last) == 1 && read(middle) == 1 && read(words + 3) == 32, "kernels in three streams");
  // In one stream they keep their order, however many there are. (More than a GPU's stream holds.)
  constexpr uint64_t steps = 3000;
  for (uint64_t i = 0; i < steps; ++i) {
    gravel_launch(step, gravel_launch_config{.stream = one}, g, words + 4, i, words + 6);
    if (i % 7 == 0) gravel_launch(step, gravel_launch_config{.stream = two}, g, words + 5, i / 7, words + 6);
  }
  gravel_synchronize();
  gravel_quiet();
  expect(read(words + 4) == steps && read(words + 5) == (steps + 6) / 7 && read(words + 6) == 0, "kernels in order");
  // Kernels in a stream that is destroyed still run.
  gravel_launch(increment, gravel_launch_config{.block = 64, .stream = two}, g, words + 7);
  gravel_stream_destroy(two);
  gravel_stream_destroy(one);
  expect_refusal("the PE's own stream destroyed", "gravel_stream_destroy", [] { gravel_stream_destroy(nullptr); });
  gravel_barrier_all();
  expect(read(words + 7) == 64, "a stream destroyed with a kernel in it");
}

#if GRAVEL_CUDA
void check_clusters(uint64_t* sum) {
  int device = 0, can = 0;
  gravel::detail::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  gravel::detail::cuda_check(cudaDeviceGetAttribute(&can, cudaDevAttrClusterLaunch, device), "cudaDeviceGetAttribute");
  if (!can) return;  // older than sm_90
  gravel_launch(notify_neighbour, gravel_launch_config{.grid = 8, .block = 64, .cluster = dim3(4)}, gravel_handle(),
                sum);
  gravel_launch(notify_neighbour, gravel_launch_config{.grid = dim3(8, 2), .block = 64, .cluster = dim3(4, 2)},
                gravel_handle(), sum + 1);
  gravel_barrier_all();
  expect(read(sum) == 2 * 10, "clusters of 4 blocks");
  expect(read(sum + 1) == 2 * 36, "clusters of 4 x 2 blocks");
}

/// Streams of the program: one of each kind, gone before the kernels are; one that is captured.
void check_foreign_streams(uint64_t* words) {
  const gravel_t g = gravel_handle();
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream = nullptr;
    gravel::detail::cuda_check(cudaStreamCreateWithFlags(&stream, flags), "cudaStreamCreate");
    for (int i = 0; i < 10; ++i)
      gravel_launch(fetch, gravel_launch_config{.grid = 2, .block = 64, .stream = stream}, g, words);
    gravel::detail::cuda_check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  gravel_launch(fetch, gravel_launch_config{.grid = 2, .block = 64, .stream = cudaStreamLegacy}, g, words);
  gravel_launch(fetch, gravel_launch_config{.grid = 2, .block = 64, .stream = cudaStreamPerThread}, g, words);
  gravel_synchronize();
  gravel_barrier_all();
  expect(read(words) == 22 * 128, "kernels in the program's streams");

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  gravel::detail::cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  gravel::detail::cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  expect_refusal("a launch into a captured stream", "inside a stream capture",
                 [&] { gravel_launch(increment, gravel_launch_config{.stream = stream}, g, words); });
  gravel_launch(fetch, 2, 64, g, words + 1);  // elsewhere: neither captured nor in the way of the capture
  gravel_quiet();
  gravel::detail::cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  gravel::detail::cuda_check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  gravel::detail::cuda_check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  gravel_barrier_all();
  expect(read(words + 1) == 128, "a kernel beside a stream capture");
}
#else
/// An exception of a lane is thrown again where the kernel is awaited. Later kernels of its stream do not run; others
/// do.
void check_exceptions(uint64_t* words) {
  const gravel_t g = gravel_handle();
  const gravel_stream_t other = gravel_stream_create();
  for (int round = 0; round < 2; ++round) {
    gravel_launch(throw_something, 1, 32, 0);
    gravel_launch(increment, 1, 32, g, words);
    gravel_launch(increment, gravel_launch_config{.block = 32, .stream = other}, g, words + 1);
    try {
      if (round == 0) gravel_synchronize();
      else gravel_quiet();
      expect(false, "a lane's exception is lost");
    } catch (const std::runtime_error& e) {
      expect(std::string(e.what()) == "thrown in a lane", "another exception than the lane's");
    }
  }
  gravel_launch(increment, 1, 32, g, words + 2);
  gravel_barrier_all();
  expect(read(words) == 0 && read(words + 1) == 64 && read(words + 2) == 32, "kernels around one that throws");
  gravel_launch(call_host, 1, 1);
  expect_refusal("a host call in a kernel", "inside a kernel", [] { gravel_synchronize(); });
  expect_refusal("a stream that is none", "not a stream of gravel_stream_create", [&] {
    gravel_launch(increment, gravel_launch_config{.stream = reinterpret_cast<gravel_stream_t>(words)}, g, words);
  });
}
#endif

}  // namespace

/// With the word "cuda-first" CUDA is in use, and its way to load kernels decided by the environment, before Gravel can
/// say a word.
int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "cuda-first") {
#if GRAVEL_CUDA
    gravel::detail::cuda_check(cudaFree(nullptr), "cudaFree");
#endif
  }
  gravel_init<>();
#if GRAVEL_CUDA
  constexpr auto check_backend = +[](uint64_t* words) {
    check_clusters(words + 14);
    check_foreign_streams(words);
  };
#else
  constexpr auto check_backend = check_exceptions;
#endif
  const std::function<void(uint64_t*)> checks[] = {check_refusals,    check_threads, check_shared, check_local,
                                                   check_cooperative, check_streams, check_backend};
  for (const auto& check : checks) {
    auto* words = gravel_malloc<uint64_t>(16 * sizeof(uint64_t));
    check(words);
    gravel_barrier_all();
    gravel_free(words);
  }
  const uint64_t all = gravel_sum_all(uint64_t(failures));
  if (gravel_my_pe() == 0)
    printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
