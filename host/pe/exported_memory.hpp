// Memory of one process that others of its machine map, for the route `peer` on the CPU backend: others open it by the
// number of this process and of its descriptor, so that nothing has to be sent.
#pragma once
#include "host/node/sealed_memory.hpp"

namespace gravel::detail {

/// Zeroed memory of this process. Throws gravel::error, which says what did not fit.
sealed_memory make_exported(uint64_t bytes, const char* what);

/// What attach_exported() needs, in any process of the same user on this machine.
std::string describe_exported(const sealed_memory&);

/// Another process's. `described`: what it said. Throws gravel::error if it cannot be mapped.
sealed_memory attach_exported(const std::string& described);

}  // namespace gravel::detail
