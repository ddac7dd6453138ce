// A job that test/scripts/pool_test.py runs: a shared library, whose functions Python calls. Tensors of a pool of
// PyTorch are the destinations of its kernels.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>

#include <gravel/gravel.cuh>

namespace {

__global__ void put_words(gravel_t g, uint64_t* tensor, uint64_t words, uint64_t salt, int to) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    gravel_put(g, &tensor[i], i * 3 + salt, to);
}

/// Python's ctypes does not pass exceptions on.
void ended_by_errors(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pool_job: %s\n", e.what());
    std::exit(1);
  }
}

}  // namespace

extern "C" {

/// Joins the job. Returns the number of the PE's GPU.
int pool_job_begin() {
  int device = 0;
  ended_by_errors([&] {
    gravel_init();
    cudaGetDevice(&device);
  });
  return device;
}
int pool_job_pe() { return gravel_my_pe(); }
int pool_job_n_pes() { return gravel_n_pes(); }
/// Collective. tensor[i] of the next PE becomes `3 * i + salt`, for all i below `words`.
void pool_job_put(uint64_t* tensor, uint64_t words, uint64_t salt) {
  ended_by_errors([&] {
    gravel_launch(put_words, 4, 128, gravel_handle(), tensor, words, salt, (gravel_my_pe() + 1) % gravel_n_pes());
    gravel_barrier_all();
  });
}
void pool_job_barrier() { ended_by_errors(gravel_barrier_all); }
void pool_job_end() { ended_by_errors(gravel_finalize); }

}  // extern "C"
