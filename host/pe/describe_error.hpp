// Describes a mistake of a kernel, a handler or a host thread in one line for the user.
#pragma once
#include <functional>
#include <string>

#include "lib/base/device_error.hpp"
#include "lib/base/message.hpp"

namespace gravel::detail {

/// Returns the names of all functions that report a mistake as one of this operation, such as "gravel_fetch or
/// gravel_get_value": an error does not say which of them the program called. `on_own_memory`: true if the call may be
/// one of the PE's own memory, such as gravel_local_add.
std::string calls_of(op, bool on_own_memory);

/// `my_pe`: this PE. `n_pes` and `heap_bytes`: of the job. `name_of_handler`: knows the handlers of this PE. The code
/// of the error must not be 0.
std::string describe(const device_error&, uint32_t my_pe, uint32_t n_pes, uint64_t heap_bytes,
                     const std::function<std::string(uint64_t id)>& name_of_handler);

}  // namespace gravel::detail
