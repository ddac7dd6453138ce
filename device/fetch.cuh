// Operations with an answer.
//
// gravel_get does not wait for its answer, unless very many gets are under way; it is complete after gravel_quiet. The
// fetching operations, swap and compare_swap wait for their answers. Kernels that use these must leave room for the
// resolver kernel (docs/programming.md).
//
// What all calls of this file have in common:
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @param dest symmetric address, in this PE's own symmetric heap, aligned to its type. The operation happens at the
//   same offset of the heap of `pe`
// @param source symmetric address, aligned to its type: what is read lies at the same offset of the heap of `pe`
// @param value operand
// @param pe 0 to gravel_n_pes(g) - 1
// @scope lane, from divergent code; host threads. Not handlers
// @completion on return: the value has been read, and the update has been done
// @errors an address outside the heap or misaligned, a PE out of range, a call from a handler: the job ends with a
//   message that names operation and PE
// @source OpenSHMEM 1.5: shmem_g and the fetching atomics
#pragma once
#include "device/wait.cuh"

namespace gravel::detail {

/// Takes a free reply cell. Lanes spread over the cells by ticket, and wait where a cell is still in use.
GRAVEL_BOTH uint64_t take_reply_cell(const gravel_t& g) {
  relax wait;
  for (uint64_t at = fetch_add<scope::device>(&g.counters->reply_tickets, uint64_t{1});; ++at) {
    const uint64_t cell = at % g.n_cells;
    if (compare_swap_acquire<scope::device>(&g.cells[cell].state, reply_cell::is_free, reply_cell::taken)) return cell;
    wait();
  }
}

/// To be called before gets whose answers have `n` units are sent. Waits while answers of as many units as there are
/// reply cells are under way: so answers never need more room than that anywhere. Returns the type byte that each get
/// must carry. Thread scope: lane, for its group.
GRAVEL_BOTH uint8_t begin_gets(const gravel_t& g, uint32_t n) {
  get_window& gets = g.counters->gets;
  const uint64_t end = gets.claim(n);
  // Gets that are under way may lie in packets that are not full yet. As long as answers come, these packets fill or
  // leave by themselves, and a flush for each get would make them small.
  constexpr uint32_t patience = 4;
  uint64_t seen = gets.n_done();
  uint32_t rounds_without = 0;
  for (relax wait; !gets.may_send(end, g.n_cells); wait()) {
    update_gets(g);
    const uint64_t now = gets.n_done();
    rounds_without = now == seen ? rounds_without + 1 : 0;
    seen = now;
    if (rounds_without >= patience) g.direct.request_flush(load_relaxed<scope::device>(&g.direct.state->tickets));
  }
  const uint32_t parity = gets.count(n);
  return static_cast<uint8_t>((parity ? odd_parity : 0) | (g.from == sender::host ? host_origin : 0));
}
/// Counts an answer of `n` units, which the caller, the receiver, has written. `type`: type byte of the answer.
GRAVEL_BOTH void finish_gets(const gravel_t& g, uint8_t type, uint32_t n) {
  uint64_t* const done = type & host_origin ? g.counters->host_gets_done : g.counters->gets.done;
  fetch_add_release<scope::device>(&done[type & odd_parity ? 1 : 0], uint64_t{n});  // [G1]
}

/// Sends a request and waits for its answer, which it returns as a word. `type`: type of the value.
GRAVEL_BOTH_APART uint64_t fetch_remote(gravel_t g, op o, uint8_t type, uint64_t offset, uint64_t operand,
                                        uint64_t expected, int pe) {
  const uint64_t cell = take_reply_cell(g);
  const uint8_t origin = g.from == sender::host ? host_origin : 0;
  const unit message[2] = {{{make_word0(o, type | origin, offset), operand}}, {{make_return(g.my_pe, cell), expected}}};
  send_direct(g, sink_of(static_cast<uint32_t>(pe), sink_kind::device), message);
  // Perhaps no other party flushes this queue. Without a flush the request leaves only when its packet is old enough.
  const uint64_t target = load_acquire<scope::device>(&g.direct.state->tickets);
  for (relax wait; load_acquire<scope::device>(&g.cells[cell].state) != reply_cell::answered; wait())  // [R1]
    g.direct.request_flush(target);
  const uint64_t answer = load_relaxed<scope::device>(&g.cells[cell].value);
  store_release<scope::device>(&g.cells[cell].state, reply_cell::is_free);
  return answer;
}

/// Runs one of fetch_add ... compare_swap by the route to `pe`.
template <class T>
GRAVEL_BOTH T fetching(const gravel_t& g, op o, T* dest, T operand, T expected, int pe) {
  uint64_t offset;
  if (forbidden_in_handler(g, o)) return T{};
  if (!locate(g, dest, sizeof(T), sizeof(T), pe, o, &offset)) return T{};
  if (is_self(g, pe)) {
    count_one(g, &route_counters::in_place);
    return answer_in_place(o, dest, operand, expected);
  }
  if (char* heap = peer_heap(g, pe)) {
    count_one(g, &route_counters::to_peers);
    return answer_in_place<scope::system>(o, reinterpret_cast<T*>(heap + offset), operand, expected);
  }
  return from_word<T>(
      fetch_remote(g, o, static_cast<uint8_t>(value_type_of<T>()), offset, to_word(operand), to_word(expected), pe));
}

}  // namespace gravel::detail

