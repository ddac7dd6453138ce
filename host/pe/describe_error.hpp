// Describes a mistake of a kernel, a handler or a host thread in one line for the user.
#pragma once
#include <functional>
#include <string>

#include "lib/base/device_error.hpp"

namespace gravel::detail {

/// `n_pes` and `heap_bytes`: of the job. `name_of_handler`: knows the handlers of this PE. The code of the error must
/// not be 0.
std::string describe(const device_error&, uint32_t n_pes, uint64_t heap_bytes,
                     const std::function<std::string(uint64_t id)>& name_of_handler);

}  // namespace gravel::detail
