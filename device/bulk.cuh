// Bulk operations: any number of bytes, by a whole block, a warp, a lane, or a host thread: gravel_put_bulk,
// gravel_get_bulk, gravel_put_signal.
//
// On the route `net` the data is cut into messages that fit a slot of the queue and a packet. On the other routes it is
// copied.
//
// Protocol on the route `net`.
//   get_bulk     a request (for up to 16 answers) goes to the handler side of the source, which sends a bulk_reply for
//   each piece
//   get_bulk     into memory that is not symmetric: a fetch for each word (fetch.cuh), since answers name a place by
//   its offset in the heap
//   get_pieces   a request for pieces of one size, by a list of their places: the source gathers them into bulk_replies
//   put_signal   data and signal travel in one message. Data that does not fit into it is sent and applied before it
//   leaves
//
// Gets are counted by the units of their answers, so answers never need more room than the limit says (fetch.cuh).
//
// What all calls of this file have in common. A host thread calls any of them alone. Data moves fastest if both
// addresses are multiples of 16, and by a whole block: a lane copies alone.
// @param g handle: the one that the kernel was given, or gravel_host_handle()
// @param dest address of any alignment, where the data arrives. Put: symmetric address, at `pe`. Get: any memory of
//   this PE that the caller can write. On the route `net` a get is fast only into symmetric memory; elsewhere it is
//   complete on return
// @param source where the data lies. Put: any memory that this device can read, of host threads also memory of the
//   host; it may be reused on return. Get: symmetric address at `pe`
// @param bytes number of bytes, 0 or more
// @param signal symmetric address of a word at `pe`, aligned to 8
// @param value what the signal is set to, or what is added to it
// @param how GRAVEL_SIGNAL_SET or GRAVEL_SIGNAL_ADD
// @param pe 0 to gravel_n_pes(g) - 1
// @param lanes mask of the lanes of the warp that call together; all of them call with the same mask
// @completion gravel_quiet; a lane that sees a signal also sees the data before it
// @errors memory outside the heap, a PE out of range, a call from a handler, threads that are missing or differ in
//   their arguments: the job ends with a message that names the call
// @source OpenSHMEM 1.5: shmem_putmem_nbi, shmem_getmem_nbi, shmem_putmem_signal_nbi; NVSHMEM: nvshmemx_*_block and
//   _warp
#pragma once
#include "device/caller.cuh"
#include "device/copy_team.cuh"
#include "device/fetch.cuh"
#include "device/put.cuh"
#include "device/team_check.cuh"
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
#include <memory>
#endif

/// What happens to the signal: *signal = value, or *signal += value.
enum gravel_signal_op { GRAVEL_SIGNAL_SET, GRAVEL_SIGNAL_ADD };

