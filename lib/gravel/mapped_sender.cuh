// gravel::mapped_sender: stores into mapped memory of other PEs, with the interface of a block sender.
#pragma once
#include "host/mapped_sender.cuh"

namespace gravel {
using detail::all_are_mapped;
using detail::mapped_sender;
}  // namespace gravel
