// A program of NVSHMEM, as it is: the heat equation on a square by Jacobi's method. It compiles against Gravel for GPUs
// and for the processor, and against NVSHMEM.
//
//     gravel-nvcc --nvshmem examples/nvshmem/jacobi.cu -o jacobi && ucx-run -n 4 ./jacobi       # on GPUs
//     gravel-c++ --nvshmem examples/nvshmem/jacobi.cu -o jacobi && ucx-run -n 4 ./jacobi        # on the processor
//
// Each PE has neighbouring rows of the square, and a halo of one row above and below them. In each iteration a kernel
// computes new values, and puts those of its first and last row into the halos of the neighbours. Every few iterations
// the PEs add up how much their values have changed. At the end each PE compares its rows with those of a serial run.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    const cudaError_t code = (call);                                                                \
    if (code != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code)); \
      std::exit(1);                                                                                 \
    }                                                                                               \
  } while (0)

constexpr int threads = 128;

__device__ __host__ float mean(float left, float right, float above, float below) {
  return 0.25f * (left + right + (above + below));
}

/// One iteration. Row 0 and row `rows` + 1 are the halos. Adds the squares of all changes to `*change`.
__global__ void iterate(const float* old, float* now, int width, int rows, int above, int below, float* change) {
  extern __shared__ float squares[];
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y) + 1;
  squares[threadIdx.x] = 0;
  if (column > 0 && column < width - 1) {
    const float* const here = old + static_cast<size_t>(row) * width + column;
    const float value = mean(here[-1], here[1], here[-width], here[width]);
    now[static_cast<size_t>(row) * width + column] = value;
    squares[threadIdx.x] = (value - *here) * (value - *here);
    // My first row is the lower halo of the PE above, whose rows are as many or one more: the halo is at the end.
    if (row == 1 && above >= 0) nvshmem_float_p(now + static_cast<size_t>(rows + 1) * width + column, value, above);
    if (row == rows && below >= 0) nvshmem_float_p(now + column, value, below);
  }
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
  }
  if (threadIdx.x == 0) atomicAdd(change, squares[0]);
}

/// A ring shift: each PE gives its number to the next one.
__global__ void shift(int* from) { nvshmem_int_p(from, nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes()); }

/// The first row of the square is hot.
std::vector<float> first_values(int width, int height) {
  std::vector<float> values(static_cast<size_t>(width) * height, 0.0f);
  for (int i = 0; i < width; ++i) values[i] = 1;
  return values;
}

int main() {
  nvshmem_init();
  CHECK(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const int pe = nvshmem_my_pe(), n_pes = nvshmem_n_pes();
  bool good = true;

  int from = -1;
  int* const neighbour = static_cast<int*>(nvshmem_malloc(sizeof(int)));
  shift<<<1, 1, 0, stream>>>(neighbour);
  nvshmemx_barrier_all_on_stream(stream);
  CHECK(cudaMemcpyAsync(&from, neighbour, sizeof(from), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  good = good && from == (pe + n_pes - 1) % n_pes;

  // All PEs have equally many rows, so the square is a little higher than wide.
  const int width = 100, rows = (width + n_pes - 1) / n_pes, height = rows * n_pes + 2, iterations = 40;
  const int above = pe > 0 ? pe - 1 : -1, below = pe < n_pes - 1 ? pe + 1 : -1;
  const size_t words = static_cast<size_t>(rows + 2) * width, bytes = words * sizeof(float);
  float* old = static_cast<float*>(nvshmem_malloc(bytes));
  float* now = static_cast<float*>(nvshmem_malloc(bytes));
  float* const change = static_cast<float*>(nvshmem_malloc(2 * sizeof(float)));  // of this PE, and of all
  std::vector<float> all = first_values(width, height);
  const float* const mine = all.data() + static_cast<size_t>(pe) * rows * width;
  for (float* values : {old, now}) CHECK(cudaMemcpyAsync(values, mine, bytes, cudaMemcpyHostToDevice, stream));
  nvshmemx_barrier_all_on_stream(stream);

  float last_change = INFINITY;
  const dim3 grid((width + threads - 1) / threads, rows);
  for (int i = 0; i < iterations; ++i) {
    CHECK(cudaMemsetAsync(change, 0, 2 * sizeof(float), stream));
    iterate<<<grid, threads, threads * sizeof(float), stream>>>(old, now, width, rows, above, below, change);
    CHECK(cudaGetLastError());
    nvshmemx_barrier_all_on_stream(stream);
    if (i % 10 == 9) {
      float sum;
      nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, change + 1, change, 1, stream);
      CHECK(cudaMemcpyAsync(&sum, change + 1, sizeof(sum), cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
      if (pe == 0) std::printf("iteration %d: change %.6f\n", i + 1, std::sqrt(sum));
      good = good && sum > 0 && sum < last_change;  // it converges
      last_change = sum;
    }
    float* const next = old;
    old = now;
    now = next;
  }

  std::vector<float> result(words), before;
  CHECK(cudaMemcpy(result.data(), old, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < iterations; ++i) {
    before = all;
    for (int row = 1; row < height - 1; ++row)
      for (int column = 1; column < width - 1; ++column) {
        const float* const here = before.data() + static_cast<size_t>(row) * width + column;
        all[static_cast<size_t>(row) * width + column] = mean(here[-1], here[1], here[-width], here[width]);
      }
  }
  for (size_t i = 0; i < words; ++i) good = good && std::fabs(result[i] - mine[i]) < 1e-6f;
  std::printf("PE %d of %d: %s\n", pe, n_pes, good ? "correct" : "WRONG");

  nvshmem_free(change);
  nvshmem_free(now);
  nvshmem_free(old);
  nvshmem_free(neighbour);
  nvshmem_finalize();
  CHECK(cudaStreamDestroy(stream));
  return good ? 0 : 1;
}