namespace gravel::detail {

/// Returns true if [address, address + bytes) is symmetric and `pe` is in range. Reports an error once for the team.
GRAVEL_BOTH bool locate_bytes(const gravel_t& g, const copy_team& team, const void* address, uint64_t bytes, int pe,
                              op o, uint64_t* offset) {
  *offset = static_cast<uint64_t>(static_cast<const char*>(address) - g.heap);
  const bool bad_pe = static_cast<uint32_t>(pe) >= g.n_pes;
  if (!bad_pe && lies_in_heap(*offset, bytes, g.heap_bytes)) return true;
  if (team.is_leader())
    report_error(g, bad_pe ? message_fault::bad_pe : message_fault::outside_heap, o, static_cast<uint32_t>(pe), *offset,
                 bytes);
  return false;
}

/// Returns the address at which the heap of `pe` is mapped for the caller; nullptr if it is not.
GRAVEL_BOTH char* mapped_heap(const gravel_t& g, int pe) { return is_self(g, pe) ? g.heap : peer_heap(g, pe); }

/// Most units of a bulk message in this queue.
GRAVEL_BOTH uint32_t most_bulk_units(const gravel_t& g, const queue& q) {
  return q.shape.payload_units < g.bulk_units ? q.shape.payload_units : g.bulk_units;
}
/// The queue for so many bytes: the one with large slots for large data. Host threads have only one queue.
GRAVEL_BOTH const queue& bulk_queue(const gravel_t& g, const copy_team& team, uint64_t bytes) {
  const bool small = team.is_warp() && bulk_units(bytes + sizeof(unit)) <= most_bulk_units(g, g.direct);
  return g.block.state && !small ? g.block : g.direct;
}

/// Sends one bulk message: `n_head` units, then what `write` writes behind them. Returns its ticket. Thread scope: the
/// team.
template <class Write>
GRAVEL_BOTH uint64_t send_written(const queue& q, const copy_team& team, uint32_t pe, const unit (&head)[2],
                                  uint32_t n_head, Write write) {
  uint64_t ticket = 0;
  if (team.is_leader()) ticket = q.claim();
  ticket = team.from_leader(ticket);
  slot_header* slot = q.slot(ticket);
  unit* to = q.payload(slot);
  const uint32_t units = units_of(head[0].word[0], head[0].word[1]);
  if (team.is_leader()) {
    for (uint32_t i = 0; i < n_head; ++i) store_unit(to + i, head[i]);
    store_row(q.rows(slot), {wide_kind(units), sink_of(pe, sink_kind::device), 1});
  }
  write(reinterpret_cast<char*>(to + n_head));
  team.sync();
  if (team.is_leader()) q.publish(ticket, slot, 1, units);
  return ticket;
}
/// Sends one bulk message: `n_head` units, then `bytes` bytes. Returns its ticket. Thread scope: the team.
GRAVEL_BOTH uint64_t send_bulk(const queue& q, const copy_team& team, uint32_t pe, const unit (&head)[2],
                               uint32_t n_head, const char* from, uint64_t bytes) {
  return send_written(q, team, pe, head, n_head, [&](char* to) { copy_bytes(team, to, from, bytes); });
}

/// A copy of a GPU's memory, which a host thread makes before it claims a slot: after the claim nothing may fail.
class host_copy {
 public:
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  host_copy(const void* source, uint64_t bytes) : held_(is_device_memory(source) ? new char[bytes] : nullptr) {}
  ~host_copy() { delete[] held_; }
  host_copy(const host_copy&) = delete;
  const char* of(const char* from, uint64_t bytes) {
    if (!held_) return from;
    copy_from_device(held_, from, bytes);
    return held_;
  }

