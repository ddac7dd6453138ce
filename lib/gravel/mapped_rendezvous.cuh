// A rendezvous of all PEs from within kernels, over memory that each PE maps. For PEs whose GPUs reach each other.
#pragma once
#include "host/mapped_rendezvous.cuh"

namespace gravel {
using detail::mapped_rendezvous;
using detail::rendezvous_memory;
}  // namespace gravel
