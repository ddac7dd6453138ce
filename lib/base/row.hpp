// A row: messages of one kind for one sink, one after the other.
//
// Producers hand over rows in slots (queue.hpp), aggregators move them into packets (packet.hpp), kernels and handlers
// push them into rings (peer_ring.hpp), and receivers apply them. No party on the way reads a single message. The row
// holds what its messages have in common, and a message holds only what differs:
//
//   kind                            a message, in words of 4 bytes
//   op::inc                         index of the word in the row's window of the heap
//   op::put, add, ... max           index, value: one word or, for 8-byte types, two, the lower first
//   op::am, up to compact_am_bytes  arguments
//   op::none: wide                  units with a first word of their own (message.hpp): requests and replies, bulk and
//                                   large active messages
//
// An index has 32 bits. It counts words of the row's type from the beginning of a window of the heap, which the kind
// names (heap_window). A row begins at a unit (16 bytes). The rest of the unit after its last message has no meaning.
#pragma once
#include <cstdint>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"

namespace gravel::detail {

/// What all messages of a row have in common.
struct row_kind {
  uint16_t words;    ///< words of 4 bytes in each message
  op operation;      ///< none: wide
  uint8_t type;      ///< value_type; for an active message, the bytes of its arguments
  uint32_t handler;  ///< of active messages; of updates, the number of the window (heap_window)

  GRAVEL_BOTH constexpr bool is_wide() const { return operation == op::none; }
  GRAVEL_BOTH constexpr bool is_update() const { return operation == op::inc || detail::is_update(operation); }
  GRAVEL_BOTH constexpr uint32_t units() const { return words / words_of_unit; }  ///< in each message of a wide row
  /// Of updates: the number of the window, and the kind in another window.
  GRAVEL_BOTH constexpr uint32_t window() const { return handler; }
  GRAVEL_BOTH constexpr row_kind in_window(uint32_t number) const { return {words, operation, type, number}; }
  /// Of updates: true if the kinds differ in their windows at most.
  GRAVEL_BOTH constexpr bool is_in_a_window_as(row_kind other) const { return in_window(0) == other.in_window(0); }
  friend GRAVEL_BOTH constexpr bool operator==(row_kind a, row_kind b) { return a.bits() == b.bits(); }
  /// The kind as one word. It is never 0 in a kind that has messages.
  GRAVEL_BOTH constexpr uint64_t bits() const {
    return words_field::pack(words) | operation_field::pack(static_cast<uint64_t>(operation)) | type_field::pack(type) |
           handler_field::pack(handler);
  }
  GRAVEL_BOTH static constexpr row_kind of_bits(uint64_t bits) {
    return {static_cast<uint16_t>(words_field::unpack(bits)), static_cast<op>(operation_field::unpack(bits)),
            static_cast<uint8_t>(type_field::unpack(bits)), static_cast<uint32_t>(handler_field::unpack(bits))};
  }
  static constexpr uint32_t words_of_unit = 4;

