// What a kernel, a handler or a host thread did wrong, as one line for the user.
#pragma once
#include <functional>
#include <string>

#include "lib/base/device_error.hpp"

namespace gravel::detail {

/// `n_pes` and `heap_bytes` are those of the job; `name_of_handler` knows the handlers of this PE. Only of an error
/// whose code is not 0.
std::string describe(const device_error&, uint32_t n_pes, uint64_t heap_bytes,
                     const std::function<std::string(uint64_t id)>& name_of_handler);

}  // namespace gravel::detail
