// The interface of gravel_block_sender over direct sends, so that one kernel body serves both ways to send.
#pragma once
#include "gravel.cuh"

namespace gravel {

struct direct_sender {
  gravel_t g;
  GRAVEL_DEVICE void inc(uint64_t* dest, int pe) { gravel_inc(g, dest, pe); }
  GRAVEL_DEVICE void add(uint64_t* dest, uint64_t value, int pe) { gravel_add(g, dest, value, pe); }
  GRAVEL_DEVICE void bit_xor(uint64_t* dest, uint64_t value, int pe) { gravel_xor(g, dest, value, pe); }
};

/// The part of 0 ... total that this lane takes when all lanes of the grid take parts of nearly the same
/// length.
struct lane_share {
  uint64_t first, last;
  GRAVEL_DEVICE explicit lane_share(uint64_t total) {
    const uint64_t lanes = uint64_t{gridDim.x} * blockDim.x,
                   lane = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    const uint64_t each = total / lanes, longer = total % lanes;
    first = lane * each + (lane < longer ? lane : longer);
    last = first + each + (lane < longer ? 1 : 0);
  }
};

}  // namespace gravel
