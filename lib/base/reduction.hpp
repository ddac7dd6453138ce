// A reduction of arrays over PEs: its operation and the type of its elements. Both travel in one word, so that PEs that
// call different reductions find out (lib/allreduce/allreduce.cuh).
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

/// The operation on two elements. Integers wrap around. GRAVEL_MIN and GRAVEL_MAX of a number and a NaN are the number.
/// GRAVEL_AND, GRAVEL_OR and GRAVEL_XOR take integers, and are bitwise.
enum gravel_reduction : uint8_t { GRAVEL_SUM, GRAVEL_PROD, GRAVEL_MIN, GRAVEL_MAX, GRAVEL_AND, GRAVEL_OR, GRAVEL_XOR };

/// A value and its index, as one element of a team's reductions by GRAVEL_MIN or GRAVEL_MAX. The result is the least or
/// the largest value, with its index. Of equal values the one with the lower index wins; a NaN loses. Plain data.
/// @tparam V integers of 1 to 8 bytes, float, double
/// @tparam I as V
/// @scope any
/// @completion on return
/// @errors none
/// @source MPI: MPI_MINLOC, MPI_MAXLOC; NVSHMEM: nvshmemx_double2_maxloc_reduce_block
template <class V, class I = int64_t>
struct gravel_located {
  V value;  ///< what is compared
  I index;  ///< where the value was found
};

namespace gravel::detail {

enum class reduction_type : uint8_t { f32, f64, f16, bf16, i32, u32, i64, u64, i8, u8, i16, u16, count };

/// A call in 32 bits: what it does, and a hash of its arguments, which is equal for equal arguments and mostly differs
/// for others.
///   bits 0-3 type | 4-6 operation | 7 has a root | 8-31 mixed arguments
struct reduction_call {
  gravel_reduction how;
  reduction_type type;
  bool has_root;
  uint32_t arguments;

  GRAVEL_BOTH uint32_t word() const {
    return static_cast<uint32_t>(type) | static_cast<uint32_t>(how) << 4 | static_cast<uint32_t>(has_root) << 7 |
           arguments << 8;
  }
  GRAVEL_BOTH static reduction_call of(uint32_t word) {
    return {static_cast<gravel_reduction>(word >> 4 & 7), static_cast<reduction_type>(word & 15), (word >> 7 & 1) != 0,
            word >> 8};
  }
};

/// The fault in one PE's call: device_error::offset of message_fault::bad_reduction.
enum class reduction_fault : uint64_t { too_many_blocks, outside_heap, misaligned, overlapping, bad_root };

}  // namespace gravel::detail