/// Reads `*source` at `pe` into `*dest` here. It waits for earlier gets while GRAVEL_REPLY_CELLS gets of this PE's
/// kernels (or of its host threads) are under way. T: as of gravel_put.
/// @param dest symmetric address in this PE's own heap, where the value arrives
/// @completion gravel_quiet: then `*dest` is valid
/// @source OpenSHMEM 1.5: shmem_get_nbi
template <class T>
GRAVEL_BOTH void gravel_get(const gravel_t& g, T* dest, const T* source, int pe) {
  using namespace gravel::detail;
  static_assert(is_value<T>, "gravel_get takes integers, enumerations and pointers of up to 8 bytes, float and double");
  uint64_t from, to;
  if (forbidden_in_handler(g, op::get)) return;
  if (!locate(g, source, sizeof(T), sizeof(T), pe, op::get, &from)) return;
  if (!locate_destination(g, dest, sizeof(T), sizeof(T), op::get, &to)) return;
  if (is_self(g, pe)) {
    put_in_place(as_numbers(dest), read_in_place(as_numbers(source)));
    count_one(g, &route_counters::in_place);
    return;
  }
  if (const char* heap = peer_heap(g, pe)) {
    put_in_place(as_numbers(dest), read_in_place(reinterpret_cast<const number<T>*>(heap + from)));
    count_one(g, &route_counters::to_peers);
    return;
  }
  const lane_group group = lane_group::active();
  uint32_t bits = 0;
  if (group.is_leader()) bits = begin_gets(g, group.size());
  bits = group.from_leader(bits);
  const auto type = static_cast<uint8_t>(static_cast<uint8_t>(value_type_of<number<T>>()) | bits);
  const unit message[1] = {{{make_word0(op::get, type, from), make_return(g.my_pe, to)}}};
  send_direct(g, sink_of(static_cast<uint32_t>(pe), sink_kind::device), message);
}

