// Remote tasks: a message with a payload starts a kernel at the next PE, and raises a signal here when it has ended.
#include <cstdio>
#include <vector>

#include <gravel/gravel.cuh>
#include <gravel/remote_task.cuh>

struct axpy {                                  // a task is a type
  static constexpr const char* name = "axpy";  // the same at all PEs
  static constexpr gravel_task_shape shape{.blocks = 2, .threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, float* y, const float* x, uint32_t n, float a) const {
    for (uint32_t i = t.first(); i < n; i += t.stride()) y[i] += a * x[i];  // x: the payload
  }
};

__global__ void send(gravel_task_handle queue, float* y, const float* x, uint32_t n, gravel_signal done) {
  const int next = (gravel_my_pe(queue.g) + 1) % gravel_n_pes(queue.g);
  gravel_make_task<axpy>(queue, next, y, {{x, n * sizeof(float)}}, done, n, 2.0f).put();  // the whole block
}

int main() {
  gravel_init<gravel_task_delivery>();  // the handler that takes tasks of other nodes
  constexpr uint32_t n = 500;
  auto* y = gravel_malloc<float>(n * sizeof(float));
  auto* x = gravel_malloc<float>(n * sizeof(float));
  std::vector<float> values(n, 1.5f);
  gravel_copy(x, values.data(), n * sizeof(float));
  const gravel_signal done = gravel_new_signal();
  {
    gravel_task_queue<axpy> queue({.workers = 4, .slots = 16, .payload_bytes = 4096});  // collective
    gravel_launch(send, 1, 64, queue.handle(), y, x, n, done);
    gravel_wait(done, 1);  // the task that this PE sent has ended
  }                        // closed: all tasks of all PEs have ended

  gravel_copy(values.data(), y, n * sizeof(float));
  uint64_t wrong = 0;
  for (const float value : values) wrong += value != 3.0f;
  wrong = gravel_sum_all(wrong);
  if (gravel_my_pe() == 0) std::printf("%s\n", wrong == 0 ? "ok" : "WRONG");
  gravel_finalize();
  return wrong != 0;
}