 private:
  char* const held_;
#else
  GRAVEL_BOTH host_copy(const void*, uint64_t) {}
  GRAVEL_BOTH const char* of(const char* from, uint64_t) { return from; }
#endif
};

/// The signal of a put_signal: words 2 and 3 of its message.
struct signal_of_put {
  uint64_t offset, value;
  gravel_signal_op how;
};

/// Puts on the route `net`. `signal` may be nullptr. Thread scope: the team.
GRAVEL_BOTH_APART void put_bulk_remote(gravel_t g, copy_team team, uint64_t offset, const char* from, uint64_t bytes,
                                       const signal_of_put* signal, int pe) {
  const queue& q = bulk_queue(g, team, bytes);
  const uint32_t to = static_cast<uint32_t>(pe), n_head = signal ? 2 : 1;
  const uint64_t most = uint64_t{most_bulk_units(g, q) - 1} * sizeof(unit), last = most - (n_head - 1) * sizeof(unit);
  host_copy held(from, bytes < most ? bytes : most);
  uint64_t done = 0, ticket = 0;
  while (bytes - done > last) {
    const uint64_t now = bytes - done < most ? bytes - done : most;
    const unit head[2] = {{{make_word0(op::put_bulk, 0, offset + done), now}}, {}};
    ticket = send_bulk(q, team, to, head, 1, held.of(from + done, now), now);
    done += now;
  }
  if (signal && done) {
    if (team.is_leader()) q.flush(ticket + 1);
    team.sync();
  }
  if (!signal && done == bytes) return;
  const op o = signal ? op::put_signal : op::put_bulk;
  const unit head[2] = {
      {{make_word0(o, signal ? static_cast<uint8_t>(signal->how) : uint8_t{0}, offset + done), bytes - done}},
      {{signal ? signal->offset : 0, signal ? signal->value : 0}}};
  send_bulk(q, team, to, head, n_head, held.of(from + done, bytes - done), bytes - done);
}

/// Sets or raises a signal after its data has been written by lanes that have synchronized. Thread scope: one lane.
GRAVEL_BOTH void raise_signal(uint64_t* signal, uint64_t value, gravel_signal_op how) {
  if (how == GRAVEL_SIGNAL_ADD) fetch_add_release<scope::system>(signal, value);
  else store_release(signal, value);
}

GRAVEL_BOTH void put_bulk_by(const gravel_t& g, const copy_team& team, void* dest, const void* source, uint64_t bytes,
                             int pe, uint64_t* signal = nullptr, uint64_t value = 0,
                             gravel_signal_op how = GRAVEL_SIGNAL_SET) {
  const op o = signal ? op::put_signal : op::put_bulk;
  if (team_forbidden_in_handler(g, o)) return;
  if (signal) {
    if (!enter_team(g, team.is_warp() ? team_call::put_signal_warp : team_call::put_signal, team, dest, bytes, signal,
                    value, pe))
      return;
  } else if (!enter_team(g, team.is_warp() ? team_call::put_bulk_warp : team_call::put_bulk, team, dest, bytes, pe)) {
    return;
  }
  uint64_t offset, signal_offset = 0;
  if (bytes == 0) dest = g.heap;
  if (!locate_bytes(g, team, dest, bytes, pe, o, &offset)) return;
  if (signal && !locate_bytes(g, team, signal, sizeof(*signal), pe, o, &signal_offset)) return;
  if (signal && signal_offset % sizeof(*signal)) {
    if (team.is_leader())
      report_error(g, message_fault::misaligned, o, static_cast<uint32_t>(pe), signal_offset, sizeof(*signal));
    return;
  }
  const char* from = static_cast<const char*>(source);
  if (char* const heap = mapped_heap(g, pe)) {
    copy_bytes(team, heap + offset, from, bytes);
    if (signal && team.size() > 1) thread_fence();  // a lane alone releases its own stores with the signal
    team.sync();                                    // before this, `source` may not be reused
    if (signal && team.is_leader()) raise_signal(reinterpret_cast<uint64_t*>(heap + signal_offset), value, how);
    return;
  }
  const signal_of_put with{signal_offset, value, how};
  put_bulk_remote(g, team, offset, from, bytes, signal ? &with : nullptr, pe);
}

/// Bytes of one answer to a get_bulk, and of one request. An answer fits a slot of the handlers' queue.
GRAVEL_BOTH uint64_t answer_bytes(const gravel_t& g) {
  const uint32_t units = most_bulk_units(g, g.direct);
  return uint64_t{(units < g.n_cells ? units : static_cast<uint32_t>(g.n_cells)) - 1} * sizeof(unit);
}
GRAVEL_BOTH uint64_t request_bytes(const gravel_t& g) {
  const uint64_t fit = g.n_cells / 2 / bulk_units(answer_bytes(g)), at_most = fit > 16 ? 16 : fit;
  return answer_bytes(g) * (fit < 1 ? 1 : at_most);
}

/// Units of the answers to a request for so many bytes.
GRAVEL_BOTH uint32_t answer_units(const gravel_t& g, uint64_t bytes) {
  const uint64_t each = answer_bytes(g), rest = bytes % each;
  return static_cast<uint32_t>(bytes / each * bulk_units(each) + (rest ? bulk_units(rest) : 0));
}

/// Sends the requests of a get_bulk. They are few: one lane sends them all. Thread scope: lane.
GRAVEL_BOTH_APART void request_bulk(gravel_t g, uint64_t to, uint64_t from, uint64_t bytes, int pe) {
  const uint64_t most = request_bytes(g);
  for (uint64_t done = 0; done < bytes; done += most) {
    const uint64_t now = bytes - done < most ? bytes - done : most;
    const uint8_t type = begin_gets(g, answer_units(g, now));
    const unit head[2] = {{{make_word0(op::get_bulk, type, from + done), make_return(g.my_pe, to + done)}}, {{now, 0}}};
    send_bulk(g.direct, copy_team::alone(), static_cast<uint32_t>(pe), head, 2, nullptr, 0);
  }
}

/// Answers the pieces `first`, `first + step`, ... of a request. Thread scope: the team, of the receiver.
GRAVEL_BOTH message_fault answer_get_bulk(const gravel_t& g, const copy_team& team, const unit (&request)[2],
                                          uint32_t first, uint32_t step) {
  const uint64_t each = answer_bytes(g), bytes = request[1].word[0], back = request[0].word[1];
  if (bytes > request_bytes(g)) return message_fault::bad_size;
  for (uint64_t done = first * each; done < bytes; done += step * each) {
    const uint64_t now = bytes - done < each ? bytes - done : each;
    const unit head[2] = {{{make_word0(op::bulk_reply, type_byte(request[0].word[0]), return_where(back) + done), now}},
                          {}};
    send_bulk(g.direct, team, return_pe(back), head, 1, g.heap + offset_of(request[0].word[0]) + done, now);
  }
  return message_fault::fine;
}

/// Pieces of `bytes` bytes that one request may name; 0: a piece is too large for a request.
GRAVEL_BOTH uint32_t most_pieces(const gravel_t& g, uint64_t bytes) {
  const uint64_t by_list = uint64_t{most_bulk_units(g, g.direct) - 2} * sizeof(unit) / sizeof(uint64_t),
                 by_answers = request_bytes(g) / bytes;
  return static_cast<uint32_t>(by_list < by_answers ? by_list : by_answers);
}
/// Requests `n` pieces of `bytes` bytes from `pe`, at most most_pieces(). They come to `to` one behind the other;
/// gravel_quiet waits for them. `list`: [n] offsets of the pieces, multiples of the largest power of 2 up to 16 that
/// divides `bytes`. The caller has checked all arguments. Thread scope: the team.
GRAVEL_DEVICE void request_pieces(const gravel_t& g, const copy_team& team, char* to, const uint64_t* list, uint32_t n,
                                  uint64_t bytes, int pe) {
  uint64_t type = 0;
  if (team.is_leader()) type = begin_gets(g, answer_units(g, n * bytes));
  const uint64_t list_bytes = n * sizeof(*list);
  const unit head[2] = {{{make_word0(op::get_pieces, static_cast<uint8_t>(type), 0), list_bytes}},
                        {{make_return(g.my_pe, static_cast<uint64_t>(to - g.heap)), bytes}}};
  send_bulk(g.direct, team, static_cast<uint32_t>(pe), head, 2, reinterpret_cast<const char*>(list), list_bytes);
}
/// Copies the bytes from `first` to `end` of the pieces of a list, as they lie one behind the other, by words. Returns
/// false, and leaves out a piece, if it is not in the heap or misaligned. Several loads of a lane are under way
/// together. Thread scope: the team, each thread for its own words.
template <class Word>
GRAVEL_BOTH bool copy_pieces(const gravel_t& g, const copy_team& team, Word* to, const uint64_t* list, uint64_t bytes,
                             uint64_t first, uint64_t end) {
  constexpr uint32_t at_once = 4;
  const auto words = static_cast<uint32_t>(bytes / sizeof(Word)), begin = static_cast<uint32_t>(first / sizeof(Word)),
             all = static_cast<uint32_t>((end - first) / sizeof(Word));
  bool is_sound = true;
  for (uint32_t i = team.rank(); i < all; i += at_once * team.size()) {
    Word held[at_once] = {};
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k) {
      const uint32_t at = begin + i + k * team.size(), piece = at / words;
      if (at >= begin + all) break;
      const uint64_t offset = load_relaxed(&list[piece]);  // once: on the host others may write to the packet
      if (offset % sizeof(Word) == 0 && lies_in_heap(offset, bytes, g.heap_bytes))
        held[k] = reinterpret_cast<const Word*>(g.heap + offset)[at - piece * words];
      else is_sound = false;
    }
    GRAVEL_UNROLL
    for (uint32_t k = 0; k < at_once; ++k)
      if (i + k * team.size() < all) to[i + k * team.size()] = held[k];
  }
  return is_sound;
}
/// Sends the answers `first`, `first + step`, ... to a get_pieces that arrived at `request`. `head`: its first two
/// units as they were checked. Threads of the team may return different faults. Thread scope: the team, of the
/// receiver.
GRAVEL_BOTH message_fault answer_get_pieces(const gravel_t& g, const copy_team& team, const unit (&head)[2],
                                            const unit* request, uint32_t first, uint32_t step) {
  const auto* const list = reinterpret_cast<const uint64_t*>(request + 2);
  const uint64_t each = answer_bytes(g), piece = head[1].word[1], back = head[1].word[0],
                 bytes = head[0].word[1] / sizeof(*list) * piece;
  if (bytes > request_bytes(g)) return message_fault::bad_size;
  bool is_sound = true;
  for (uint64_t done = first * each; done < bytes; done += step * each) {
    const uint64_t end = bytes - done < each ? bytes : done + each;
    const unit answer[2] = {
        {{make_word0(op::bulk_reply, type_byte(head[0].word[0]), return_where(back) + done), end - done}}, {}};
    send_written(g.direct, team, return_pe(back), answer, 1, [&](char* to) {
      if (piece % 16 == 0) is_sound &= copy_pieces(g, team, reinterpret_cast<unit*>(to), list, piece, done, end);
      else if (piece % 8 == 0)
        is_sound &= copy_pieces(g, team, reinterpret_cast<uint64_t*>(to), list, piece, done, end);
      else is_sound &= copy_pieces(g, team, reinterpret_cast<uint32_t*>(to), list, piece, done, end);
    });
  }
  return is_sound ? message_fault::fine : message_fault::outside_heap;
}

