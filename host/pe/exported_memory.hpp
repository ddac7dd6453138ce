// Memory of one process that other processes of its machine map, for the route `peer` on the CPU backend. They open it
// by the process number and the number of the descriptor, so no descriptor has to be sent.
#pragma once
#include "host/node/sealed_memory.hpp"

namespace gravel::detail {

/// Makes zeroed memory of this process. Throws gravel::error that says what did not fit.
sealed_memory make_exported(uint64_t bytes, const char* what);

/// Describes the memory for attach_exported() in any process of the same user on this machine.
std::string describe_exported(const sealed_memory&);

/// Maps memory of another process. `described`: its description there. Throws gravel::error if that is impossible.
sealed_memory attach_exported(const std::string& described);

}  // namespace gravel::detail
