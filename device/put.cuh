// One-sided operations without an answer. Argument order as in OpenSHMEM (destination, value, PE) after the handle.
//
// Two operations on one PE are applied in any order unless gravel_fence lies between them.
//
// What all calls of this file have in common:
// @param g handle: the one that the kernel or the handler was given, or gravel_host_handle()
// @param dest symmetric address, in this PE's own symmetric heap, aligned to its type. The operation happens at the
//   same offset of the heap of `pe`
// @param value operand
// @param pe 0 to gravel_n_pes(g) - 1
// @scope lane, from divergent code, any subset of a warp or block; handlers; host threads
// @completion gravel_quiet (operations of this PE), gravel_barrier_all (operations of all PEs)
// @errors an address outside the heap or misaligned, a PE out of range: the job ends with a message that names
//   operation and PE
// @source OpenSHMEM 1.5: shmem_p and the non-fetching atomics
#pragma once
#include "device/in_place.cuh"
#include "device/peer.cuh"
#include "device/send.cuh"

namespace gravel::detail {

GRAVEL_BOTH bool is_self(const gravel_t& g, int pe) { return static_cast<uint32_t>(pe) == g.my_pe && g.self_in_place; }

/// Applies an operation to mapped memory: of this PE, or of a peer.
template <scope S = scope::device, class T>
GRAVEL_BOTH void apply_mapped(op o, T* at, T value) {
  if constexpr (is_of_16_bits<T>) add_half_in_place<S>(at, value);  // the only operation on them
  else if (o == op::put) put_in_place(at, value);
  else if constexpr (is_addable<T>) apply_in_place<S>(o, at, value);
}

/// The type of an operation in a message. Operations that do not depend on a sign use unsigned integers: so rows of all
/// such types are of one kind.
template <op O, class T>
GRAVEL_BOTH constexpr value_type update_type() {
  if constexpr (O == op::min || O == op::max || (std::is_floating_point_v<T> && O != op::put) || is_of_16_bits<T>)
    return value_type_of<T>();
  else if constexpr (sizeof(T) == 1) return value_type::u8;
  else if constexpr (sizeof(T) == 2) return value_type::u16;
  else if constexpr (sizeof(T) == 4) return value_type::u32;
  else return value_type::u64;
}
/// A put or an update as a compact message. O: op::inc is an addition of 1. In a large heap the sender of the row
/// chooses a window, and then sets the index (heap_window).
template <op O, class T>
struct update_message {
  static constexpr uint32_t words = compact_words(O, sizeof(T));
  static constexpr op operation = O == op::inc ? op::add : O;
  uint32_t word[words];  ///< the first is the index: of a window that begins at a multiple of 2^32 words
  GRAVEL_BOTH update_message(uint64_t offset, T value) {
    word[0] = static_cast<uint32_t>(offset / sizeof(T));
    const uint64_t bits = to_word(value);
    if constexpr (words > 1) word[1] = static_cast<uint32_t>(bits);
    if constexpr (words > 2) word[2] = static_cast<uint32_t>(bits >> 32);
  }
  /// The message as a whole unit, padded with zeros.
  GRAVEL_BOTH unit whole() const {
    unit u = {{word[0], 0}};
    if constexpr (words > 1) u.word[0] |= uint64_t{word[1]} << 32;
    if constexpr (words > 2) u.word[1] = word[2];
    return u;
  }
  static constexpr row_kind kind = update_kind(O, update_type<O, T>());
};

template <op O, class T>
GRAVEL_BOTH void one_sided(const gravel_t& g, T* dest, T value, int pe) {
  using message = update_message<O, T>;
  uint64_t offset;
  if (!locate(g, dest, sizeof(T), sizeof(T), pe, O, &offset)) return;
  if (is_self(g, pe)) {
    apply_mapped(message::operation, dest, value);
    count_one(g, &route_counters::in_place);
    return;
  }
  if (char* heap = peer_heap(g, pe)) {
    apply_mapped<scope::system>(message::operation, reinterpret_cast<T*>(heap + offset), value);
    count_one(g, &route_counters::to_peers);
    return;
  }
  const uint32_t sink = sink_of(static_cast<uint32_t>(pe), sink_kind::device);
  const message m(offset, value);
  if (!fits_index(g.heap_bytes, sizeof(T)))
    return send_in_windows(g.direct, sink, message::kind.bits(), m.whole(), offset / sizeof(T));
  if (g.from != sender::handler) return send_direct<message::kind>(g, sink, m.word);
  send_apart(g.direct, sink, message::kind.bits(), m.whole());
}

}  // namespace gravel::detail

