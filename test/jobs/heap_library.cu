// A library that another allocator's process loads (test/scripts/beside_torch.py): its symmetric heap grows, while the
// program has memory of its own on the same GPU. One source for the CPU backend and for GPUs.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include "test/support/places.hpp"

namespace {

constexpr uint64_t places = 4096;  // words of an object that are written

struct object {
  uint64_t* at;
  uint64_t words, salt;
};
std::vector<object> objects;

/// Writes words at equal distances of the object of the next PE.
__global__ void write_to_next(gravel_t g, uint64_t* at, uint64_t words, uint64_t salt) {
  const int next = (gravel_my_pe(g) + 1) % gravel_n_pes(g);
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x)
    gravel_put(g, &at[i * (words / places)], value_of(i, salt), next);
}
__global__ void count_wrong(gravel_t g, const uint64_t* at, uint64_t words, uint64_t salt, uint64_t* wrong) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x)
    if (at[i * (words / places)] != value_of(i, salt)) gravel_inc(g, wrong, gravel_my_pe(g));
}

}  // namespace

extern "C" {

/// Returns the number of this PE, or -1 after it has printed what went wrong.
int heap_library_init() {
  try {
    gravel_init();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return -1;
  }
  return gravel_my_pe();
}
/// Allocates an object of so many bytes, and all PEs write to it. Returns 0 if it fits.
int heap_library_grow(uint64_t bytes) {
  try {
    const uint64_t salt = objects.size();
    objects.push_back({gravel_malloc<uint64_t>(bytes), bytes / sizeof(uint64_t), salt});
    gravel_launch(write_to_next, 8, 128, gravel_handle(), objects.back().at, objects.back().words, salt);
    gravel_barrier_all();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
/// Returns how many of the words that were written are wrong, in all objects.
uint64_t heap_library_wrong() {
  auto* const wrong = gravel_malloc<uint64_t>(sizeof(uint64_t));
  for (const object& o : objects) gravel_launch(count_wrong, 8, 128, gravel_handle(), o.at, o.words, o.salt, wrong);
  gravel_barrier_all();
  uint64_t sum = 0;
  gravel_copy(&sum, wrong, sizeof(sum));
  gravel_free(wrong);
  return sum;
}
/// Frees all objects. The memory is free for other allocators when the call returns at all PEs.
void heap_library_shrink() {
  for (const object& o : objects) gravel_free(o.at);
  objects.clear();
  gravel_barrier_all();
}
void heap_library_finalize() { gravel_finalize(); }

}  // extern "C"
