#include <cstdio>

#include "gravel.cuh"

__global__ void count(gravel_t g, uint64_t* table, int n) {
  __shared__ gravel_block_sender<128> sender;
  sender.begin(g);
  for (int i = 0; i < n; ++i) sender.inc(&table[(threadIdx.x + i) % 64], (threadIdx.x + i) % g.n_pes);
  sender.end();
  gravel_inc(g, &table[64], (gravel_my_pe(g) + 1) % gravel_n_pes(g));
}

int main() {
  gravel_init<>();
  auto* table = gravel_malloc<uint64_t>(65 * 8);
  gravel_launch(count, 4, 128, gravel_handle(), table, 100);
  gravel_barrier_all();
  uint64_t got[65], sum = 0;
  gravel_copy(got, table, sizeof(got));
  for (int i = 0; i < 64; ++i) sum += got[i];
  printf("PE %d: %lu increments, %lu direct\n", gravel_my_pe(), sum, got[64]);
  sum = gravel_sum_all(sum);
  if (gravel_my_pe() == 0) printf("all: %lu, expected %d\n", sum, 4 * 128 * 100 * gravel_n_pes());
  gravel_finalize();
}
