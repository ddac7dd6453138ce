// The paper's micro-benchmark (XTQ, SC16, section V.B) as a program: y += a * x, where y belongs to one PE and x comes
// from another, piece by piece; each piece is the payload of a task that adds it, where y is. Kernels of all PEs send
// at once, each to the next PE, or the hosts do. At the end y is compared with a serial computation.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/remote_task.cuh>
#include "examples/common/program.hpp"
#include "examples/common/run_application.hpp"

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

struct axpy_options {
  uint64_t n = GRAVEL_CUDA ? uint64_t{1} << 24 : 20000, piece = GRAVEL_CUDA ? 4096 : 512;
  uint32_t rounds = 3, workers = GRAVEL_CUDA ? 16 : 2;
  bool from_host = false;

  void add_options(app::command_line& line) {
    line.add_option("--elements", n, "of x and y at each PE")
        .range(uint64_t{1}, uint64_t{1} << 32)
        .capture_default_str();
    line.add_option("--piece", piece, "elements in a task's payload")
        .range(uint64_t{1}, uint64_t{1} << 20)
        .capture_default_str();
    line.add_option("--rounds", rounds, "times that all of it is done").range(1u, 1000u).capture_default_str();
    line.add_option("--workers", workers, "resident blocks of each PE").range(1u, 256u).capture_default_str();
    line.add_flag("--from-host", from_host, "host threads send, not kernels");
  }
  uint64_t symmetric_bytes() const {
    return 2 * n * sizeof(float) + (uint64_t{64} << 20) + 64 * 33 * piece * sizeof(float);
  }
};

bool add_all(const axpy_options& o, app::fact_list&) {
  const int me = gravel_my_pe(), before = (me + gravel_n_pes() - 1) % gravel_n_pes();
  auto* const y = gravel_malloc<float>(o.n * sizeof(float));
  auto* const x = gravel_malloc<float>(o.n * sizeof(float));
  const gravel_signal done = gravel_new_signal();
  gravel_launch(fill, 64, 32, x, me, o.n);
  gravel_barrier_all();

  const uint64_t tasks = (o.n + o.piece - 1) / o.piece;
  double seconds = 0;
  {
    queue_type queue({.workers = o.workers, .payload_bytes = static_cast<uint32_t>(o.piece * sizeof(float))});
    for (uint32_t r = 1; r <= o.rounds; ++r) {
      gravel_barrier_all();
      seconds = app::seconds_of([&] {
        if (o.from_host)
          for (uint64_t at = 0; at < o.n; at += o.piece)
            gravel_task_put<axpy>(queue.host_handle(), (me + 1) % gravel_n_pes(), y + at,
                                  {{x + at, std::min(o.piece, o.n - at) * sizeof(float)}}, done, 0.5f);
        else
          gravel_launch(send, GRAVEL_CUDA ? 16 : 2, GRAVEL_CUDA ? 256 : 32, queue.handle(), y, x, o.n, o.piece, 0.5f,
                        done);
        gravel_wait(done, r * tasks);  // all of y is done here
      });
    }
  }
  std::vector<float> result(o.n);
  gravel_copy(result.data(), y, o.n * sizeof(float));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < o.n; ++i) wrong += result[i] != 0.5f * static_cast<float>(o.rounds) * x_of(before, i);
  wrong = gravel_sum_all(wrong);
  if (me == 0)
    std::printf("%llu elements in %llu tasks of %llu bytes: %.3f ms, %.2f GB/s for each PE; %llu wrong elements\n",
                static_cast<unsigned long long>(o.n), static_cast<unsigned long long>(tasks),
                static_cast<unsigned long long>(o.piece * sizeof(float)), seconds * 1e3,
                static_cast<double>(o.n) * sizeof(float) / seconds / 1e9, static_cast<unsigned long long>(wrong));
  return wrong == 0;
}

int main(int argc, char** argv) {
  return app::run_application<gravel_task_delivery>(
      {program_name, "y += a * x by tasks: each PE sends its x to the next, piece by piece."}, argc, argv,
      axpy_options{}, add_all);
}
