// A message: one operation on one symmetric address of one PE.
//
// Most messages travel in rows, which hold once what their messages have in common (row.hpp). This file describes the
// wide form, which every message has: 1 to 4 units of 16 bytes (an active message: up to 17, a bulk put: as many as it
// needs). The first word holds all that a receiver needs to check the message.
//
//   word 0 (word0_fields):  bits 0-7 operation | 8-15 type | 16-63 offset into the heap
//   put, add, and, or, xor, min, max:  word 1 = value, in the low bytes
//   get:            word 1 = requester << 48 | offset in the requester's heap
//   fetch_add ... fetch:  word 1 = operand                word 2 = requester << 48 | reply cell
//   compare_swap:   word 1 = desired, word 3 = expected   word 2 as above
//   am:             bits 16-47 of word 0 = handler id, 48-63 = bytes of arguments; arguments from byte 8 on
//   cell_reply:     offset = reply cell, word 1 = value
//   put_bulk:       word 1 = bytes; data from byte 16 on, padded to a unit, and to 5 units at least
//   bulk_reply:     as put_bulk; the reply to a get_bulk, or a part of it
//   put_signal:     type = gravel_signal_op, word 1 = bytes, word 2 = offset of the signal, word 3 = its value;
//                   data from byte 32 on
//   get_bulk:       as get, and word 2 = bytes; 5 units, of which 2 are used
//   get_pieces:     word 1 = bytes of the list, word 2 = requester << 48 | offset in the requester's heap,
//                   word 3 = bytes of a piece, a multiple of 4; from byte 32 on the list: 8 bytes for each piece, its
//                   offset in the heap. The pieces come one behind the other, as bulk_reply
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"
#if !GRAVEL_CUDA
#include <string>
#endif