/// Puts: `*dest = value` at `pe`. T: integers, enumerations and pointers of up to 8 bytes, bool, float, double, and
/// numbers of 16 bits (gravel_half, gravel_bfloat16, CUDA's __half and __nv_bfloat16). A pointer is put as a number: it
/// is meaningful at PEs whose heaps lie at the same address, or when it returns to this PE.
template <class T>
GRAVEL_BOTH void gravel_put(const gravel_t& g, T* dest, gravel::detail::same<T> value, int pe) {
  static_assert(gravel::detail::is_value<T>,
                "gravel_put takes integers, enumerations and pointers of up to 8 bytes, float and double");
  gravel::detail::one_sided<gravel::detail::op::put>(g, gravel::detail::as_numbers(dest),
                                                     gravel::detail::as_number<T>(value), pe);
}
/// Adds atomically: `*dest += value` at `pe`. T: integers of 4 and 8 bytes, float, double, and numbers of 16 bits
/// (gravel_half, gravel_bfloat16, CUDA's __half and __nv_bfloat16), whose sum is rounded to the nearest each time.
template <class T>
GRAVEL_BOTH void gravel_add(const gravel_t& g, T* dest, gravel::detail::same<T> value, int pe) {
  using namespace gravel::detail;
  static_assert(is_summand<T>, "gravel_add takes integers of 4 and 8 bytes, float, double and numbers of 16 bits");
  if constexpr (is_summand<T>)
    one_sided<op::add>(g, reinterpret_cast<plain<T>*>(dest), from_word<plain<T>>(to_word(value)), pe);
}
/// Increments atomically: `*dest += 1` at `pe`. T: integers of 4 and 8 bytes, float, double.
template <class T>
GRAVEL_BOTH void gravel_inc(const gravel_t& g, T* dest, int pe) {
  static_assert(gravel::detail::is_addable<T>, "gravel_inc takes integers of 4 and 8 bytes, float and double");
  gravel::detail::one_sided<gravel::detail::op::inc>(g, dest, T{1}, pe);
}
#define GRAVEL_UPDATE(name, code, takes, types)                                              \
  template <class T>                                                                         \
  GRAVEL_BOTH void name(const gravel_t& g, T* dest, gravel::detail::same<T> value, int pe) { \
    static_assert(gravel::detail::takes<T>, #name " takes " types);                          \
    gravel::detail::one_sided<gravel::detail::op::code>(g, dest, value, pe);                 \
  }
/// Combines bits atomically: `*dest &= value` at `pe`. T: integers of 4 and 8 bytes.
GRAVEL_UPDATE(gravel_and, bit_and, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits atomically: `*dest |= value` at `pe`. T: integers of 4 and 8 bytes.
GRAVEL_UPDATE(gravel_or, bit_or, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits atomically: `*dest ^= value` at `pe`. T: integers of 4 and 8 bytes.
GRAVEL_UPDATE(gravel_xor, bit_xor, is_atomic_integer, "integers of 4 and 8 bytes")
/// Keeps the smaller of `*dest` and `value` at `pe`, atomically. T: integers of 4 and 8 bytes, float, double. For
/// floating-point numbers -0 is smaller than 0, a value that is not a number changes nothing, and `*dest` must be a
/// number.
GRAVEL_UPDATE(gravel_min, min, is_addable, "integers of 4 and 8 bytes, float and double")
/// Keeps the larger of `*dest` and `value` at `pe`, atomically. T: as of gravel_min.
GRAVEL_UPDATE(gravel_max, max, is_addable, "integers of 4 and 8 bytes, float and double")
#undef GRAVEL_UPDATE
