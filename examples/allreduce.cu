// Allreduce: each PE computes a gradient, and all get the sum.
#include <cstdio>
#include <vector>

#include <gravel/allreduce.cuh>
#include <gravel/gravel.cuh>

constexpr unsigned n = 1000;

__global__ void compute(gravel_t g, float* gradient) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gradient[i] = static_cast<float>(static_cast<unsigned>(gravel_my_pe(g) + 1) * i);
}

int main() {
  gravel_init<>();
  auto* gradient = gravel_malloc<float>(n * sizeof(float));
  std::vector<float> sum(n);
  {
    gravel_reducer reducer;  // collective
    gravel_launch(compute, 4, 256, gravel_handle(), gradient);
    gravel_allreduce(reducer, gradient, gradient, n);  // collective; waits for the kernel before it
    gravel_copy(sum.data(), gradient, n * sizeof(float));
  }
  const auto n_pes = static_cast<unsigned>(gravel_n_pes());
  uint64_t wrong = 0;
  for (unsigned i = 0; i < n; ++i) wrong += sum[i] != static_cast<float>(n_pes * (n_pes + 1) / 2 * i);
  wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
