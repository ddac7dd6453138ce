// Bounds for sort and strassen on channels: CUB's radix sort, and cuBLAS's product of float matrices, where the machine
// has that library. Prints the fastest of some runs; each is verified. CUDA alone, one process. Usage:
// channel_bounds [RUNS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_radix_sort.cuh>
#include <vector>

#include "bench/cublas.hpp"
#include "lib/base/mix.hpp"

namespace {

int failures = 0;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}
template <class T>
T* device_copy(const std::vector<T>& of) {
  T* at = nullptr;
  check(cudaMalloc(&at, of.size() * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(at, of.data(), of.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return at;
}
template <class T>
std::vector<T> host_copy(const T* of, size_t n) {
  std::vector<T> all(n);
  check(cudaMemcpy(all.data(), of, n * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return all;
}
/// Milliseconds of the fastest run.
template <class Work>
float fastest(int runs, Work&& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  float best = 0;
  for (int i = 0; i <= runs; ++i) {  // the first one warms up
    check(cudaEventRecord(begin), "cudaEventRecord");
    work();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "a run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i == 1 || (i > 1 && ms < best)) best = ms;
  }
  return best;
}
void report(const char* what, size_t n, float ms, bool right) {
  std::printf("%-16s %9zu %10.3f ms  %s\n", what, n, ms, right ? "right" : "WRONG");
  failures += !right;
}

void sort_by_cub(int runs, size_t n) {
  std::vector<uint32_t> keys(n);
  for (size_t i = 0; i < n; ++i) keys[i] = static_cast<uint32_t>(gravel::detail::mix(i));
  uint32_t *const from = device_copy(keys), *const to = device_copy(std::vector<uint32_t>(n));
  void* scratch = nullptr;
  size_t bytes = 0;
  check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, from, to, n), "SortKeys");
  check(cudaMalloc(&scratch, bytes), "cudaMalloc");
  const float ms =
      fastest(runs, [&] { check(cub::DeviceRadixSort::SortKeys(scratch, bytes, from, to, n), "SortKeys"); });
  // In order, and the same keys: of these a sum of random functions.
  const std::vector<uint32_t> found = host_copy(to, n);
  uint64_t difference = 0;
  for (size_t i = 0; i < n; ++i) difference += gravel::detail::mix(found[i]) - gravel::detail::mix(keys[i]);
  report("CUB radix sort", n, ms, difference == 0 && std::is_sorted(found.begin(), found.end()));
  for (void* at : {static_cast<void*>(from), static_cast<void*>(to), scratch}) check(cudaFree(at), "cudaFree");
}

void multiply_by_cublas(int runs, const gravel_bench::cublas& library, size_t n) {
  std::vector<float> a(n * n), b(n * n);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i / n % 3) - 1;
    b[i] = static_cast<float>(i % n % 3);
  }
  float *const on_a = device_copy(a), *const on_b = device_copy(b), *const c = device_copy(std::vector<float>(n * n));
  bool right = true;
  const float ms = fastest(runs, [&] { right &= library.multiply(on_a, on_b, c, static_cast<int>(n)); });
  // Rows of a and columns of b are of one value each.
  const std::vector<float> found = host_copy(c, n * n);
  for (size_t i = 0; i < found.size(); ++i)
    right &= found[i] == static_cast<float>(n) * (static_cast<float>(i / n % 3) - 1) * static_cast<float>(i % n % 3);
  report("cuBLAS sgemm", n, ms, right);
  for (float* at : {on_a, on_b, c}) check(cudaFree(at), "cudaFree");
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  for (size_t n : {size_t{1'000'000}, size_t{1} << 24, size_t{1} << 26}) sort_by_cub(runs, n);
  const gravel_bench::cublas library;
  if (!library.is_there()) std::printf("no cuBLAS here\n");
  else
    for (size_t n : {512, 1024, 2048, 4096}) multiply_by_cublas(runs, library, n);
  return failures != 0;
}
