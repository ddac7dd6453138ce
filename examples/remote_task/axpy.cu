// The paper's micro-benchmark (XTQ, SC16, section V.B) as a program: y += a * x, where y belongs to one PE and x comes
// from another, piece by piece; each piece is the payload of a task that adds it, where y is. Kernels of all PEs send
// at once, each to the next PE, or the hosts do. At the end y is compared with a serial computation.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/remote_task.cuh>
#include "examples/common/program.hpp"

constexpr const char* program_name = "axpy";

struct axpy {
  static constexpr const char* name = "axpy";
  static constexpr gravel_task_shape shape{.blocks = 2, .threads = GRAVEL_CUDA ? 256 : 32};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, float* y, const float* x, float a) const {
    for (uint64_t i = t.first(); i < t.bytes / sizeof(float); i += t.stride()) y[i] += a * x[i];
  }
};
using queue_type = gravel_task_queue<axpy>;

GRAVEL_BOTH float x_of(int pe, uint64_t i) { return static_cast<float>((i * 7 + static_cast<uint64_t>(pe)) % 1000); }

__global__ void fill(float* x, int pe, uint64_t n) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += uint64_t{gridDim.x} * blockDim.x)
    x[i] = x_of(pe, i);
}
/// Each block sends its share of the pieces.
__global__ void send(gravel_task_handle q, float* y, const float* x, uint64_t n, uint64_t piece, float a,
                     gravel_signal done) {
  const int next = (gravel_my_pe(q.g) + 1) % gravel_n_pes(q.g);
  for (uint64_t at = blockIdx.x * piece; at < n; at += gridDim.x * piece)
    gravel_task_put<axpy>(q, next, y + at, {{x + at, (at + piece < n ? piece : n - at) * sizeof(float)}}, done, a);
}

int main(int argc, char** argv) {
  uint64_t n = GRAVEL_CUDA ? uint64_t{1} << 24 : 20000, piece = GRAVEL_CUDA ? 4096 : 512;
  uint32_t rounds = 3, workers = GRAVEL_CUDA ? 16 : 2;
  bool from_host = false;
  app::command_line app("y += a * x by tasks: each PE sends its x to the next, piece by piece.", program_name);
  app.add_option("--elements", n, "of x and y at each PE").range(uint64_t{1}, uint64_t{1} << 32).capture_default_str();
  app.add_option("--piece", piece, "elements in a task's payload")
      .range(uint64_t{1}, uint64_t{1} << 20)
      .capture_default_str();
  app.add_option("--rounds", rounds, "times that all of it is done").range(1u, 1000u).capture_default_str();
  app.add_option("--workers", workers, "resident blocks of each PE").range(1u, 256u).capture_default_str();
  app.add_flag("--from-host", from_host, "host threads send, not kernels");
  app::parse_or_exit(app, argc, argv, [&] {
    app::need_symmetric(2 * n * sizeof(float) + (uint64_t{64} << 20) + 64 * 33 * piece * sizeof(float));
  });
  gravel_init<gravel_task_delivery>();
  const int me = gravel_my_pe(), before = (me + gravel_n_pes() - 1) % gravel_n_pes();
  auto* const y = gravel_malloc<float>(n * sizeof(float));
  auto* const x = gravel_malloc<float>(n * sizeof(float));
  const gravel_signal done = gravel_new_signal();
  gravel_launch(fill, 64, 32, x, me, n);
  gravel_barrier_all();

  const uint64_t tasks = (n + piece - 1) / piece;
  double seconds = 0;
  {
    queue_type queue({.workers = workers, .payload_bytes = static_cast<uint32_t>(piece * sizeof(float))});
    for (uint32_t r = 1; r <= rounds; ++r) {
      gravel_barrier_all();
      const auto begin = std::chrono::steady_clock::now();
      if (from_host)
        for (uint64_t at = 0; at < n; at += piece)
          gravel_task_put<axpy>(queue.host_handle(), (me + 1) % gravel_n_pes(), y + at,
                                {{x + at, std::min(piece, n - at) * sizeof(float)}}, done, 0.5f);
      else
        gravel_launch(send, GRAVEL_CUDA ? 16 : 2, GRAVEL_CUDA ? 256 : 32, queue.handle(), y, x, n, piece, 0.5f, done);
      gravel_wait(done, r * tasks);  // all of y is done here
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  }
  std::vector<float> result(n);
  gravel_copy(result.data(), y, n * sizeof(float));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < n; ++i) wrong += result[i] != 0.5f * static_cast<float>(rounds) * x_of(before, i);
  wrong = gravel_sum_all(wrong);
  if (me == 0)
    std::printf("%llu elements in %llu tasks of %llu bytes: %.3f ms, %.2f GB/s for each PE; %llu wrong elements\n",
                static_cast<unsigned long long>(n), static_cast<unsigned long long>(tasks),
                static_cast<unsigned long long>(piece * sizeof(float)), seconds * 1e3,
                static_cast<double>(n) * sizeof(float) / seconds / 1e9, static_cast<unsigned long long>(wrong));
  gravel_finalize();
  return wrong ? app::exit_wrong_result : 0;
}
