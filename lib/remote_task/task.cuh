// Remote tasks (docs/tasks.md): a message that starts a task at another PE. The umbrella header of lib/remote_task.
// Source: "Extended task queuing" (XTQ, SC 2016): an RDMA put that also enqueues a kernel at its target.
//
//   struct axpy {
//     static constexpr const char* name = "axpy";
//     static constexpr gravel_task_shape shape{.blocks = 8, .threads = 256};
//     GRAVEL_DEVICE void operator()(const gravel_task_t& t, float* target, const float* payload, uint32_t n,
//                                   float a) const {
//       for (uint32_t i = t.first(); i < n; i += t.stride()) target[i] += a * payload[i];
//     }
//   };
//   gravel_init<gravel_task_delivery>();
//   gravel_task_queue<axpy> queue({.workers = 16, .payload_bytes = 1 << 16});  // collective
//   gravel_signal done = gravel_new_signal();                                  // collective
//   gravel_task_put<axpy>(queue.host_handle(), pe, target, {{x, bytes}}, done, n, 2.0f);  // kernels: queue.handle()
//   gravel_wait(done, 1);                                                                 // at `pe`
#pragma once
#include "lib/remote_task/accumulate_task.cuh"
#include "lib/remote_task/task_put.cuh"
#include "lib/remote_task/task_queue.cuh"