#define GRAVEL_FETCHING(name, code, takes, types)                                                                \
  template <class T>                                                                                             \
  GRAVEL_BOTH T name(const gravel_t& g, T* dest, gravel::detail::same<T> value, int pe) {                        \
    static_assert(gravel::detail::takes<T>, #name " takes " types);                                              \
    using namespace gravel::detail;                                                                              \
    return from_word<T>(to_word(fetching(g, op::code, as_numbers(dest), as_number<T>(value), number<T>{}, pe))); \
  }
/// Adds atomically: `*dest += value` at `pe`. T: as of gravel_add.
/// @return the value before
template <class T>
GRAVEL_BOTH T gravel_fetch_add(const gravel_t& g, T* dest, gravel::detail::same<T> value, int pe) {
  using namespace gravel::detail;
  static_assert(is_summand<T>,
                "gravel_fetch_add takes integers of 4 and 8 bytes, float, double and numbers of 16 bits");
  using N = plain<T>;
  return from_word<T>(
      to_word(fetching(g, op::fetch_add, reinterpret_cast<N*>(dest), from_word<N>(to_word(value)), N{}, pe)));
}
/// Combines bits atomically: `*dest &= value` at `pe`. T: integers of 4 and 8 bytes.
/// @return the value before
GRAVEL_FETCHING(gravel_fetch_and, fetch_and, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits atomically: `*dest |= value` at `pe`. T: integers of 4 and 8 bytes.
/// @return the value before
GRAVEL_FETCHING(gravel_fetch_or, fetch_or, is_atomic_integer, "integers of 4 and 8 bytes")
/// Combines bits atomically: `*dest ^= value` at `pe`. T: integers of 4 and 8 bytes.
/// @return the value before
GRAVEL_FETCHING(gravel_fetch_xor, fetch_xor, is_atomic_integer, "integers of 4 and 8 bytes")
/// Keeps the smaller of `*dest` and `value` at `pe`, atomically, as gravel_min. T: integers of 4 and 8 bytes, float,
/// double.
/// @return the value before
GRAVEL_FETCHING(gravel_fetch_min, fetch_min, is_addable, "integers of 4 and 8 bytes, float and double")
/// Keeps the larger of `*dest` and `value` at `pe`, atomically, as gravel_max. T: integers of 4 and 8 bytes, float,
/// double.
/// @return the value before
GRAVEL_FETCHING(gravel_fetch_max, fetch_max, is_addable, "integers of 4 and 8 bytes, float and double")
/// Swaps atomically: `*dest = value` at `pe`. T: integers, enumerations and pointers of 4 and 8 bytes, float, double.
/// @return the value before
GRAVEL_FETCHING(gravel_swap, swap, is_swappable,
                "integers, enumerations and pointers of 4 and 8 bytes, float and double")
#undef GRAVEL_FETCHING

/// Reads `*source` at `pe`, ordered as atomics on it are. For many words gravel_get and one quiet are faster. T: as of
/// gravel_put.
/// @return the value
template <class T>
GRAVEL_BOTH T gravel_fetch(const gravel_t& g, const T* source, int pe) {
  using namespace gravel::detail;
  static_assert(is_value<T>,
                "gravel_fetch takes integers, enumerations and pointers of up to 8 bytes, float and double");
  using N = number<T>;
  return from_word<T>(to_word(fetching(g, op::fetch, const_cast<N*>(as_numbers(source)), N{}, N{}, pe)));
}
/// Reads `*source` at `pe`, as gravel_fetch.
/// @return the value
template <class T>
GRAVEL_BOTH T gravel_get_value(const gravel_t& g, const T* source, int pe) {
  return gravel_fetch(g, source, pe);
}

/// Stores `desired` in `*dest` at `pe` if `*dest` is `expected`, atomically. OpenSHMEM's order: destination, condition,
/// value. T: integers, enumerations and pointers of 4 and 8 bytes.
/// @param expected what `*dest` must be
/// @param desired what is stored then
/// @return the value before
template <class T>
GRAVEL_BOTH T gravel_compare_swap(const gravel_t& g, T* dest, gravel::detail::same<T> expected,
                                  gravel::detail::same<T> desired, int pe) {
  using namespace gravel::detail;
  static_assert(is_comparable<T>, "gravel_compare_swap takes integers, enumerations and pointers of 4 and 8 bytes");
  return from_word<T>(
      to_word(fetching(g, op::compare_swap, as_numbers(dest), as_number<T>(desired), as_number<T>(expected), pe)));
}
