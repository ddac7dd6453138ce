// Collectives of host threads on values: broadcast, gather, scans, reductions. All PEs make the same call with the same
// count, type and root. Otherwise the job ends with a message that names both calls. Collectives do not wait for
// messages. Results are the same at all PEs: floating-point numbers are added in the order of the PEs, whatever the
// nodes are.
//
// Memory is the host's or this PE's device's (symmetric or not). All bytes pass through the hosts, so these calls are
// for small amounts of data. Large data should lie in the symmetric heap and be sent by kernels.
//
// Common to all calls of this file:
// @param to [count] results, in memory of the host or of the device; may be `from`
// @param from [count] contributions of this PE, in memory of the host or of the device
// @param count number of elements, the same at all PEs
// @param root 0 to gravel_n_pes() - 1, the same at all PEs
// @scope the program's host thread of each PE; all PEs make the same calls in the same order
// @completion on return; messages are not waited for
// @errors gravel::error if the root is out of range. If the calls of PEs differ, the job ends with a message that names
//   both calls
// @source OpenSHMEM 1.5 and MPI, collectives
#pragma once
#include <cstdint>
#include <type_traits>

#include "device/value.cuh"
#include "host/node/collective_call.hpp"

namespace gravel::detail {
void broadcast(void* data, uint64_t bytes, int root);
/// `kind`: the call that is compared with those of the other PEs.
void gather(void* all, const void* mine, uint64_t bytes, collective_kind kind = collective_kind::gather);
/// For the kinds from sum to bit_xor, and for scans.
void reduce(collective_kind, value_type, void* to, const void* from, uint64_t count);
}  // namespace gravel::detail

/// Copies values[0 .. count) of PE `root` to all PEs. T: any trivially copyable type.
/// @param values [count] in memory of the host or of the device
template <class T>
void gravel_broadcast(T* values, uint64_t count, int root) {
  static_assert(std::is_trivially_copyable_v<T>, "gravel_broadcast copies bytes");
  gravel::detail::broadcast(values, count * sizeof(T), root);
}
/// Returns the value of PE `root`. T: any trivially copyable type except pointers.
/// @param value of this PE; only that of PE `root` matters
/// @return the value of PE `root`
template <class T>
T gravel_broadcast(T value, int root) {
  static_assert(!std::is_pointer_v<T>, "a pointer means nothing at another PE: gravel_broadcast(values, count, root)");
  gravel_broadcast(&value, 1, root);
  return value;
}

/// Gathers arrays: all[pe * count .. (pe + 1) * count) becomes mine[0 .. count) of PE `pe`, at all PEs. T: any
/// trivially copyable type.
/// @param all [gravel_n_pes() * count], in memory of the host or of the device
/// @param mine [count], in memory of the host or of the device
template <class T>
void gravel_allgather(T* all, const T* mine, uint64_t count) {
  static_assert(std::is_trivially_copyable_v<T>, "gravel_allgather copies bytes");
  gravel::detail::gather(all, mine, count * sizeof(T));
}
/// Gathers one value of each PE: all[pe] becomes the value that PE `pe` passes.
/// @param all [gravel_n_pes()]
/// @param mine value of this PE
template <class T>
void gravel_allgather(T* all, gravel::detail::same<T> mine) {
  gravel_allgather(all, &mine, 1);
}

// name(to, from, count): to[i] = from[i] of PE 0, combined with that of PE 1, and so on; `to` may be `from`.
// name(value): of one value.
#define GRAVEL_REDUCTION(name, kind, takes, types)                                                              \
  template <class T>                                                                                            \
  void name(T* to, const T* from, uint64_t count) {                                                             \
    static_assert(gravel::detail::takes<T>, #name " takes " types);                                             \
    gravel::detail::reduce(gravel::detail::collective_kind::kind, gravel::detail::value_type_of<T>(), to, from, \
                           count);                                                                              \
  }
#define GRAVEL_REDUCTION_OF_VALUE(name, takes)        \
  template <class T>                                  \
  requires gravel::detail::takes<T> T name(T value) { \
    name(&value, &value, 1);                          \
    return value;                                     \
  }
/// Sum over all PEs, element by element. T: integers of 4 and 8 bytes (sums wrap around), float, double. Floating-point
/// numbers are added in the order of the PEs, so the result is the same everywhere, bit for bit.
GRAVEL_REDUCTION(gravel_sum_all, sum, is_addable, "integers of 4 and 8 bytes, float and double")
/// gravel_sum_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_sum_all, is_addable)
/// Minimum over all PEs, element by element. T: as for gravel_sum_all. -0 is smaller than 0. NaN values are ignored.
GRAVEL_REDUCTION(gravel_min_all, minimum, is_addable, "integers of 4 and 8 bytes, float and double")
/// gravel_min_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_min_all, is_addable)
/// Maximum over all PEs, element by element. T: as for gravel_min_all.
GRAVEL_REDUCTION(gravel_max_all, maximum, is_addable, "integers of 4 and 8 bytes, float and double")
/// gravel_max_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_max_all, is_addable)
/// Bitwise and over all PEs, element by element. T: integers of 4 and 8 bytes.
GRAVEL_REDUCTION(gravel_and_all, bit_and, is_atomic_integer, "integers of 4 and 8 bytes")
/// gravel_and_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_and_all, is_atomic_integer)
/// Bitwise or over all PEs, element by element. T: integers of 4 and 8 bytes.
GRAVEL_REDUCTION(gravel_or_all, bit_or, is_atomic_integer, "integers of 4 and 8 bytes")
/// gravel_or_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_or_all, is_atomic_integer)
/// Bitwise exclusive or over all PEs, element by element. T: integers of 4 and 8 bytes.
GRAVEL_REDUCTION(gravel_xor_all, bit_xor, is_atomic_integer, "integers of 4 and 8 bytes")
/// gravel_xor_all of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_xor_all, is_atomic_integer)
/// Sum over the PEs before this one, element by element; 0 at PE 0. T: as for gravel_sum_all.
GRAVEL_REDUCTION(gravel_scan_exclusive, exclusive_scan, is_addable, "integers of 4 and 8 bytes, float and double")
/// gravel_scan_exclusive of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_scan_exclusive, is_addable)
/// Sum over the PEs up to this one, element by element. T: as for gravel_sum_all.
GRAVEL_REDUCTION(gravel_scan_inclusive, inclusive_scan, is_addable, "integers of 4 and 8 bytes, float and double")
/// gravel_scan_inclusive of one value.
/// @param value contribution of this PE
/// @return the result, the same type
GRAVEL_REDUCTION_OF_VALUE(gravel_scan_inclusive, is_addable)
#undef GRAVEL_REDUCTION
#undef GRAVEL_REDUCTION_OF_VALUE
