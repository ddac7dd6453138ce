// Stores into memory of other PEs that this PE maps, as a block sender sends messages.
#pragma once
#include "host/mapped_sender.cuh"

namespace gravel {
using detail::all_are_mapped;
using detail::mapped_sender;
}  // namespace gravel
