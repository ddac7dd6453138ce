// Atomic updates of this PE's own memory, complete on return. They are for kernels, and for handlers on the device:
// messages of handlers to their own PE are complete only at quiescence. On a GPU they are CUDA's atomics, for all types
// that operations take. They are atomic against operations of messages, operations of peers, and CUDA's atomics.
//
// What all calls of this file have in common:
// @param g handle that the kernel or the handler was given
// @param dest symmetric address, aligned to its type
// @param value operand
// @return the value before
// @scope lane, from divergent code; device handlers. Not host threads
// @completion on return
// @errors an address outside the heap or misaligned, a call from the host: the job ends with a message that names the
//   operation
// @source CUDA's atomic functions
#pragma once
#include "device/handle.cuh"
#include "device/in_place.cuh"

namespace gravel::detail {

template <class T>
GRAVEL_BOTH T update_locally(const gravel_t& g, op o, T* dest, T value, T expected) {
  uint64_t offset;
  check_handle(g, o);
  if (g.on_host) {
    report_error(g, message_fault::on_host, op::none, g.my_pe, static_cast<uint64_t>(other_call::local_operation), 0);
    return T{};
  }
  if (!locate(g, dest, sizeof(T), sizeof(T), static_cast<int>(g.my_pe), o, &offset)) return T{};
  return answer_in_place(o, dest, value, expected);
}

}  // namespace gravel::detail

#define GRAVEL_LOCAL(name, code, takes, types)                                                                     \
  template <class T>                                                                                               \
  GRAVEL_BOTH T name(const gravel_t& g, T* dest, gravel::detail::same<T> value) {                                  \
    static_assert(gravel::detail::takes<T>, #name " takes " types);                                                \
    using namespace gravel::detail;                                                                                \
    return from_word<T>(to_word(update_locally(g, op::code, as_numbers(dest), as_number<T>(value), number<T>{}))); \
  }
/// Adds: `*dest += value`. T: integers of 4 and 8 bytes, float, double.
GRAVEL_LOCAL(gravel_local_add, fetch_add, is_addable, "integers of 4 and 8 bytes, float and double")
/// Keeps the smaller of `*dest` and `value`. T: as of gravel_local_add.
GRAVEL_LOCAL(gravel_local_min, fetch_min, is_addable, "integers of 4 and 8 bytes, float and double")
/// Keeps the larger of `*dest` and `value`. T: as of gravel_local_add.
GRAVEL_LOCAL(gravel_local_max, fetch_max, is_addable, "integers of 4 and 8 bytes, float and double")
/// Combines bits: `*dest &= value`. T: integers of 4 and 8 bytes.
GRAVEL_LOCAL(gravel_local_and, fetch_and, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits: `*dest |= value`. T: integers of 4 and 8 bytes.
GRAVEL_LOCAL(gravel_local_or, fetch_or, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits: `*dest ^= value`. T: integers of 4 and 8 bytes.
GRAVEL_LOCAL(gravel_local_xor, fetch_xor, is_atomic_integer, "integers of 4 and 8 bytes")
/// Swaps: `*dest = value`. T: integers, enumerations and pointers of 4 and 8 bytes, float, double.
GRAVEL_LOCAL(gravel_local_swap, swap, is_swappable,
             "integers, enumerations and pointers of 4 and 8 bytes, float and double")
#undef GRAVEL_LOCAL

/// Stores `desired` if `*dest` is `expected`. T: integers, enumerations and pointers of 4 and 8 bytes.
/// @param expected what `*dest` must be
/// @param desired what is stored then
template <class T>
GRAVEL_BOTH T gravel_local_compare_swap(const gravel_t& g, T* dest, gravel::detail::same<T> expected,
                                        gravel::detail::same<T> desired) {
  using namespace gravel::detail;
  static_assert(is_comparable<T>,
                "gravel_local_compare_swap takes integers, enumerations and pointers of 4 and 8 bytes");
  return from_word<T>(
      to_word(update_locally(g, op::compare_swap, as_numbers(dest), as_number<T>(desired), as_number<T>(expected))));
}
