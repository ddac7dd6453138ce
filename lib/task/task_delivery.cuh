// Calling workers that sleep. While kernels of gravel_launch run at a PE, its workers look all the time; else they end after a quantum, as all services
// do, and what arrives then must call the host of their PE. Who sleeps and who sends each write a word and read the other's, with a full fence between, as in
// lib/base/service_rings.hpp [V2]:
//
//   worker that leaves: asleep = 1; fence; has something arrived? then call        sender: command; fence; asleep? then call
//
// To a peer the sender looks at `asleep` in its memory. Over the route `net` it sends a message behind each command; its handler looks, when the command has
// arrived.
#pragma once
#include "device/service.cuh"
#include "lib/task/task_types.cuh"

namespace gravel {

/// Calls the host of this PE.
GRAVEL_BOTH void ring_for_workers(const service_view& view) {
#if GRAVEL_ON_GPU
  store_release(&view.mail->bell, globaltimer_ns());
#else
  fetch_add_release<scope::system>(&view.mail->bell, uint64_t{1});
#endif
}

}  // namespace gravel

/// The handler that calls workers; to be given to gravel_init.
struct gravel_task_delivery {
  static constexpr const char* name = "gravel task";
  using context = gravel::service_view;
  GRAVEL_HANDLER void operator()(const gravel_t& g, context* view, uint64_t asleep, uint64_t first_word, uint64_t ticket) const {
    using namespace gravel;
    if (!lies_in_heap(asleep, 8, g.heap_bytes) || !lies_in_heap(first_word, 16, g.heap_bytes))
      return report_error(g, message_fault::task_address, op::none, g.my_pe, first_word, g.heap_bytes, 0);
    const auto* const first = reinterpret_cast<const tagged_word*>(g.heap + first_word);
    if (task_tag::compare(load_acquire(&first->tag), ticket) < 0)  // it is on its way
      return gravel_am<gravel_task_delivery>(g, static_cast<int>(g.my_pe), asleep, first_word, ticket);
    full_fence();
    if (load_relaxed(reinterpret_cast<const uint64_t*>(g.heap + asleep)) != 0) ring_for_workers(*view);
  }
};

namespace gravel {

/// Behind a command. `heap`: of `pe`, as mapped here; nullptr: it is not. Thread scope: lane, or a host thread.
GRAVEL_BOTH void call_workers(const gravel_task_handle& q, uint32_t pe, uint64_t slot, uint64_t ticket, char* heap) {
  const uint64_t asleep = q.memory.line(task_memory::asleep);
  if (heap) {
#if GRAVEL_ON_GPU
    full_fence();
    if (load_relaxed(reinterpret_cast<const uint64_t*>(heap + asleep)) == 0) return;
#else
    return (void)slot, (void)ticket, (void)pe, (void)asleep;  // workers of the CPU backend do not sleep
#endif
  }
  gravel_am<gravel_task_delivery>(q.g, static_cast<int>(pe), asleep, slot, ticket);
  if (!heap) gravel_flush(q.g);
}

}  // namespace gravel
