// Accumulates as tasks: workers of the target combine the payload with an array of the target, as in XTQ (SC 2016,
// section on accumulates). gravel_accumulate (lib/remote_task/accumulate.cuh) instead sends an atomic operation, or a
// part of a message, for each element.
//
//   gravel_task_queue<gravel_accumulate_task<GRAVEL_SUM, float>> queue;
//   // in a kernel, by a block:
//   const uint64_t tasks = gravel_task_accumulate(queue.handle(), pe, target, source, count, done);
//   // at `pe`:
//   gravel_wait(done, tasks)
#pragma once
#include "lib/remote_task/accumulate.cuh"
#include "lib/remote_task/task_put.cuh"

namespace gravel::detail {

/// The name of the task, another one for each operation and type.
template <gravel_reduction HOW, class T>
struct accumulate_name {
  static constexpr char text[] = {'g',
                                  'r',
                                  'a',
                                  'v',
                                  'e',
                                  'l',
                                  ' ',
                                  'a',
                                  'c',
                                  'c',
                                  'u',
                                  'm',
                                  'u',
                                  'l',
                                  'a',
                                  't',
                                  'e',
                                  ' ',
                                  '0' + static_cast<char>(HOW),
                                  ' ',
                                  '0' + static_cast<char>(element<T>::type),
                                  0};
};
GRAVEL_BOTH const gravel_task_handle& handle_of(const gravel_task_handle& queue) { return queue; }
GRAVEL_BOTH const gravel_task_handle& handle_of(const gravel_task_t& task) { return task.queue; }
GRAVEL_BOTH copy_team team_of(const gravel_task_handle& queue) { return copy_team::block(queue.g); }
GRAVEL_BOTH copy_team team_of(const gravel_task_t& task) { return task.team; }

}  // namespace gravel::detail

/// The task: target[i] = target[i] combined with payload[i], each atomically with regard to other accumulates, in tasks
/// or not, and to the core's operations. T as for gravel_allreduce.
template <gravel_reduction HOW, class T>
struct gravel_accumulate_task {
  static constexpr const char* name = gravel::detail::accumulate_name<HOW, T>::text;
  static constexpr gravel_task_shape shape{.blocks = 1, .threads = 256};
  GRAVEL_DEVICE void operator()(const gravel_task_t& t, T* target, const T* payload) const {
    for (uint64_t i = t.first(); i < t.bytes / sizeof(T); i += t.stride())
      gravel::detail::accumulate_in_place<HOW, gravel::detail::scope::system>(target + i, payload[i]);
  }
};

/// Combines an array with one at `pe`, element by element, by tasks of as many elements as a payload holds.
/// Floating-point sums depend on the order in which tasks run. The queue must know gravel_accumulate_task<HOW, T>.
/// @param from handle of the queue, or the gravel_task_t that the running task received
/// @param pe 0 to gravel_n_pes(g) - 1
/// @param target [count], a symmetric address, aligned as a T is
/// @param source [count], memory that the sender reads; may be used again on return
/// @param count number of elements
/// @param done signal at `pe` that rises by 1 for each task; {}: none
/// @return number of tasks, by which the signal rises
/// @scope as of gravel_task_put
/// @completion when `done` has risen by the number of tasks, or at gravel_task_queue::wait()
/// @errors as of gravel_task_put
/// @source XTQ (SC 2016), accumulates
template <gravel_reduction HOW = GRAVEL_SUM, class T, class Sender>
GRAVEL_BOTH uint64_t gravel_task_accumulate(const Sender& from, int pe, T* target,
                                            const gravel::detail::same<T>* source, uint64_t count,
                                            const gravel_signal& done = {}) {
  using namespace gravel::detail;
  const gravel_task_handle& queue = handle_of(from);
  const uint64_t offset = offset_in_heap(queue.g, target), most = queue.memory.shape.payload_bytes / sizeof(T);
  if (!enter_team(queue.g, team_call::task_accumulate, team_of(from), pe, target, count, done.offset) || count == 0)
    return 0;
  if (count > queue.g.heap_bytes / sizeof(T) || !lies_in_heap(offset, count * sizeof(T), queue.g.heap_bytes) ||
      offset % sizeof(T) || most == 0) {
    if (team_of(from).is_leader())
      report_error(queue.g, most == 0 ? message_fault::task_payload : message_fault::task_address, op::none,
                   queue.g.my_pe, most == 0 ? sizeof(T) : offset,
                   most == 0 ? queue.memory.shape.payload_bytes : queue.g.heap_bytes,
                   handler_id<gravel_accumulate_task<HOW, T>>::value);
    return 0;
  }
  uint64_t tasks = 0;
  for (uint64_t first = 0; first < count; first += most, ++tasks) {
    const uint64_t now = count - first < most ? count - first : most;
    gravel_task_put<gravel_accumulate_task<HOW, T>>(from, pe, target + first, {{source + first, now * sizeof(T)}},
                                                    done);
  }
  return tasks;
}
