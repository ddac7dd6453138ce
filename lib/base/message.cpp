#include "lib/base/message.hpp"

#include <cstddef>

#include "lib/base/error.hpp"

namespace gravel {

const char* name_of(op o) {
  static constexpr const char* names[] = {"none",
                                          "gravel_put",
                                          "gravel_add",
                                          "gravel_and",
                                          "gravel_or",
                                          "gravel_xor",
                                          "gravel_min",
                                          "gravel_max",
                                          "gravel_get",
                                          "gravel_fetch_add",
                                          "gravel_fetch_and",
                                          "gravel_fetch_or",
                                          "gravel_fetch_xor",
                                          "gravel_fetch_min",
                                          "gravel_fetch_max",
                                          "gravel_swap",
                                          "gravel_fetch",
                                          "gravel_compare_swap",
                                          "gravel_am",
                                          "reply to gravel_get",
                                          "reply to a fetching operation",
                                          "gravel_put_bulk",
                                          "gravel_put_signal",
                                          "gravel_get_bulk",
                                          "reply to gravel_get_bulk",
                                          "gravel_inc"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(op::count));
  return o < op::count ? names[static_cast<int>(o)] : "unknown operation";
}

const char* name_of(other_call call) {
  static constexpr const char* names[] = {"no call",
                                          "gravel_quiet",
                                          "gravel_fence",
                                          "gravel_wait_until",
                                          "gravel_block_sender",
                                          "gravel_local_add and the like",
                                          "gravel_barrier_block",
                                          "gravel_broadcast_block",
                                          "gravel_sum_all_block",
                                          "gravel_min_all_block",
                                          "gravel_max_all_block",
                                          "gravel_barrier",
                                          "gravel_allreduce",
                                          "gravel_reduce"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(other_call::count));
  return call < other_call::count ? names[static_cast<int>(call)] : "an unknown call";
}

const char* name_of(message_fault fault) {
  static constexpr const char* names[] = {"no fault",
                                          "unknown operation",
                                          "a type the operation does not take",
                                          "a size that does not fit the operation",
                                          "an address outside the symmetric heap",
                                          "a misaligned address",
                                          "an unregistered handler",
                                          "a PE number out of range",
                                          "inside a handler: handlers must not wait",
                                          "a corrupt packet",
                                          "a handler without its context",
                                          "a handler that was not given to gravel_init",
                                          "a destination outside its own symmetric heap, or misaligned",
                                          "inside a handler: it is for whole blocks or warps of a kernel",
                                          "outside a kernel: it is for kernels",
                                          "in a grid of several blocks that was not launched as cooperative",
                                          "on the host: this memory is the device's, and the host reaches it by messages",
                                          "a block sender for another number of threads",
                                          "a block sender without memory",
                                          "another collective of kernels",
                                          "no such server",
                                          "no such key",
                                          "no room for an answer",
                                          "another reduction",
                                          "a reduction that cannot be",
                                          "no such PE for a task",
                                          "a payload larger than the queue's slots",
                                          "a task's address outside the symmetric heap, or misaligned",
                                          "no room for a task that a task sends",
                                          "an unknown task",
                                          "a command that is none",
                                          "a chain of tasks that is too long",
                                          "a task for a queue that is not open",
                                          "a send on a link after its shutdown",
                                          "no such channel of a link",
                                          "a receive on a link all of whose buffers are held"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(message_fault::link_held) + 1);
  return names[static_cast<int>(fault)];
}

std::string text_of_misfit(message_fault fault, uint64_t wanted, uint64_t found) {
  if (fault == message_fault::bad_block)
    return "gravel_block_sender<" + std::to_string(wanted) + ", ...> in a block of " + std::to_string(found) +
           " threads: its first argument must be the number of threads of the block";
  return "dynamic() of a sender in a block with " + std::to_string(found) + " bytes of dynamic shared memory: it needs " +
         std::to_string(wanted) + " (gravel_launch_config: shared_bytes)";
}

void fail_in_handler(const char* handler, op o, const char* what) {
  if (handler) fail("handler '{}' threw: {}", handler, what);
  fail("{} threw: {}", name_of(o), what);
}

}  // namespace gravel