 private:
  // The members in the word of bits(): where they lie in memory, too.
  using words_field = word_field<0, 16>;
  using operation_field = word_field<16, 8>;
  using type_field = word_field<24, 8>;
  using handler_field = word_field<32, 32>;
};
static_assert(sizeof(row_kind) == 8);

/// The most bytes of arguments in a compact active message, and the words of the largest compact message.
constexpr uint32_t compact_am_bytes = 56, max_compact_words = compact_am_bytes / 4;
/// The words of a compact message: of an operation on a value of `bytes` bytes, and of an active message.
GRAVEL_BOTH constexpr uint32_t compact_words(op o, uint32_t bytes) {
  if (o == op::inc) return 1;
  return bytes > 4 ? 3 : 2;
}
GRAVEL_BOTH constexpr uint32_t compact_am_words(uint32_t bytes) { return bytes ? (bytes + 3) / 4 : 1; }

GRAVEL_BOTH constexpr row_kind wide_kind(uint32_t units) {
  return {static_cast<uint16_t>(units * row_kind::words_of_unit), op::none, 0, 0};
}
GRAVEL_BOTH constexpr row_kind update_kind(op o, value_type type) {
  return {static_cast<uint16_t>(compact_words(o, bytes_of(type))), o, static_cast<uint8_t>(type), 0};
}
GRAVEL_BOTH constexpr row_kind am_kind(uint32_t handler, uint32_t bytes) {
  return {static_cast<uint16_t>(compact_am_words(bytes)), op::am, static_cast<uint8_t>(bytes), handler};
}
/// True if 32 bits are enough to number all words of `bytes` bytes in the heap.
GRAVEL_BOTH constexpr bool fits_index(uint64_t heap_bytes, uint32_t bytes) { return (heap_bytes - 1) / bytes <= ~0u; }

/// The windows of a heap, for updates.
///
/// Problem. A heap may have more words than an index of 32 bits can number.
/// Solution. The indices of a row count from the beginning of a window of 2^32 words. Windows begin at every 2^24th
/// word, so they overlap. The sender of a row chooses the window: window 0 in a heap whose words all have an index
/// there, else one that has the row's first word in the middle. So all words at most 2^31 - 2^24 words away from the
/// first one fit into the row, and a heap of N words needs at most N / (2^31 - 2^24) + 1 windows.
struct heap_window {
  static constexpr uint32_t step_log2 = 24;
  /// The number of the window of a row that begins with this word of the heap. `is_large`: not fits_index().
  GRAVEL_BOTH static constexpr uint32_t around(uint64_t word, bool is_large) {
    constexpr uint64_t before = uint64_t{1} << 31;
    return is_large && word > before ? static_cast<uint32_t>((word - before) >> step_log2) : 0;
  }
  /// The word of the heap at which a window begins.
  GRAVEL_BOTH static constexpr uint64_t begin(uint32_t number) { return uint64_t{number} << step_log2; }
  /// True if the window has this word.
  GRAVEL_BOTH static constexpr bool has(uint32_t number, uint64_t word) { return (word - begin(number)) >> 32 == 0; }
  /// The index in the window of a word that it has. The lowest 32 bits of the word's number are enough.
  GRAVEL_BOTH static constexpr uint32_t index_of(uint32_t number, uint32_t word) {
    return word - (number << step_log2);
  }
  /// Numbers above this one belong to no heap: max_offset limits their offsets, for words of 8 bytes, too.
  static constexpr uint32_t last = (1u << 20) - 1;
  /// The bytes of the largest heap.
  static constexpr uint64_t most_bytes = uint64_t{last} << step_log2;
};
static_assert((heap_window::begin(heap_window::last) + ~0u) * 8 <= max_offset);

/// True if this can be a kind. Messages are checked where they are applied.
GRAVEL_BOTH constexpr bool is_sound(const row_kind& kind) {
  if (kind.is_wide()) return kind.words != 0 && kind.words % row_kind::words_of_unit == 0;
  if (kind.operation == op::am) return kind.type <= compact_am_bytes && kind.words == compact_am_words(kind.type);
  const auto type = static_cast<value_type>(kind.type);
  return kind.is_update() && type < value_type::count && takes_type(kind.operation, type) &&
         kind.words == compact_words(kind.operation, bytes_of(type)) && kind.window() <= heap_window::last;
}

/// The bytes of one message.
GRAVEL_BOTH constexpr uint64_t bytes_of(const row_kind& kind) { return uint64_t{kind.words} * 4; }
/// The units that `messages` messages take in a row.
GRAVEL_BOTH constexpr uint64_t units_for(const row_kind& kind, uint64_t messages) {
  return (messages * kind.words + row_kind::words_of_unit - 1) / row_kind::words_of_unit;
}

/// The description of a row, in the table in front of a slot's or a packet's messages, and in the header of a chunk.
struct alignas(16) message_row {
  row_kind kind;
  uint32_t sink;
  uint32_t messages;

  GRAVEL_BOTH constexpr uint64_t units() const { return units_for(kind, messages); }
};
static_assert(sizeof(message_row) == 16);

/// Stores a row with one instruction, so that it crosses PCIe and NVLink at once.
GRAVEL_BOTH void store_row(message_row* to, const message_row& row) {
#if GRAVEL_ON_GPU
  *reinterpret_cast<ulonglong2*>(to) = make_ulonglong2(row.kind.bits(), row.sink | uint64_t{row.messages} << 32);
#else
  *to = row;
#endif
}

GRAVEL_BOTH message_row load_row(const message_row* from) {
#if GRAVEL_ON_GPU
  const ulonglong2 v = *reinterpret_cast<const ulonglong2*>(from);
  return {row_kind::of_bits(v.x), static_cast<uint32_t>(v.y), static_cast<uint32_t>(v.y >> 32)};
#else
  return *from;
#endif
}

/// The messages of a row are words of 4 bytes; those of wide rows are units.
GRAVEL_BOTH const uint32_t* words_at(const unit* at) { return reinterpret_cast<const uint32_t*>(at); }
GRAVEL_BOTH uint32_t* words_at(unit* at) { return reinterpret_cast<uint32_t*>(at); }
GRAVEL_BOTH const unit* units_at(const uint32_t* at) { return reinterpret_cast<const unit*>(at); }

/// True if the first message of a row is a bulk message. All messages of a row are of one kind.
GRAVEL_BOTH bool is_bulk_message(const row_kind& kind, const uint32_t* message) {
  return kind.is_wide() && kind.units() > max_small_units && is_bulk(op_of(units_at(message)->word[0]));
}

/// Writes the wide form of a compact message into units. It writes all words that the message needs.
/// @return the number of units
GRAVEL_BOTH uint32_t widen(const row_kind& kind, const uint32_t* message, unit (&to)[max_small_units]) {
  if (kind.operation == op::am) {
    const uint32_t units = am_units(kind.type);
    for (unit& u : to) u = {{0, 0}};
    to[0].word[0] = make_am_word0(kind.handler, kind.type);
    for (uint32_t w = 0; w < max_compact_words; ++w)
      if (w * 4 < kind.type) pack_argument(to, w, message[w]);
    return units;
  }
  const auto type = static_cast<value_type>(kind.type);
  const bool is_inc = kind.operation == op::inc;
  const uint64_t word = heap_window::begin(kind.window()) + message[0];
  to[0].word[0] = make_word0(is_inc ? op::add : kind.operation, kind.type, word * bytes_of(type));
  if (is_inc) to[0].word[1] = one_of(type);
  else if (kind.words == 3) to[0].word[1] = message[1] | uint64_t{message[2]} << 32;
  else to[0].word[1] = message[1];
  return 1;
}

}  // namespace gravel::detail
