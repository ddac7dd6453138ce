// gravel::launch_alone: launches a kernel that may use all multiprocessors, although the resolver kernel runs.
#pragma once
#include "host/launch_alone.cuh"

namespace gravel {
using detail::launch_alone;
}  // namespace gravel
