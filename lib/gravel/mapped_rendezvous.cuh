// gravel::mapped_rendezvous: a rendezvous of all PEs between kernels. The PEs have each other's memory mapped.
#pragma once
#include "host/mapped_rendezvous.cuh"

namespace gravel {
using detail::mapped_rendezvous;
using detail::rendezvous_memory;
}  // namespace gravel