/// Reads bytes of `pe` on the route `net` into memory that is not symmetric, where no answer can be put: by fetches of
/// whole words. They have arrived on return. Thread scope: the team, each thread for its own words.
GRAVEL_BOTH_APART void fetch_bytes(gravel_t g, copy_team team, char* to, uint64_t from, uint64_t bytes, int pe) {
  const uint64_t end = (from + bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  for (uint64_t i = from / sizeof(uint64_t) + team.rank(); i < end; i += team.size()) {
    const uint64_t first = i * sizeof(uint64_t),
                   word = fetch_remote(g, op::fetch, static_cast<uint8_t>(value_type::u64), first, 0, 0, pe);
    for (uint32_t b = 0; b < sizeof(uint64_t); ++b)
      if (first + b >= from && first + b < from + bytes) to[first + b - from] = static_cast<char>(word >> 8 * b);
  }
}
/// Does so for a host thread, too, whose destination may be memory of its GPU.
GRAVEL_BOTH void fetch_bytes_anywhere(const gravel_t& g, const copy_team& team, char* to, uint64_t from, uint64_t bytes,
                                      int pe) {
#if GRAVEL_CUDA && !GRAVEL_ON_GPU
  if (is_device_memory(to)) {
    const std::unique_ptr<char[]> held(new char[bytes]);
    fetch_bytes(g, team, held.get(), from, bytes, pe);
    copy_from_device(to, held.get(), bytes);
    return;
  }
#endif
  fetch_bytes(g, team, to, from, bytes, pe);
}

GRAVEL_BOTH void get_bulk_by(const gravel_t& g, const copy_team& team, void* dest, const void* source, uint64_t bytes,
                             int pe) {
  if (team_forbidden_in_handler(g, op::get_bulk)) return;
  if (!enter_team(g, team.is_warp() ? team_call::get_bulk_warp : team_call::get_bulk, team, dest, source, bytes, pe))
    return;
  uint64_t from;
  if (bytes == 0) source = dest = g.heap;
  if (!locate_bytes(g, team, source, bytes, pe, op::get_bulk, &from)) return;
  char* const into = static_cast<char*>(dest);
  const auto to = static_cast<uint64_t>(into - g.heap);
  const bool is_symmetric = lies_in_heap(to, bytes, g.heap_bytes);
  if (!is_symmetric && (to < g.heap_bytes || to + bytes - 1 < g.heap_bytes)) {  // partly
    if (team.is_leader()) report_error(g, message_fault::bad_destination, op::get_bulk, g.my_pe, to, bytes);
    return;
  }
  if (const char* const heap = mapped_heap(g, pe)) copy_bytes(team, into, heap + from, bytes);
  else if (!is_symmetric) fetch_bytes_anywhere(g, team, into, from, bytes, pe);
  else if (team.is_leader()) request_bulk(g, to, from, bytes, pe);
  team.sync();
}

/// Applies a bulk message that arrived with data at `m`. `g`: the handlers' handle; `head`: its first two units as they
/// were checked. Thread scope: the team, of the receiver.
GRAVEL_BOTH void finish_bulk(const gravel_t& g, const copy_team& team, const unit (&head)[2], const unit* m) {
  const uint64_t w0 = head[0].word[0], w1 = head[0].word[1];
  const op o = op_of(w0);
  const uint32_t n_head = o == op::put_signal ? 2 : 1;
  copy_bytes(team, g.heap + offset_of(w0), reinterpret_cast<const char*>(m + n_head), w1);
  if (o == op::put_bulk) return;
  team.sync();
  if (!team.is_leader()) return;
  if (o == op::bulk_reply) finish_gets(g, type_byte(w0), bulk_units(w1));
  else
    raise_signal(reinterpret_cast<uint64_t*>(g.heap + head[1].word[0]), head[1].word[1],
                 static_cast<gravel_signal_op>(type_byte(w0)));
}

}  // namespace gravel::detail

