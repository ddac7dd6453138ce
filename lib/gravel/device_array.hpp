// gravel::device_array: an array in this PE's device memory, outside the symmetric heap, for data that only its own
// kernels and handlers use.
#pragma once
#include "host/device_array.hpp"

namespace gravel {
using detail::copy_behind_kernels;
using detail::device_array;
}  // namespace gravel
