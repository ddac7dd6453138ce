// A job that test/scripts/top_test.py watches: PEs send until the file FIRST is there. Then PE 1 waits for the file
// SECOND, and the others wait for PE 1. Prints "ready" once per PE. Usage: watched_job FIRST SECOND
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <gravel/gravel.cuh>

__global__ void spray(gravel_t g, uint64_t* table, uint32_t words) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  gravel_inc(g, &table[i % words], static_cast<int>((g.my_pe + 1 + i % 2) % g.n_pes));
}

static bool is_there(const char* file) { return access(file, F_OK) == 0; }

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "watched_job: usage: watched_job FIRST SECOND\n");
    return 2;
  }
  gravel_init<>();
  constexpr uint32_t words = 1024;
  auto* table = gravel_malloc<uint64_t>(words * sizeof(uint64_t));
  std::printf("ready\n");
  std::fflush(stdout);
  while (!is_there(argv[1])) {
    gravel_launch(spray, 2, 64, gravel_handle(), table, words);
    gravel_quiet();
  }
  while (gravel_my_pe() == 1 && !is_there(argv[2])) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  gravel_barrier_all();
  gravel_finalize();
}
