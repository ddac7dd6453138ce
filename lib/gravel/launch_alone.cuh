// gravel::launch_alone: launches a kernel that sends no messages. It may use all multiprocessors, as the resolver need
// not run.
#pragma once
#include "host/launch_alone.cuh"

namespace gravel {
using detail::launch_alone;
}  // namespace gravel
