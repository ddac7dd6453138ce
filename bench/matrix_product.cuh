// A product of matrices in a stream, as the work beside which a program looks up rows: by cuBLAS where it is there,
// else by a plain kernel.
#pragma once
#include <gravel/gravel.cuh>
#include "bench/cublas.hpp"
#include "bench/perf/device.cuh"

namespace gravel_bench {

/// Row i of the first matrix has one value in all columns; column j of the second one in all rows.
GRAVEL_BOTH float first_factor(uint64_t row) { return static_cast<float>(row % 3) - 1; }
GRAVEL_BOTH float second_factor(uint64_t column) { return static_cast<float>(column % 5); }

__global__ void fill_factors(float* a, float* b, uint64_t n) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * n; i += lanes) {
    a[i] = first_factor(i / n);
    b[i] = second_factor(i % n);
  }
}
__global__ void multiply_plainly(const float* a, const float* b, float* c, uint64_t n) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * n; i += lanes) {
    float sum = 0;
    for (uint64_t k = 0; k < n; ++k) sum += a[i / n * n + k] * b[k * n + i % n];
    c[i] = sum;
  }
}
__global__ void check_product(const float* c, uint64_t n, uint64_t* wrong) {
  const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * n; i += lanes)
    mine += c[i] != static_cast<float>(n) * first_factor(i / n) * second_factor(i % n);
  if (mine) gravel::detail::fetch_add<gravel::detail::scope::device>(wrong, mine);
}

class matrix_product {
 public:
  /// Of n rows and columns.
  explicit matrix_product(uint64_t n) : n_(n), a_(n * n), b_(n * n), c_(n * n) {
    gravel_launch(fill_factors, 64, 256, a_.data(), b_.data(), n_);
    gravel_synchronize();
  }
  bool is_by_cublas() const { return GRAVEL_CUDA && library_.is_there(); }
  /// Puts one product into the stream.
  void run(gravel_stream_t stream) const {
    if (is_by_cublas()) {
      const bool done =
          library_.use(stream) && library_.multiply(a_.data(), b_.data(), c_.data(), static_cast<int>(n_));
      if (!done) gravel::detail::fail_text("cuBLAS has refused a product of matrices");
      return;
    }
    gravel_launch_config how{64, 256};
    how.stream = stream;
    gravel_launch(multiply_plainly, how, static_cast<const float*>(a_.data()), static_cast<const float*>(b_.data()),
                  c_.data(), n_);
  }
  /// Counts wrong elements of the last product, which is done.
  uint64_t wrong() const {
    const perf::device_array<uint64_t> count(1);
    gravel_launch(check_product, 64, 256, static_cast<const float*>(c_.data()), n_, count.data());
    gravel_synchronize();
    return count.read();
  }

 private:
  uint64_t n_;
  perf::device_array<float> a_, b_, c_;
  cublas library_;
};

}  // namespace gravel_bench
