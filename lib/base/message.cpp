#include "lib/base/message.hpp"

#include <cstddef>

namespace gravel {

const char* name_of(op o) {
  static constexpr const char* names[] = {"none", "gravel_put", "gravel_add", "gravel_and", "gravel_or",
                                          "gravel_xor", "gravel_min", "gravel_max", "gravel_get",
                                          "gravel_fetch_add", "gravel_fetch_and", "gravel_fetch_or", "gravel_fetch_xor",
                                          "gravel_fetch_min", "gravel_fetch_max", "gravel_swap", "gravel_fetch",
                                          "gravel_compare_swap", "gravel_am",
                                          "reply to gravel_get", "reply to a fetching operation",
                                          "gravel_put_bulk", "gravel_put_signal", "gravel_get_bulk",
                                          "reply to gravel_get_bulk"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(op::count));
  return o < op::count ? names[static_cast<int>(o)] : "unknown operation";
}

const char* name_of(other_call call) {
  static constexpr const char* names[] = {"no call", "gravel_quiet", "gravel_fence", "gravel_wait_until",
                                          "gravel_block_sender", "gravel_local_add and the like"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(other_call::count));
  return names[static_cast<int>(call)];
}

const char* name_of(message_fault fault) {
  static constexpr const char* names[] = {
      "no fault", "unknown operation", "a type the operation does not take", "a size that does not fit the operation",
      "an address outside the symmetric heap", "a misaligned address", "an unregistered handler",
      "a PE number out of range", "inside a handler: handlers must not wait",
      "a corrupt packet", "a handler without its context", "a handler that was not given to gravel_init",
      "a destination outside its own symmetric heap, or misaligned",
      "inside a handler: it is for whole blocks or warps of a kernel", "outside a kernel: it is for kernels",
      "on the host: this memory is the device's, and the host reaches it by messages"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(message_fault::on_host) + 1);
  return names[static_cast<int>(fault)];
}

}  // namespace gravel
