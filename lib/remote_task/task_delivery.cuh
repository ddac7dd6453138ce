// Doorbell of workers that sleep, and the handler that delivers commands of other nodes.
//
// Problem. While kernels of gravel_launch run at a PE, its workers poll all the time. Otherwise they end after a
// quantum, as all services do, and a command that arrives later must wake them through the host of their PE.
// Solution. The worker and the sender each write a word and read the other's word, with a full fence between, as in
// lib/base/service_rings.hpp [V2]:
//
//   worker that leaves: asleep = 1; full fence; has a command arrived? then rings the doorbell
//   sender: command; full fence; asleep? then rings the doorbell
//
// Workers write `asleep` into the memory of all PEs that they reach, so a sender reads its own memory. Over the route
// `net`, the handler that delivers a command reads `asleep`.
#pragma once
#include "device/service.cuh"
#include "lib/remote_task/task_types.cuh"

namespace gravel::detail {

/// Rings the doorbell of this PE's host, which starts the workers.
GRAVEL_BOTH void ring_for_workers(service_control* control) {
#if GRAVEL_ON_GPU
  store_release(&control->doorbell, globaltimer_ns());
#else
  fetch_add_release<scope::system>(&control->doorbell, uint64_t{1});
#endif
}

}  // namespace gravel::detail

namespace gravel::detail {
/// The words of a command in an active message.
struct command_words {
  uint64_t word[task_words::all];
};
}  // namespace gravel::detail

/// The handler that writes commands of other nodes into slots and wakes workers, for all queues. The program passes it
/// to gravel_init.
struct gravel_task_delivery {
  static constexpr const char* name = "gravel task";
  /// `queue`: offset of the queue's task_queue_record. `slot`: offset in the heap. `tag` 0: there is no command; only
  /// wakes the workers.
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t queue, uint64_t slot, uint64_t tag,
                                 gravel::detail::command_words command) const {
    using namespace gravel::detail;
    const auto* const to = reinterpret_cast<const task_queue_record*>(g.heap + queue);
    if (queue % alignof(task_queue_record) || !lies_in_heap(queue, sizeof(task_queue_record), g.heap_bytes) ||
        load_relaxed(&to->open) != queue + 1)
      return report_error(g, message_fault::task_queue, op::none, g.my_pe, queue, g.heap_bytes);
    if (slot < queue || !lies_in_heap(slot, sizeof(task_slot), to->end) || slot % 16 ||
        task_tag::words(tag) > task_words::all)
      return report_error(g, message_fault::task_address, op::none, g.my_pe, slot, g.heap_bytes);
    auto* const words = reinterpret_cast<tagged_word*>(g.heap + slot);
    for (uint32_t i = task_tag::words(tag); i-- > 0;) store_tagged(words + i, command.word[i], tag);  // [T1]
    full_fence();
    if (load_relaxed(reinterpret_cast<const uint64_t*>(g.heap + to->asleep)) != 0) ring_for_workers(to->control);
  }
};
