#include "lib/base/message.hpp"

#include "lib/base/error.hpp"

namespace gravel::detail {

const char* name_of(op o) {
  static constexpr const char* names[] = {GRAVEL_OPS(GRAVEL_TEXT)};
  return o < op::count ? names[static_cast<int>(o)] : "unknown operation";
}

const char* name_of(other_call call) {
  static constexpr const char* names[] = {GRAVEL_OTHER_CALLS(GRAVEL_TEXT)};
  return call < other_call::count ? names[static_cast<int>(call)] : "an unknown call";
}

const char* name_of(message_fault fault) {
  static constexpr const char* names[] = {GRAVEL_MESSAGE_FAULTS(GRAVEL_TEXT)};
  return names[static_cast<int>(fault)];
}

std::string text_of_misfit(message_fault fault, uint64_t wanted, uint64_t found) {
  if (fault == message_fault::bad_block)
    return "gravel_block_sender<" + std::to_string(wanted) + ", ...> in a block of " + std::to_string(found) +
           " threads: its first argument must be the number of threads of the block";
  return "dynamic() of a sender in a block with " + std::to_string(found) +
         " bytes of dynamic shared memory: it needs " + std::to_string(wanted) +
         " (gravel_launch_config: shared_bytes)";
}

void fail_in_handler(const char* handler, op o, const char* what) {
  if (handler) fail("handler '{}' threw: {}", handler, what);
  fail("{} threw: {}", name_of(o), what);
}

}  // namespace gravel::detail