/// Copies `bytes` bytes to `pe`.
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_bulk(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::block(g), dest, source, bytes, pe);
}
/// Copies `bytes` bytes to `pe`.
/// @scope warp: the lanes in `lanes`, converged, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_bulk_warp(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe,
                                      uint32_t lanes = ~0u) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::warp(g, lanes), dest, source, bytes, pe);
}
/// Copies `bytes` bytes to `pe`.
/// @scope lane, from divergent code, each with its own arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_bulk_lane(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::lane(g), dest, source, bytes, pe);
}

/// Copies `bytes` bytes to `pe`, then sets or raises `*signal` there. If the data does not fit one message
/// (GRAVEL_SLOT_SIZE, GRAVEL_PACKET_SIZE) on the route `net`, the call waits until all but the last part is applied.
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_signal(const gravel_t& g, void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                                   uint64_t value, gravel_signal_op how, int pe) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::block(g), dest, source, bytes, pe, signal, value, how);
}
/// Copies `bytes` bytes to `pe` with a signal, as gravel_put_signal.
/// @scope warp: the lanes in `lanes`, converged, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_signal_warp(const gravel_t& g, void* dest, const void* source, uint64_t bytes,
                                        uint64_t* signal, uint64_t value, gravel_signal_op how, int pe,
                                        uint32_t lanes = ~0u) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::warp(g, lanes), dest, source, bytes, pe, signal, value,
                              how);
}
/// Copies `bytes` bytes to `pe` with a signal, as gravel_put_signal.
/// @scope lane, from divergent code, each with its own arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_put_signal_lane(const gravel_t& g, void* dest, const void* source, uint64_t bytes,
                                        uint64_t* signal, uint64_t value, gravel_signal_op how, int pe) {
  gravel::detail::put_bulk_by(g, gravel::detail::copy_team::lane(g), dest, source, bytes, pe, signal, value, how);
}

/// Copies `bytes` bytes from `pe`. It does not wait for the answer, unless very much is under way.
/// @scope block: every thread, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_get_bulk(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel::detail::get_bulk_by(g, gravel::detail::copy_team::block(g), dest, source, bytes, pe);
}
/// Copies `bytes` bytes from `pe`, as gravel_get_bulk.
/// @scope warp: the lanes in `lanes`, converged, with the same arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_get_bulk_warp(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe,
                                      uint32_t lanes = ~0u) {
  gravel::detail::get_bulk_by(g, gravel::detail::copy_team::warp(g, lanes), dest, source, bytes, pe);
}
/// Copies `bytes` bytes from `pe`, as gravel_get_bulk.
/// @scope lane, from divergent code, each with its own arguments; a host thread. Not handlers
GRAVEL_BOTH void gravel_get_bulk_lane(const gravel_t& g, void* dest, const void* source, uint64_t bytes, int pe) {
  gravel::detail::get_bulk_by(g, gravel::detail::copy_team::lane(g), dest, source, bytes, pe);
}