namespace gravel::detail {

#define GRAVEL_OPS(X)                                                                                       \
  X(none, "none")                                                                                           \
  X(put, "gravel_put")                                                                                      \
  X(add, "gravel_add")                                                                                      \
  X(bit_and, "gravel_and")                                                                                  \
  X(bit_or, "gravel_or")                                                                                    \
  X(bit_xor, "gravel_xor")                                                                                  \
  X(min, "gravel_min")                                                                                      \
  X(max, "gravel_max") /* one-sided, no answer */                                                           \
  X(get, "gravel_get") /* answered by put_reply */                                                          \
  X(fetch_add, "gravel_fetch_add")                                                                          \
  X(fetch_and, "gravel_fetch_and")                                                                          \
  X(fetch_or, "gravel_fetch_or")                                                                            \
  X(fetch_xor, "gravel_fetch_xor")                                                                          \
  X(fetch_min, "gravel_fetch_min")                                                                          \
  X(fetch_max, "gravel_fetch_max")                                                                          \
  X(swap, "gravel_swap")                                                                                    \
  X(fetch, "gravel_fetch")                                                                                  \
  X(compare_swap, "gravel_compare_swap") /* by cell_reply */                                                \
  X(am, "gravel_am")                                                                                        \
  X(put_reply, "reply to gravel_get")                                                                       \
  X(cell_reply, "reply to a fetching operation")                                                            \
  X(put_bulk, "gravel_put_bulk")                                                                            \
  X(put_signal, "gravel_put_signal")                                                                        \
  X(get_bulk, "gravel_get_bulk")                                                                            \
  X(get_pieces, "a gather of gravel::rows")                                                                 \
  X(bulk_reply, "reply to gravel_get_bulk") /* of any number of bytes */                                    \
  X(inc, "gravel_inc") /* add of 1, as the kind of a row (row.hpp); as a message of its own it is an add */ \
  /* These consist of others, and are no messages: */                                                       \
  X(put_strided, "gravel_put_strided")                                                                      \
  X(get_strided, "gravel_get_strided")
enum class op : uint8_t { GRAVEL_OPS(GRAVEL_NAME) count };
/// Calls that are not operations, for error messages.
#define GRAVEL_OTHER_CALLS(X)                                      \
  X(none, "no call")                                               \
  X(quiet, "gravel_quiet")                                         \
  X(fence, "gravel_fence")                                         \
  X(wait_until, "gravel_wait_until or gravel_wait")                \
  X(wait_until_all, "gravel_wait_until_all")                       \
  X(wait_until_any, "gravel_wait_until_any")                       \
  X(wait_until_some, "gravel_wait_until_some")                     \
  X(block_sender, "gravel_block_sender")                           \
  X(local_operation, "gravel_local_add and the like")              \
  X(barrier_block, "gravel_barrier_block")                         \
  X(broadcast_block, "gravel_broadcast_block")                     \
  X(sum_all_block, "gravel_sum_all_block")                         \
  X(min_all_block, "gravel_min_all_block")                         \
  X(max_all_block, "gravel_max_all_block")                         \
  X(barrier, "gravel_barrier")                                     \
  X(allreduce, "gravel_allreduce")                                 \
  X(reduce, "gravel_reduce")                                       \
  X(sync, "gravel_sync_block, _warp or _lane")                     \
  X(allgather, "gravel_allgather_block, _warp or _lane")           \
  X(alltoall, "gravel_alltoall_block, _warp or _lane")             \
  X(reduce_all, "gravel_reduce_all_block, _warp or _lane")         \
  X(reduce_scatter, "gravel_reduce_scatter_block, _warp or _lane") \
  X(team_split, "gravel_team_split_strided or gravel_team_split_2d")
enum class other_call : uint8_t { GRAVEL_OTHER_CALLS(GRAVEL_NAME) count };

enum class value_type : uint8_t { u8, u16, u32, u64, i32, i64, f32, f64, f16, bf16, count };

struct alignas(16) unit {
  uint64_t word[2];
};
static_assert(sizeof(unit) == 16);

constexpr uint32_t max_am_bytes = 256;
/// The most units of a small message: every message but large active messages and bulk messages. Slots are sized for
/// small messages, and block senders gather them.
constexpr uint32_t max_small_units = 4;
constexpr uint64_t max_offset = (1ull << 48) - 1;
constexpr uint32_t max_pes = 65535;
/// Bit in the type byte of a get and its reply: a host thread made the request, not a kernel.
constexpr uint8_t host_origin = 0x80;
/// Bit in the type byte of a get and its reply: the get is of the odd parity (get_window.hpp).
constexpr uint8_t odd_parity = 0x40;

/// Where a PE applies messages: on its device, or (host handlers) in its receiver thread. A destination on the wire is
/// a sink number: 2 * PE + kind.
enum class sink_kind : uint32_t { device = 0, host = 1 };
GRAVEL_BOTH constexpr uint32_t sink_of(uint32_t pe, sink_kind kind) { return pe * 2 + static_cast<uint32_t>(kind); }
GRAVEL_BOTH constexpr uint32_t pe_of_sink(uint32_t sink) { return sink / 2; }
GRAVEL_BOTH constexpr sink_kind kind_of_sink(uint32_t sink) { return static_cast<sink_kind>(sink & 1); }

/// Bits FIRST to FIRST + BITS - 1 of a word of a message.
template <uint32_t FIRST, uint32_t BITS>
struct word_field {
  static constexpr uint32_t first = FIRST, end = FIRST + BITS;
  static constexpr uint64_t max = ~uint64_t{0} >> (64 - BITS);
  /// The word in which this field is `value`, at most `max`, and all others are 0.
  GRAVEL_BOTH static constexpr uint64_t pack(uint64_t value) { return value << FIRST; }
  GRAVEL_BOTH static constexpr uint64_t unpack(uint64_t word) { return word >> FIRST & max; }
};

/// The fields of word 0 of a wide message.
struct word0_fields {
  using operation = word_field<0, 8>;
  using type = word_field<8, 8>;      ///< the whole type byte
  using offset = word_field<16, 48>;  ///< into the heap; not in active messages
  // The type byte of a get or its reply has flags above the value type.
  using value = word_field<8, 6>;  ///< value_type
  // An active message has these fields instead of an offset.
  using handler = word_field<16, 32>;         ///< id
  using argument_bytes = word_field<48, 16>;  ///< at most max_am_bytes
  /// Mask of operation and type, which together select the code that applies a message.
  static constexpr uint64_t operation_and_type = (uint64_t{1} << type::end) - 1;
};
static_assert(word0_fields::type::first == word0_fields::operation::end);
static_assert(word0_fields::offset::first == word0_fields::type::end && word0_fields::offset::end == 64);
static_assert(word0_fields::offset::max == max_offset);
static_assert(word0_fields::handler::first == word0_fields::offset::first);
static_assert(word0_fields::argument_bytes::first == word0_fields::handler::end);
static_assert(word0_fields::argument_bytes::end == 64 && max_am_bytes <= word0_fields::argument_bytes::max);
static_assert(static_cast<uint64_t>(value_type::count) <= word0_fields::value::max);
static_assert((odd_parity | host_origin) == 0xff - word0_fields::value::max);

/// Packs word 0. Its fields are read by op_of(), type_byte(), type_of() and offset_of().
GRAVEL_BOTH constexpr uint64_t make_word0(op o, uint8_t type, uint64_t offset) {
  using f = word0_fields;
  return f::operation::pack(static_cast<uint64_t>(o)) | f::type::pack(type) | f::offset::pack(offset);
}
GRAVEL_BOTH constexpr op op_of(uint64_t word0) { return static_cast<op>(word0_fields::operation::unpack(word0)); }
GRAVEL_BOTH constexpr uint8_t type_byte(uint64_t word0) {
  return static_cast<uint8_t>(word0_fields::type::unpack(word0));
}
GRAVEL_BOTH constexpr value_type type_of(uint64_t word0) {
  return static_cast<value_type>(word0_fields::value::unpack(word0));
}
GRAVEL_BOTH constexpr uint64_t offset_of(uint64_t word0) { return word0_fields::offset::unpack(word0); }
/// Replies to requests. No more replies than requests may be under way.
GRAVEL_BOTH constexpr bool is_answer(op o) { return o == op::put_reply || o == op::cell_reply || o == op::bulk_reply; }
/// Packs word 0 of an active message. Its fields are read by handler_of() and argument_bytes_of().
GRAVEL_BOTH constexpr uint64_t make_am_word0(uint32_t handler, uint32_t argument_bytes) {
  using f = word0_fields;
  return f::operation::pack(static_cast<uint64_t>(op::am)) | f::handler::pack(handler) |
         f::argument_bytes::pack(argument_bytes);
}
GRAVEL_BOTH constexpr uint32_t handler_of(uint64_t word0) {
  return static_cast<uint32_t>(word0_fields::handler::unpack(word0));
}
GRAVEL_BOTH constexpr uint32_t argument_bytes_of(uint64_t word0) {
  return static_cast<uint32_t>(word0_fields::argument_bytes::unpack(word0));
}

/// Byte of a wide active message at which its arguments begin: behind word 0.
constexpr uint32_t arguments_begin = 8;
/// The place of argument word `w`, of 4 bytes, in the units of a wide active message.
struct argument_place {
  uint32_t unit, word, shift;
  GRAVEL_BOTH constexpr explicit argument_place(uint32_t w)
      : unit((w / 2 + 1) / 2), word((w / 2 + 1) % 2), shift(w % 2 * 32) {}
};
static_assert(argument_place(0).unit * sizeof(unit) + argument_place(0).word * sizeof(uint64_t) == arguments_begin);
/// Packs argument word `w` into a wide active message in which it is 0 so far.
GRAVEL_BOTH constexpr void pack_argument(unit* message, uint32_t w, uint32_t value) {
  const argument_place at(w);
  message[at.unit].word[at.word] |= uint64_t{value} << at.shift;
}
/// Unpacks argument word `w` of a wide active message.
GRAVEL_BOTH constexpr uint32_t unpack_argument(const unit* message, uint32_t w) {
  const argument_place at(w);
  return static_cast<uint32_t>(message[at.unit].word[at.word] >> at.shift);
}

/// The fields of a reply address: the PE that made the request, and an offset in its heap or the number of a cell.
struct return_fields {
  using where = word_field<0, 48>;
  using pe = word_field<48, 16>;
};
static_assert(return_fields::where::max == max_offset && max_pes <= return_fields::pe::max);
GRAVEL_BOTH constexpr uint64_t make_return(uint32_t pe, uint64_t where) {
  return return_fields::pe::pack(pe) | return_fields::where::pack(where);
}
GRAVEL_BOTH constexpr uint32_t return_pe(uint64_t word) {
  return static_cast<uint32_t>(return_fields::pe::unpack(word));
}
GRAVEL_BOTH constexpr uint64_t return_where(uint64_t word) { return return_fields::where::unpack(word); }

GRAVEL_BOTH constexpr uint32_t bytes_of(value_type t) {
  switch (t) {
    case value_type::u8: return 1;
    case value_type::u16:
    case value_type::f16:
    case value_type::bf16: return 2;
    case value_type::u32:
    case value_type::i32:
    case value_type::f32: return 4;
    default: return 8;
  }
}

/// The number 1 as a value of this type.
GRAVEL_BOTH constexpr uint64_t one_of(value_type t) {
  if (t == value_type::f32) return 0x3f800000;
  return t == value_type::f64 ? 0x3ff0000000000000 : 1;
}

/// Operations on one word without a reply.
GRAVEL_BOTH constexpr bool is_update(op o) { return o >= op::put && o <= op::max; }
/// Operations whose reply goes into a reply cell.
GRAVEL_BOTH constexpr bool is_fetching(op o) { return o >= op::fetch_add && o <= op::compare_swap; }
/// The operation that fetch_add ... fetch_max apply to the word: add ... max.
GRAVEL_BOTH constexpr op update_of(op o) {
  return static_cast<op>(static_cast<int>(o) - static_cast<int>(op::fetch_add) + static_cast<int>(op::add));
}
static_assert(update_of(op::fetch_and) == op::bit_and && update_of(op::fetch_max) == op::max);

GRAVEL_BOTH constexpr bool is_of_bits(op o) {
  return (o >= op::bit_and && o <= op::bit_xor) || (o >= op::fetch_and && o <= op::fetch_xor);
}
/// True for floating-point types of 16 bits.
GRAVEL_BOTH constexpr bool is_half_type(value_type t) { return t == value_type::f16 || t == value_type::bf16; }
/// True if the operation takes this type. Operations that move a value take all types but those of 16 bits, which move
/// as u16; arithmetic, order and exchange take types of 4 and 8 bytes; bit operations and compare_swap take integers of
/// 4 and 8 bytes; add and fetch_add take types of 16 bits, too.
GRAVEL_BOTH constexpr bool takes_type(op o, value_type t) {
  if (is_half_type(t)) return o == op::add || o == op::fetch_add;
  if (o == op::put || o == op::get || o == op::put_reply || o == op::fetch) return true;
  const bool is_float = t == value_type::f32 || t == value_type::f64,
             takes_floats = !is_of_bits(o) && o != op::compare_swap;
  return bytes_of(t) >= 4 && (!is_float || takes_floats);
}

GRAVEL_BOTH constexpr uint32_t am_units(uint32_t argument_bytes) {
  return (arguments_begin + argument_bytes + 15) / 16;
}
constexpr uint32_t max_am_units = am_units(max_am_bytes);
/// Bulk operations. A bulk message never shares a row with other messages, so a receiver that reads the first message
/// of a row knows what all of them are.
GRAVEL_BOTH constexpr bool is_bulk(op o) { return o >= op::put_bulk && o <= op::bulk_reply; }
/// The units of a bulk message: at least max_small_units + 1, so that a receiver of small messages need not check for
/// bulk ones.
GRAVEL_BOTH constexpr uint32_t bulk_units(uint64_t bytes) {
  const uint32_t units = 1 + static_cast<uint32_t>((bytes + 15) / 16);
  return units > max_small_units ? units : max_small_units + 1;
}

/// The units of a message with this first word; 0: not a valid first word. For bulk operations it depends on word 1,
/// too.
GRAVEL_BOTH constexpr uint32_t units_of(uint64_t word0, uint64_t word1) {
  const op o = op_of(word0);
  if (is_update(o)) return 1;
  if (is_fetching(o)) return 2;
  switch (o) {
    case op::get:
    case op::put_reply:
    case op::cell_reply: return 1;
    case op::am: return argument_bytes_of(word0) <= max_am_bytes ? am_units(argument_bytes_of(word0)) : 0;
    case op::put_bulk:
    case op::bulk_reply: return word1 <= (1u << 20) ? bulk_units(word1) : 0;
    case op::put_signal:
    case op::get_pieces: return word1 <= (1u << 20) ? bulk_units(word1 + sizeof(unit)) : 0;
    case op::get_bulk: return bulk_units(0);
    default: return 0;
  }
}

/// The reasons why a message may not be applied. A text describes a fault completely where one sentence is enough, for
/// host/pe/describe_error.cpp, which knows the names in braces. The meaning of offset and bytes depends on the fault.
#define GRAVEL_MESSAGE_FAULTS(X)                                                                                       \
  X(fine, "no fault")                                                                                                  \
  X(bad_op, "unknown operation")                                                                                       \
  X(bad_type, "a type the operation does not take")                                                                    \
  X(bad_size, "a size that does not fit the operation")                                                                \
  X(outside_heap, "an address outside the symmetric heap")                                                             \
  X(misaligned, "a misaligned address")                                                                                \
  X(bad_handler,                                                                                                       \
    "an active message arrived from {from} whose handler (id {offset}) is not in the list of gravel_init here, or "    \
    "takes other arguments")                                                                                           \
  X(bad_pe, "a PE number out of range")                                                                                \
  X(blocking_handler, "{call} inside a handler: handlers must not wait")                                               \
  X(corrupt_packet, "a corrupt packet")                                                                                \
  X(no_context, "a message arrived for handler '{handler}' before gravel_set_context was called for it here")          \
  X(unknown_handler,                                                                                                   \
    "{call} to PE {pe}: handler '{name}' is not in the list of gravel_init; add it on all PEs: gravel_init<..., "      \
    "{name}>()")                                                                                                       \
  X(bad_destination, "{call}: a destination outside its own symmetric heap, or misaligned: {place}")                   \
  X(team_call_in_handler, "{call} inside a handler: it is for whole blocks or warps of a kernel")                      \
  X(outside_kernel, "{call} outside a kernel: it is for kernels")                                                      \
  X(not_cooperative, "{call} in a grid of several blocks that was not launched as cooperative")                        \
  X(on_host, "{call} on the host: this memory is the device's, and the host reaches it by messages")                   \
  X(bad_block, "a block sender for another number of threads")                                                         \
  X(bad_shared, "a block sender without memory")                                                                       \
  X(other_collective, "the PEs' kernels call different collectives: {call} here, {other_call} at PE {pe}")             \
  X(other_arguments,                                                                                                   \
    "the PEs' kernels call {call} with different arguments: count, type, operation, root, or the kind of memory "      \
    "differ here and at PE {pe}")                                                                                      \
  X(no_team, "{call} with a team of which this PE is no member: a split returns {{}} at such PEs")                     \
  X(team_is_over, "{call} with a team that gravel_team_destroy has ended")                                             \
  X(bad_root, "gravel_broadcast_block from PE {wrong_pe}: the team has PEs 0 to {last}")                               \
  X(bad_service_block, "a message for block {offset} of a service: it has blocks 0 to {last}")                         \
  /* of lib/critical: */                                                                                               \
  X(bad_key, "a critical section was called with key {offset}: there are keys 0 to {last}")                            \
  X(bad_slot, "a critical section is to put its answer where there is no room for it: {place}, or misaligned")         \
  X(sender_begun, "a kernel begins a critical sender again before its end(): what was called since it began is lost")  \
  /* of lib/allreduce: */                                                                                              \
  X(other_reduction, "another reduction")                                                                              \
  X(bad_reduction, "an invalid reduction")                                                                             \
  /* of lib/remote_task: */                                                                                            \
  X(task_pe, "a task for PE {wrong_pe}: the job has PEs 0 to {last_pe}")                                               \
  X(task_payload, "a task with a payload of {offset} bytes: the queue was opened for up to {bytes}")                   \
  X(task_address,                                                                                                      \
    "a task with a target or signal at offset {offset:#x}, which is misaligned or in no heap of {bytes} bytes")        \
  X(task_room,                                                                                                         \
    "a task sends more tasks to PE {pe} than there is room for: all {bytes} slots there are taken, and the {bytes} "   \
    "for those that wait here")                                                                                        \
  X(unknown_task,                                                                                                      \
    "PE {pe} has sent a task (id {offset:#x}) that task queue {bytes} here does not know: it was opened without it")   \
  X(task_words,                                                                                                        \
    "PE {pe} has sent a task (id {offset:#x}) with an invalid command: {bytes} words, or impossible sizes or "         \
    "offsets")                                                                                                         \
  X(task_chain,                                                                                                        \
    "a chain of tasks of {offset} words: it may have up to {bytes} (5 for each, and those of its arguments)")          \
  X(task_queue,                                                                                                        \
    "a task arrived for a queue at offset {offset:#x} of the heap, but no queue is open there: its handle was used "   \
    "after close()")                                                                                                   \
  /* of lib/link: */                                                                                                   \
  X(link_closed, "a kernel sends {bytes} bytes on the link from PE {offset} to PE {pe} after its shutdown")            \
  X(link_lane, "a kernel uses lane {offset} of a link to PE {pe}: it has lanes 0 to {last}")                           \
  X(link_held,                                                                                                         \
    "a kernel waits for a packet on the link from PE {pe} to PE {offset} while it holds all {bytes} buffers: release " \
    "one before")                                                                                                      \
  X(link_element,                                                                                                      \
    "a merge of elements of {offset} bytes along a path with PE {pe}: the router's packets have {bytes} bytes: open "  \
    "it with packet_bytes of an element or more")                                                                      \
  /* of lib/table (pe: the place among the ids or rows, or the PE): */                                                 \
  X(bad_row, "id {pe} of a bulk call on gravel::rows is {offset}: the table has {bytes} rows")                         \
  X(bad_target, "row {pe} of an all_to_all goes to PE {wrong_pe}: the job has PEs 0 to {last_pe}")                     \
  X(exchange_room, "an all_to_all of gravel::row_exchange brings {offset} rows to PE {pe}: it has room for {bytes}")   \
  X(full_map, "a full map")                                                                                            \
  /* of device/team_check.cuh (pe: the call): */                                                                       \
  X(missing_lanes, "a call of a whole block or warp that lacks threads")                                               \
  X(other_team_call, "threads of a block in different calls")
enum class message_fault : uint8_t { GRAVEL_MESSAGE_FAULTS(GRAVEL_NAME) count };
/// True if the `bytes` bytes from `offset` on lie in the heap.
GRAVEL_BOTH constexpr bool lies_in_heap(uint64_t offset, uint64_t bytes, uint64_t heap_bytes) {
  return bytes <= heap_bytes && offset <= heap_bytes - bytes;
}

/// Checks a message before it touches memory. The heap has `heap_bytes` bytes, the job `n_pes` PEs, and there are
/// `reply_cells` cells. `m` has `units` units, of which the first two are read. Handler ids are checked where they are
/// looked up.
GRAVEL_BOTH message_fault check_message(const unit* m, uint32_t units, uint64_t heap_bytes, uint32_t n_pes,
                                        uint64_t reply_cells) {
  const uint64_t w0 = m->word[0], w1 = m->word[1];
  const op o = op_of(w0);
  if (o == op::none || o >= op::count) return message_fault::bad_op;
  if (units_of(w0, w1) != units) return message_fault::bad_size;
  if (o == op::am) return message_fault::fine;
  const uint64_t offset = offset_of(w0);
  if (o == op::put_bulk || o == op::bulk_reply)
    return lies_in_heap(offset, w1, heap_bytes) ? message_fault::fine : message_fault::outside_heap;
  if (o == op::put_signal) {
    const uint64_t signal = m[1].word[0];
    if (type_byte(w0) > 1) return message_fault::bad_type;
    if (!lies_in_heap(offset, w1, heap_bytes) || !lies_in_heap(signal, 8, heap_bytes))
      return message_fault::outside_heap;
    return signal % 8 ? message_fault::misaligned : message_fault::fine;
  }
  if (o == op::get_bulk) {
    const uint64_t bytes = m[1].word[0];
    if (return_pe(w1) >= n_pes) return message_fault::bad_pe;
    return lies_in_heap(offset, bytes, heap_bytes) && lies_in_heap(return_where(w1), bytes, heap_bytes)
               ? message_fault::fine
               : message_fault::outside_heap;
  }
  if (type_of(w0) >= value_type::count) return message_fault::bad_type;
  if (o == op::get_pieces) {
    const uint64_t back = m[1].word[0], piece = m[1].word[1];
    if (w1 % 8 || piece == 0 || piece % 4 || piece > (1u << 20)) return message_fault::bad_size;
    if (return_pe(back) >= n_pes) return message_fault::bad_pe;
    return lies_in_heap(return_where(back), w1 / 8 * piece, heap_bytes) ? message_fault::fine
                                                                        : message_fault::outside_heap;
  }
  if (o == op::cell_reply) return offset < reply_cells ? message_fault::fine : message_fault::outside_heap;
  const uint32_t bytes = bytes_of(type_of(w0));
  if (!takes_type(o, type_of(w0))) return message_fault::bad_type;
  if (offset > heap_bytes - bytes) return message_fault::outside_heap;
  if (offset % bytes) return message_fault::misaligned;
  if (o == op::get && (return_pe(w1) >= n_pes || return_where(w1) > heap_bytes - bytes)) return message_fault::bad_pe;
  if (is_fetching(o) && return_pe(m[1].word[0]) >= n_pes) return message_fault::bad_pe;
  return message_fault::fine;
}

/// Names for error messages.
const char* name_of(op);
const char* name_of(other_call);
const char* name_of(message_fault);
#if !GRAVEL_CUDA
/// The text of bad_block or bad_shared: a gravel_block_sender made for `wanted` threads, or bytes, is in a block that
/// has `found`.
std::string text_of_misfit(message_fault, uint64_t wanted, uint64_t found);
#endif
/// Throws gravel::error that says that the handler of this name threw `what`; without a name, that the operation threw
/// it.
[[noreturn]] void fail_in_handler(const char* handler, op, const char* what);

}  // namespace gravel::detail
