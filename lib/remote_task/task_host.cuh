// The host's part in running tasks: a thread that waits for descriptors from the workers, launches kernels for some
// tasks and runs others itself.
#pragma once
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "host/pe/pinned_array.hpp"
#include "lib/base/capacity.hpp"
#include "lib/base/error.hpp"
#include "lib/remote_task/task_worker.cuh"

namespace gravel::detail {

/// A task as a kernel of its own. Grid: the blocks of the task.
template <class Task>
__global__ void __launch_bounds__(task_check<Task>::shape.threads)
    run_alone(const __grid_constant__ gravel_task_handle queue, uint32_t ring, uint64_t ticket, uint64_t tag) {
  __shared__ open_task task;
  if (tag == 0) return;  // launched only to load the kernel
  if (threadIdx.x < 32) {
    task_slot* const slot = slot_at(queue, ring, ticket);
    read_words(task, slot, ticket, tag, threadIdx.x, {0, ~tag});
    if (threadIdx.x == 0) {
      task.tag = tag;
      task.ticket = ticket;
      task.slot = slot;
      task.ring = ring;
    }
  }
  __syncthreads();
  run_open<Task>(queue, copy_team::block(queue.g), task, tag, blockIdx.x, gridDim.x);
}

struct task_hosting {
  gravel_task_handle kernels, host;
  uint64_t descriptors;
};

/// The thread that runs tasks on the host, from constructor to destructor. It ends the job if a task throws.
class task_host {
 public:
  /// Starts or runs the task of a descriptor. Returns false if the queue does not know the task.
  using runner = std::function<bool(task_host&, const task_descriptor&)>;

  task_host(const task_hosting& where, runner run)
      : where_(where),
        run_(std::move(run)),
        descriptors_(current_backend(), where_.descriptors, "descriptors of a task queue") {
    where_.host.in_worker = where_.kernels.in_worker = where_.kernels.fenced = true;
    thread_ = start_thread("a gravel_task_queue", [this] { serve(); });
  }
  ~task_host() {
    store_release(&stop_, uint64_t{1});
    thread_.join();
  }
  task_host(const task_host&) = delete;
  task_host& operator=(const task_host&) = delete;

  task_descriptor* descriptors() const { return descriptors_.data(); }
  /// Number of tasks that have ended on the host. Thread scope: any.
  uint64_t ended() const { return load_acquire(&ended_); }

  template <class... Tasks>
  static runner runner_of() {
    return [](task_host& host, const task_descriptor& descriptor) { return (host.start_if<Tasks>(descriptor) || ...); };
  }

 private:
  void serve() {
    try {
      uint64_t next = 0;
      for (relax wait; load_acquire(&stop_) == 0; wait.attentively()) {
        for (;; ++next, wait.reset()) {
          task_descriptor& descriptor = descriptors()[next % where_.descriptors];
          if (load_acquire(&descriptor.number) != next + 1) break;  // [T4]
          const task_descriptor now = descriptor;
          if (!run_(*this, now))
            report_error(where_.host.g, message_fault::unknown_task, op::none, sender_of(now.ring), now.id,
                         where_.host.memory.number);
        }
      }
    } catch (const std::exception& e) {
      gravel_abort((std::string("a task on the host, or its launch: ") + e.what()).c_str());
    }
  }
  uint32_t sender_of(uint32_t ring) const { return ring % where_.host.g.n_pes; }

  /// Starts the task if it is of this type. Returns whether it is.
  template <class Task>
  bool start_if(const task_descriptor& descriptor) {
    if (descriptor.id != handler_id<Task>::value) return false;
    start<Task>(descriptor);
    return true;
  }
  template <class Task>
  void start(const task_descriptor& descriptor) {
    if constexpr (task_check<Task>::on_host) run_here<Task>(descriptor);
    else {
      constexpr gravel_task_shape shape = task_check<Task>::shape;
      gravel_launch(run_alone<Task>,
                    gravel_launch_config{.grid = shape.blocks, .block = shape.threads, .stream = stream()},
                    where_.kernels, descriptor.ring, descriptor.ticket, descriptor.tag);
    }
  }
  template <class Task>
  void run_here(const task_descriptor& descriptor) {
    const gravel_task_handle& q = where_.host;
    task_slot* const slot = slot_at(where_.kernels, descriptor.ring, descriptor.ticket);
    open_task task{};
    task.tag = descriptor.tag;
    task.ticket = descriptor.ticket;
    task.ring = descriptor.ring;
    tagged_word words[task_words::all];
    for (uint32_t i = 0; i < task_tag::words(task.tag); ++i)  // they may become visible after the first
      do gravel_copy(&words[i], &slot->words[i], sizeof(words[i]));
      while (task_tag::compare(words[i].tag, task.ticket) != 0);
    for (uint32_t i = 0; i < task_tag::words(task.tag); ++i) task.words[i] = words[i].value;
    const task_head head = task.head();
    const void* const from = check_task(q, copy_team::alone(), head, task.tag)
                                 ? find_payload(q, copy_team::alone(), head, task.words, slot)
                                 : nullptr;
    if (from) {
      std::vector<uint64_t> payload((head.bytes() + 7) / 8);
      if (head.counted())
        for (watched_wait wait; poll_word(q.g, &slot->arrived) != head.counted();)  // [T3]
          wait.attentively([&] { return "the payload of a task of PE " + std::to_string(head.sender_pe()); });
      if (head.bytes() != 0 && head.inlined())
        std::memcpy(payload.data(), task.words + task_words::payload, head.bytes());
      else if (head.bytes() != 0) gravel_copy(payload.data(), from, head.bytes());
      const gravel_task_t t{q, copy_team::alone(), 0, 1, head.bytes(), static_cast<int>(head.sender_pe())};
      task_check<Task>::call::template call<Task>(t, target_of(q, head), payload.data(),
                                                  task.words + task_words::arguments);
      std::vector<uint64_t> steps(head.step_words());
      if (!steps.empty())
        gravel_copy(steps.data(), steps_at(q, slot, head.step_words()), steps.size() * sizeof(uint64_t));
      if (head.chain_words() + head.step_words() != 0) send_next(q, copy_team::alone(), task, steps.data());
    }
    current_backend().store_word(&slot->arrived, 0);
    thread_fence();
    raise_task_signal(q, head.signal, head.signal_pe());
    free_slot(q, task.ring, task.ticket);
    fetch_add_release<scope::system>(&ended_, uint64_t{1});
  }
  gravel_stream_t stream() {
    if (!stream_) stream_ = gravel_stream_create();
    return stream_;
  }

  task_hosting where_;
  runner run_;
  pinned_array<task_descriptor> descriptors_;
  gravel_stream_t stream_ = nullptr;
  uint64_t ended_ = 0, stop_ = 0;
  std::thread thread_;
};

}  // namespace gravel::detail
