// A rival of examples/applications/kmeans.cu on one GPU: Lloyd's algorithm by cuBLAS. An SGEMM computes the products of
// all points and centres. A kernel finds the nearest centre of each point and adds up the points in shared memory. The
// points are those of `kmeans`; coordinates and centres are float, so centres may differ a little.
// Usage: kmeans_cublas POINTS CLUSTERS DIMENSIONS STEPS [tf32]
#include <cublas_v2.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/base/mix.hpp"

namespace {

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "kmeans_cublas: %s failed\n", what);
  std::exit(1);
}
void need(cudaError_t status, const char* what) { need(status == cudaSuccess, what); }
void need(cublasStatus_t status, const char* what) { need(status == CUBLAS_STATUS_SUCCESS, what); }

constexpr unsigned lanes = 128;
/// As many as run at once.
unsigned blocks() {
  int device = 0, multiprocessors = 0;
  need(cudaGetDevice(&device), "cudaGetDevice");
  need(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return 5 * static_cast<unsigned>(multiprocessors);
}

/// As point_source of examples/applications/kmeans.cu.
GRAVEL_BOTH float coordinate(uint64_t seed, uint32_t clusters, uint64_t i, uint32_t d) {
  using namespace gravel::detail;
  const uint64_t random = mix(seed ^ mix(i << 8 | d)), place = pick(mix(seed + i), clusters);
  if (mix(i ^ ~seed) % 16 == 0) return static_cast<uint16_t>(random);
  const uint64_t middle =
      8192 + (mix(seed ^ ~(place << 8 | d)) & 0x7fff) + (mix(seed ^ ~(place << 8 | d)) >> 32 & 0x3fff);
  return static_cast<uint16_t>(middle + (random & 0xfff) + (random >> 32 & 0xfff) - 4096);
}

struct kmeans {
  uint64_t points;
  uint32_t clusters, dimensions;
  float *coordinates, *centers, *squares, *products;  ///< of point i and centre c: products[i * clusters + c]
  uint8_t* cluster;
  unsigned long long* sums;  ///< of each cluster its points' coordinates, then their number
  unsigned* changed;

  GRAVEL_BOTH uint32_t values() const { return clusters * (dimensions + 1); }
};

__global__ void make_points(kmeans k) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < k.points;
       i += uint64_t{gridDim.x} * blockDim.x)
    for (uint32_t d = 0; d < k.dimensions; ++d) k.coordinates[i * k.dimensions + d] = coordinate(1, k.clusters, i, d);
}

__global__ void square_centers(kmeans k) {
  const uint32_t c = threadIdx.x;
  if (c >= k.clusters) return;
  float sum = 0;
  for (uint32_t d = 0; d < k.dimensions; ++d) sum += k.centers[c * k.dimensions + d] * k.centers[c * k.dimensions + d];
  k.squares[c] = sum;
}

__global__ void assign(kmeans k) {
  extern __shared__ unsigned shared[];
  unsigned* const mine = shared + threadIdx.x;  // value v is mine[v * blockDim.x]
  const uint32_t stride = k.dimensions + 1;
  for (uint32_t v = 0; v < k.values(); ++v) mine[v * blockDim.x] = 0;
  unsigned changed = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < k.points;
       i += uint64_t{gridDim.x} * blockDim.x) {
    float least = 0;
    uint32_t best = 0;
    for (uint32_t c = 0; c < k.clusters; ++c) {
      const float score = k.squares[c] - 2 * k.products[i * k.clusters + c];
      if (c == 0 || score < least) {
        least = score;
        best = c;
      }
    }
    changed += k.cluster[i] != best;
    k.cluster[i] = static_cast<uint8_t>(best);
    for (uint32_t d = 0; d < k.dimensions; ++d)
      mine[(best * stride + d) * blockDim.x] += static_cast<unsigned>(k.coordinates[i * k.dimensions + d]);
    ++mine[(best * stride + k.dimensions) * blockDim.x];
  }
  __syncthreads();
  for (uint32_t v = threadIdx.x / 32; v < k.values(); v += blockDim.x / 32) {
    unsigned long long sum = 0;
    for (uint32_t lane = threadIdx.x % 32; lane < blockDim.x; lane += 32) sum += shared[v * blockDim.x + lane];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0 && sum) atomicAdd(&k.sums[v], sum);
  }
  changed = __reduce_add_sync(~0u, changed);
  if (threadIdx.x % 32 == 0 && changed) atomicAdd(k.changed, changed);
}

