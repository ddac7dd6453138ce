// The hooks that the CPU backend sets while a thread runs lanes, and how crowded the host is. A process has one of
// each, so no header defines them.
#include "lib/base/atomic.hpp"
#include "lib/base/relax.hpp"

namespace gravel::detail {

constinit thread_local relax_function relax_hook = nullptr;
constinit uint32_t crowding = 0;
constinit thread_local interleave_function interleave_hook = nullptr;

}  // namespace gravel::detail
