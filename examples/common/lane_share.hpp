// How lanes of a grid share a loop.
#pragma once
#include <cstdint>

#include "device/simt.hpp"
#include "lib/base/platform.hpp"

namespace app {

/// The part of 0 ... total that this lane takes when all lanes of the grid take parts of nearly the same
/// length.
struct lane_share {
  uint64_t first, last;
  GRAVEL_DEVICE explicit lane_share(uint64_t total) {
    const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x, lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    const uint64_t each = total / lanes, longer = total % lanes;
    first = lane * each + (lane < longer ? lane : longer);
    last = first + each + (lane < longer ? 1 : 0);
  }
};

}  // namespace app
