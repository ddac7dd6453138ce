// Put and barrier: every lane puts its number into the array of the next PE.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>

constexpr unsigned blocks = 8, threads = 128, lanes = blocks * threads;

__global__ void put_to_next(gravel_t g, unsigned* array) {
  const unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
  gravel_put(g, &array[lane], lane, (gravel_my_pe(g) + 1) % gravel_n_pes(g));  // returns at once
}

int main() {
  gravel_init<>();
  auto* array = gravel_malloc<unsigned>(lanes * sizeof(unsigned));  // symmetric: it has the same place at all PEs
  gravel_launch(put_to_next, blocks, threads, gravel_handle(), array);
  gravel_barrier_all();  // all puts of all PEs are complete

  std::vector<unsigned> here(lanes);
  gravel_copy(here.data(), array, lanes * sizeof(unsigned));
  uint64_t wrong = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) wrong += here[lane] != lane;
  wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
