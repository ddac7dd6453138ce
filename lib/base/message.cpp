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
                                          "gravel_put_bulk"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(op::count));
  return o < op::count ? names[static_cast<int>(o)] : "unknown operation";
}

const char* name_of(message_fault fault) {
  static constexpr const char* names[] = {
      "no fault", "unknown operation", "a type the operation does not take", "a size that does not fit the operation",
      "an address outside the symmetric heap", "a misaligned address", "an unregistered handler",
      "a PE number out of range", "a blocking call inside a handler",
      "a corrupt packet", "a handler without its context", "a handler that was not given to gravel_init",
      "a destination outside its own symmetric heap, or misaligned"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(message_fault::bad_destination) + 1);
  return names[static_cast<int>(fault)];
}

}  // namespace gravel
