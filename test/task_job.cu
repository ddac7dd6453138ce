#include <cstdio>
#include <vector>

#include "gravel.cuh"
#include "lib/task/task.cuh"

struct axpy {
  static constexpr const char* name = "axpy";
  static constexpr gravel_task_shape shape{.blocks = 3, .threads = 64};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, float* target, const float* payload, uint32_t n, float a) const {
    for (uint32_t i = t.first(); i < n; i += t.stride()) target[i] += a * payload[i];
  }
};
struct small {
  static constexpr const char* name = "small";
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, uint64_t* target, const uint64_t* payload, uint64_t add) const {
    if (t.rank() == 0) gravel::fetch_add<gravel::scope::device>(target, payload[0] + add);
  }
};
__global__ void send(gravel_task_handle q, float* target, uint64_t* sum, const float* x, uint32_t n, gravel_signal done, gravel_signal done2) {
  __shared__ uint64_t one;
  const int next = (gravel_my_pe(q.g) + 1) % gravel_n_pes(q.g);
  gravel_task_put<axpy>(q, next, target, {{x, n * 4 / 2}, {x + n / 2, n * 4 / 2}}, done, n, 2.0f);
  for (int i = 0; i < 50; ++i) {
    if (threadIdx.x == 0) one = 1;
    gravel_task_put<small>(q, next, sum, {{&one, 8}}, done2, 1ul);
  }
}
int main() {
  gravel_init<gravel_task_delivery>();
  const uint32_t n = 1000;
  auto* target = gravel_malloc<float>(n * 4);
  auto* sum = gravel_malloc<uint64_t>(8);
  auto done = gravel_new_signal(), done2 = gravel_new_signal();
  std::vector<float> x(n, 1.5f), y(n);
  float* dx = gravel_malloc<float>(n * 4);
  gravel_copy(dx, x.data(), n * 4);
  int bad = 0;
  {
    gravel_task_queue<axpy, small> queue({.workers = 2, .slots = 4});
    gravel_launch(send, 1, 64, queue.handle(), target, sum, dx, n, done, done2);
    const int next = (gravel_my_pe() + 1) % gravel_n_pes();
    gravel_task_put<axpy>(queue.host_handle(), next, target, {{x.data(), n * 4}}, done, n, 1.0f);
    gravel_wait(done, 2);
    gravel_wait(done2, 50);
    gravel_copy(y.data(), target, n * 4);
    for (float f : y) bad += f != 4.5f;
    uint64_t s;
    gravel_copy(&s, sum, 8);
    bad += s != 100;
    printf("PE %d: %d bad, sum %lu\n", gravel_my_pe(), bad, s);
  }
  gravel_finalize();
  return bad != 0;
}
