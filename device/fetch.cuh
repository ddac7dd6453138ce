// Operations with an answer. gravel_get is non-blocking and complete after gravel_quiet; fetch_add and compare_swap
// wait for their answer, so kernels that use them must leave room for the resolver kernel (docs/programming.md).
// Thread scope: lane, from divergent code. Not from handlers.
#pragma once
#include "device/wait.cuh"

namespace gravel {

/// Takes a free reply cell: lanes spread over the cells by ticket, and wait where one is still in use.
GRAVEL_BOTH uint64_t take_reply_cell(const gravel_t& g) {
  relax wait;
  for (uint64_t at = fetch_add<scope::device>(&g.counters->reply_tickets, uint64_t{1});; ++at) {
    const uint64_t cell = at % g.n_cells;
    if (compare_swap_acquire<scope::device>(&g.cells[cell].state, reply_cell::is_free, reply_cell::taken)) return cell;
    wait();
  }
}

template <class T>
GRAVEL_BOTH T fetch_remote(const gravel_t& g, op o, uint64_t offset, T operand, T expected, int pe) {
  const uint64_t cell = take_reply_cell(g);
  const uint8_t type = static_cast<uint8_t>(value_type_of<T>()) | (g.from == sender::host ? host_origin : 0);
  const unit message[2] = {
      {{make_word0(o, type, offset), to_word(operand)}},
      {{make_return(g.my_pe, cell), to_word(expected)}}};
  send_direct(g, sink_of(static_cast<uint32_t>(pe), sink_kind::device), message);
  // Nobody else may flush for us: without asking, the request leaves only with its packet's age.
  const uint64_t target = load_acquire<scope::device>(&g.direct.state->tickets);
  for (relax wait; load_acquire<scope::device>(&g.cells[cell].state) != reply_cell::answered; wait())  // [R1]
    g.direct.ask_flush(target);
  const T value = from_word<T>(load_relaxed<scope::device>(&g.cells[cell].value));
  store_release<scope::device>(&g.cells[cell].state, reply_cell::is_free);
  return value;
}

}  // namespace gravel

/// Reads *source at `pe` into *dest, both symmetric addresses. Non-blocking; *dest is valid after gravel_quiet.
template <class T>
GRAVEL_BOTH void gravel_get(const gravel_t& g, T* dest, const T* source, int pe) {
  using namespace gravel;
  static_assert(is_value<T>, "gravel_get takes integers of 1, 2, 4, 8 bytes, float and double");
  uint64_t from, to;
  if (forbidden_in_handler(g, op::get)) return;
  if (!locate(g, source, sizeof(T), sizeof(T), pe, op::get, &from)) return;
  if (!locate(g, dest, sizeof(T), sizeof(T), static_cast<int>(g.my_pe), op::get, &to)) return;
  if (is_self(g, pe)) {
    put_in_place(dest, read_in_place(source));
    count_in_place(g);
    return;
  }
  if (const char* heap = peer_heap(g, pe)) {
    put_in_place(dest, read_in_place(reinterpret_cast<const T*>(heap + from)));
    count_to_peers(g);
    return;
  }
  if (g.from == sender::kernel) {
    const lane_group group = lane_group::active();
    if (group.is_leader()) fetch_add<scope::device>(&g.counters->gets_issued, uint64_t{group.size()});
    group.sync();
  } else {
    fetch_add<scope::system>(&g.counters->gets_issued, uint64_t{1});
  }
  const uint8_t type = static_cast<uint8_t>(value_type_of<T>()) | (g.from == sender::host ? host_origin : 0);
  const unit message[1] = {{{make_word0(op::get, type, from), make_return(g.my_pe, to)}}};
  send_direct(g, sink_of(static_cast<uint32_t>(pe), sink_kind::device), message);
}

/// *dest += value at `pe`, atomically; returns the value before. Blocking. T: integers of 4, 8 bytes, float, double.
template <class T>
GRAVEL_BOTH T gravel_fetch_add(const gravel_t& g, T* dest, gravel::same<T> value, int pe) {
  using namespace gravel;
  static_assert(is_addable<T>, "gravel_fetch_add takes integers of 4 and 8 bytes, float and double");
  uint64_t offset;
  if (forbidden_in_handler(g, op::fetch_add)) return T{};
  if (!locate(g, dest, sizeof(T), sizeof(T), pe, op::fetch_add, &offset)) return T{};
  if (is_self(g, pe)) return count_in_place(g), add_in_place(dest, value);
  if (char* heap = peer_heap(g, pe)) return count_to_peers(g), add_in_place<scope::system>(reinterpret_cast<T*>(heap + offset), value);
  return fetch_remote(g, op::fetch_add, offset, value, T{}, pe);
}

/// If *dest == expected at `pe` then *dest = desired, atomically; returns the value before. Blocking. (OpenSHMEM's
/// order: destination, condition, value.) T: integers of 4 and 8 bytes.
template <class T>
GRAVEL_BOTH T gravel_compare_swap(const gravel_t& g, T* dest, gravel::same<T> expected, gravel::same<T> desired, int pe) {
  using namespace gravel;
  static_assert(is_atomic_integer<T>, "gravel_compare_swap takes integers of 4 and 8 bytes");
  uint64_t offset;
  if (forbidden_in_handler(g, op::compare_swap)) return T{};
  if (!locate(g, dest, sizeof(T), sizeof(T), pe, op::compare_swap, &offset)) return T{};
  if (is_self(g, pe)) return count_in_place(g), compare_swap_in_place(dest, expected, desired);
  if (char* heap = peer_heap(g, pe))
    return count_to_peers(g), compare_swap_in_place<scope::system>(reinterpret_cast<T*>(heap + offset), expected, desired);
  return fetch_remote(g, op::compare_swap, offset, desired, expected, pe);
}
