// Symmetric heaps that grow and shrink: objects of all sizes come and go in a random order, the same at all PEs. Each
// new object is zero. Then all PEs write to it at each other, near its ends and in between, and what has come is
// compared. One source for the CPU backend and for GPUs. Options: rounds; MiB of the largest object; GiB of one more
// object at the end, for which it prints how long gravel_malloc and gravel_free take.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "test/support/expect.hpp"
#include "test/support/places.hpp"

namespace {

constexpr uint64_t mib = 1 << 20;
constexpr uint64_t places = 512;  // words of an object that are written; each PE has its own n-th part

GRAVEL_BOTH uint64_t place_of(uint64_t number, uint64_t words) { return spread_place<places>(number, words); }

/// Each PE writes to the next one: its words are those whose number modulo the PEs is its own number.
__global__ void write_to_next(gravel_t g, uint64_t* object, uint64_t words, uint64_t salt) {
  const int me = gravel_my_pe(g), n = gravel_n_pes(g), next = (me + 1) % n;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x)
    if (i < words) gravel_put(g, &object[place_of(i, words)], value_of(i, salt), next);
}
__global__ void read_places(const uint64_t* object, uint64_t words, uint64_t* values) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x)
    if (i < words) values[i] = object[place_of(i, words)];
}
__global__ void wait_for(gravel_t g, uint64_t* flag) {
  if (threadIdx.x == 0) gravel_wait_until(g, flag, GRAVEL_GE, uint64_t{1});
}

struct object {
  uint64_t* at;
  uint64_t words, salt;
};

class heap_test {
 public:
  heap_test() : values_(gravel_malloc<uint64_t>(places * sizeof(uint64_t))) {}
  ~heap_test() { gravel_free(values_); }

  object make(uint64_t bytes, uint64_t salt) {
    const auto begin = std::chrono::steady_clock::now();
    const object made{gravel_malloc<uint64_t>(bytes), bytes / sizeof(uint64_t), salt};
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    compare(made, true);
    gravel_barrier_all();  // all have read zeros
    gravel_launch(write_to_next, 2, 128, gravel_handle(), made.at, made.words, salt);
    gravel_barrier_all();
    compare(made, false);
    return made;
  }
  void compare(const object& o, bool is_new) {
    gravel_launch(read_places, 2, 128, o.at, o.words, values_);
    gravel_quiet();
    std::vector<uint64_t> here(places);
    gravel_copy(here.data(), values_, places * sizeof(uint64_t));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < std::min(places, o.words); ++i) wrong += here[i] != (is_new ? 0 : value_of(i, o.salt));
    expect(wrong == 0, std::to_string(wrong) + " words of an object of " + std::to_string(o.words * 8) +
                           " bytes are wrong" + (is_new ? ": it is not zero" : ""));
  }
  double seconds() const { return seconds_; }

 private:
  uint64_t* values_;
  double seconds_ = 0;
};

/// Objects come and go. Each is compared again before it goes: nothing else was written over it.
void come_and_go(heap_test& test, int rounds, uint64_t largest) {
  std::mt19937_64 draw(20261127);
  std::vector<object> objects;
  for (int round = 0; round < rounds; ++round) {
    if (objects.empty() || draw() % 5 < 3) {
      const uint64_t most = draw() % 3 == 0 ? largest : std::min<uint64_t>(largest, 64 << 10);
      objects.push_back(test.make((1 + draw() % (most / 8)) * 8, static_cast<uint64_t>(round)));
      continue;
    }
    const auto which = objects.begin() + static_cast<long>(draw() % objects.size());
    test.compare(*which, false);
    gravel_free(which->at);
    objects.erase(which);
  }
  for (const object& o : objects) {
    test.compare(o, false);
    gravel_free(o.at);
  }
}

/// The heap grows while a kernel runs that waits for a message.
void grow_beside_a_kernel(heap_test& test, uint64_t bytes) {
  auto* const flag = gravel_malloc<uint64_t>(sizeof(uint64_t));
  gravel_launch(wait_for, 1, 32, gravel_handle(), flag);
  auto* const large = gravel_malloc<uint64_t>(bytes);
  gravel_put(gravel_host_handle(), flag, uint64_t{1}, gravel_my_pe());
  gravel_quiet();
  test.compare({large, bytes / 8, 0}, true);
  gravel_barrier_all();
  gravel_free(large);
  gravel_free(flag);
}

/// What is too large fails at all PEs, and nothing is lost.
void refuse(heap_test& test, uint64_t largest) {
  for (int i = 0; i < 3; ++i) expect_error("do not fit", [] { gravel_malloc<char>(1ull << 47); });
  const object o = test.make(largest, 7);
  gravel_free(o.at);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int usual_rounds = GRAVEL_CUDA ? 200 : 40;
  constexpr uint64_t usual_largest = GRAVEL_CUDA ? 512 : 12;  // MiB
  const int rounds = argc > 1 ? std::atoi(argv[1]) : usual_rounds;
  const uint64_t largest = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : usual_largest) * mib;
  const uint64_t last_gib = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  gravel_init();
  {
    heap_test test;
    grow_beside_a_kernel(test, largest);
    come_and_go(test, rounds, largest);
    refuse(test, largest);
    if (last_gib) {
      const object o = test.make(last_gib << 30, 9);
      const double made = test.seconds();
      const auto begin = std::chrono::steady_clock::now();
      gravel_free(o.at);
      const std::chrono::duration<double> freed = std::chrono::steady_clock::now() - begin;
      if (gravel_my_pe() == 0)
        std::printf("%llu GiB: gravel_malloc %.3f s, gravel_free %.3f s\n", static_cast<unsigned long long>(last_gib),
                    made, freed.count());
    }
#if GRAVEL_CUDA
    // Memory is given back: another allocator of the process finds it. Checked only with the third option, for a GPU
    // that no other process uses.
    size_t before = 0, during = 0, after = 0, total = 0;
    gravel_barrier_all();  // the other PEs have unmapped what was freed
    cudaMemGetInfo(&before, &total);
    auto* const large = gravel_malloc<char>(2048 * mib);
    cudaMemGetInfo(&during, &total);
    gravel_barrier_all();
    gravel_free(large);
    gravel_barrier_all();
    cudaMemGetInfo(&after, &total);
    if (gravel_my_pe() == 0)
      std::printf("free: %zu MiB, with an object of 2048 MiB %zu, behind it %zu\n", before / mib, during / mib,
                  after / mib);
    if (last_gib) expect(before >= during + 1900 * mib && after + 200 * mib >= before, "memory was not given back");
#endif
  }
  const bool right = gravel_sum_all(static_cast<uint64_t>(failures)) == 0;
  if (right && gravel_my_pe() == 0) std::printf("ok\n");
  gravel_finalize();
  return right ? 0 : 1;
}
