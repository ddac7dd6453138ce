// Collectives in a kernel: the PEs repeat a step until no value changes much any more. The host does not take part.
#include <cstdio>

#include <gravel/gravel.cuh>

__global__ void iterate(gravel_t g, double* value, int* steps) {
  __shared__ double change;
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  int step = 0;
  for (bool goes_on = true; goes_on; ++step) {
    if (threadIdx.x == 0) {
      change = value[0] / 2;
      gravel_put(g, &value[1], value[0] - change, next);
    }
    gravel_barrier_block(g);  // all threads of this block, at all PEs: the puts have arrived
    if (threadIdx.x == 0) value[0] = value[1];
    gravel_max_all_block(g, &change, &change, 1);  // the largest change of all PEs
    goes_on = change > 1e-3;                       // the same in all threads of all PEs
    __syncthreads();                               // all threads have read `change`
  }
  if (threadIdx.x == 0) *steps = step;
}

int main() {
  gravel_init<>();
  auto* value = gravel_malloc<double>(2 * sizeof(double));
  auto* steps = gravel_malloc<int>(sizeof(int));
  const double start = 1.0;
  gravel_copy(value, &start, sizeof(start));
  gravel_barrier_all();
  gravel_launch(iterate, 1, 64, gravel_handle(), value, steps);
  gravel_barrier_all();

  int here = 0;
  gravel_copy(&here, steps, sizeof(here));
  const bool right = gravel_min_all(here) == 10 && gravel_max_all(here) == 10;  // 1/2, 1/4, ... 1/1024
  if (gravel_my_pe() == 0) std::printf("%s\n", right ? "ok" : "WRONG");
  gravel_finalize();
  return right ? 0 : 1;
}
