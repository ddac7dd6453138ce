// The interface of gravel_block_sender over direct sends, so that one kernel body serves both ways to send.
#pragma once
#include "examples/lane_share.hpp"
#include "gravel.cuh"

namespace gravel {

struct direct_sender {
  gravel_t g;
  GRAVEL_DEVICE void inc(uint64_t* dest, int pe) { gravel_inc(g, dest, pe); }
  GRAVEL_DEVICE void add(uint64_t* dest, uint64_t value, int pe) { gravel_add(g, dest, value, pe); }
  GRAVEL_DEVICE void bit_xor(uint64_t* dest, uint64_t value, int pe) { gravel_xor(g, dest, value, pe); }
};

}  // namespace gravel