__global__ void move_centers(kmeans k) {
  for (uint32_t at = threadIdx.x; at < k.clusters * k.dimensions; at += blockDim.x) {
    const uint32_t c = at / k.dimensions, d = at % k.dimensions;
    const unsigned long long count = k.sums[c * (k.dimensions + 1) + k.dimensions];
    if (count)
      k.centers[at] =
          static_cast<float>(static_cast<double>(k.sums[c * (k.dimensions + 1) + d]) / static_cast<double>(count));
  }
}

template <class T>
T* allocate(uint64_t count) {
  T* data = nullptr;
  need(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  const bool tf32 = argc == 6;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  if (argc < 5 || argc > 6 || !number(1) || !number(2) || number(2) > 254 || !number(3) || !number(4)) {
    std::fprintf(stderr, "kmeans_cublas POINTS CLUSTERS DIMENSIONS STEPS [tf32], with 1 to 254 clusters\n");
    return 2;
  }
  kmeans k{.points = number(1),
           .clusters = static_cast<uint32_t>(number(2)),
           .dimensions = static_cast<uint32_t>(number(3))};
  const auto most_steps = static_cast<unsigned>(number(4));
  k.coordinates = allocate<float>(k.points * k.dimensions);
  k.centers = allocate<float>(k.clusters * k.dimensions);
  k.squares = allocate<float>(k.clusters);
  k.products = allocate<float>(k.points * k.clusters);
  k.cluster = allocate<uint8_t>(k.points);
  k.sums = allocate<unsigned long long>(k.values());
  k.changed = allocate<unsigned>(1);
  std::vector<float> centers;
  for (uint32_t c = 0; c < k.clusters; ++c)
    for (uint32_t d = 0; d < k.dimensions; ++d)
      centers.push_back(coordinate(1, k.clusters, k.points * c / k.clusters, d));
  need(cudaMemcpy(k.centers, centers.data(), centers.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  need(cudaMemset(k.cluster, 255, k.points), "cudaMemset");
  const unsigned grid = blocks();
  make_points<<<grid, lanes>>>(k);
  const auto shared = static_cast<int>(k.values() * lanes * sizeof(unsigned));
  need(cudaFuncSetAttribute(assign, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
       "shared memory for so many clusters and dimensions");
  cublasHandle_t blas = nullptr;
  need(cublasCreate(&blas), "cublasCreate");
  if (tf32) need(cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH), "cublasSetMathMode");
  const auto multiply = [&] {
    const float one = 1, zero = 0;
    const int n = static_cast<int>(k.points), c = static_cast<int>(k.clusters), d = static_cast<int>(k.dimensions);
    need(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, c, n, d, &one, k.centers, d, k.coordinates, d, &zero, k.products,
                     c),
         "cublasSgemm");
  };
  multiply();  // the first one loads its kernel
  need(cudaDeviceSynchronize(), "the first SGEMM");

  unsigned steps = 0, changed = 1;
  const auto begin = std::chrono::steady_clock::now();
  for (; steps < most_steps && changed; ++steps) {
    need(cudaMemsetAsync(k.sums, 0, k.values() * sizeof(unsigned long long)), "cudaMemset");
    need(cudaMemsetAsync(k.changed, 0, sizeof(unsigned)), "cudaMemset");
    square_centers<<<1, 256>>>(k);
    multiply();
    assign<<<grid, lanes, static_cast<size_t>(shared)>>>(k);
    move_centers<<<1, 256>>>(k);
    need(cudaMemcpy(&changed, k.changed, sizeof(changed), cudaMemcpyDeviceToHost), "a step");
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  need(cudaMemcpy(centers.data(), k.centers, centers.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::printf(
      "k-means by cuBLAS%s: %llu points of %u dimensions, %u clusters\n%u steps in %.4f s, %.4g M points/s; %u points "
      "changed in the last "
      "one\n",
      tf32 ? ", TF32" : "", static_cast<unsigned long long>(k.points), k.dimensions, k.clusters, steps, seconds,
      static_cast<double>(k.points) * steps / seconds / 1e6, changed);
  for (uint32_t c = 0; c < k.clusters; ++c) {
    std::printf("  centre");
    for (uint32_t d = 0; d < k.dimensions; ++d) std::printf(" %.1f", centers[c * k.dimensions + d]);
    std::printf("\n");
  }
}
