// A put with a signal, and a kernel that waits for the signal: an array goes around all PEs, and each adds 1 to it.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

constexpr unsigned n = 1000;

__global__ void pass_on(gravel_t g, uint64_t* array, uint64_t* signal) {
  const int me = gravel_my_pe(g), next = (me + 1) % gravel_n_pes(g);
  if (me != 0) {
    if (threadIdx.x == 0) gravel_wait_until(g, signal, GRAVEL_EQ, uint64_t{1});  // the array has arrived
    __syncthreads();
  }
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) array[i] += 1;
  __syncthreads();
  gravel_put_signal(g, array, array, n * sizeof(uint64_t), signal, 1, GRAVEL_SIGNAL_SET, next);  // the whole block
}

int main() {
  gravel_init<>();
  auto* array = gravel_malloc<uint64_t>(n * sizeof(uint64_t));
  auto* signal = gravel_malloc<uint64_t>(sizeof(uint64_t));
  gravel_launch(pass_on, 1, 64, gravel_handle(), array, signal);
  gravel_barrier_all();

  std::vector<uint64_t> here(n);
  gravel_copy(here.data(), array, n * sizeof(uint64_t));
  uint64_t wrong = 0;
  if (gravel_my_pe() == 0)  // all PEs have added 1
    for (const uint64_t x : here) wrong += x != static_cast<uint64_t>(gravel_n_pes());
  wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
