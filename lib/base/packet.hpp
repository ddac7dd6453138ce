// A packet: up to GRAVEL_PACKET_SIZE bytes of messages for one destination, the unit on the wire.
//
//   [packet_header, 64 bytes][rows][payload: units]
//
// All messages of a row have one size, so a receiver finds message i of a row by arithmetic and works in parallel. Rows
// are contiguous, and each begins at a unit. In a transit packet (on the first of two hops) each row names its final
// sink. A landing slot is [landing_header, 64 bytes][packet]. Only the local aggregator writes `published`, after the
// packet.
#pragma once
#include <cstdint>

#include "lib/base/message.hpp"
#include "lib/base/platform.hpp"
#include "lib/base/row.hpp"

namespace gravel::detail {

constexpr uint32_t packet_magic = 0x4c565247;  // "GRVL"
constexpr uint32_t max_packet_rows = 60;
constexpr uint32_t transit_sink = 0xffffffff;

/// The header of a packet. The sending plane writes it.
struct alignas(64) packet_header {
  uint32_t magic;
  uint32_t bytes;     ///< of header, table and payload
  uint64_t sequence;  ///< number in its stream, from 0
  uint32_t sink;      ///< final destination, or transit_sink
  uint32_t source_node;
  uint32_t n_rows;
  uint32_t n_units;
  uint32_t n_messages;
  uint32_t plane;
  /// A node in the middle shall forward these messages, and those of the stream's earlier packets, without delay.
  uint32_t flush;
  uint32_t spare[3];
};
static_assert(sizeof(packet_header) == 64);

constexpr uint32_t packet_payload_offset = sizeof(packet_header) + max_packet_rows * sizeof(message_row);
static_assert(packet_payload_offset == 1024);

struct alignas(64) landing_header {
  uint64_t published;  ///< sequence + 1 of the packet that lies here
  uint64_t spare[7];
};
static_assert(sizeof(landing_header) == 64);

GRAVEL_BOTH constexpr uint32_t packet_capacity_units(uint64_t packet_size) {
  return static_cast<uint32_t>((packet_size - packet_payload_offset) / sizeof(unit));
}
GRAVEL_BOTH message_row* rows_of(packet_header* p) { return reinterpret_cast<message_row*>(p + 1); }
GRAVEL_BOTH const message_row* rows_of(const packet_header* p) { return reinterpret_cast<const message_row*>(p + 1); }
GRAVEL_BOTH unit* payload_of(packet_header* p) {
  return reinterpret_cast<unit*>(reinterpret_cast<char*>(p) + packet_payload_offset);
}
GRAVEL_BOTH const unit* payload_of(const packet_header* p) {
  return reinterpret_cast<const unit*>(reinterpret_cast<const char*>(p) + packet_payload_offset);
}

enum class packet_fault : uint8_t { fine, bad_magic, bad_length, bad_sequence, bad_sink, bad_table, bad_total };
const char* name_of(packet_fault);

/// What a receiver expects of a packet.
struct packet_expectation {
  uint64_t packet_size;
  uint64_t sequence;
  uint32_t sink;     ///< or transit_sink
  uint32_t n_sinks;  ///< sinks of the job
};

/// Checks everything that a receiver relies on: lengths, table, totals. The messages are checked one by one where they
/// are applied. `available`: bytes that may be read at `p`.
GRAVEL_BOTH packet_fault check_packet(const packet_header* p, uint64_t available, const packet_expectation& expect) {
  if (available < packet_payload_offset || p->magic != packet_magic) return packet_fault::bad_magic;
  if (p->bytes > available || p->bytes > expect.packet_size || p->n_rows > max_packet_rows ||
      p->n_units > packet_capacity_units(expect.packet_size) ||
      p->bytes != packet_payload_offset + uint64_t{p->n_units} * sizeof(unit))
    return packet_fault::bad_length;
  if (p->sequence != expect.sequence) return packet_fault::bad_sequence;
  if (p->sink != expect.sink) return packet_fault::bad_sink;
  uint64_t units = 0, messages = 0;
  for (uint32_t i = 0; i < p->n_rows; ++i) {
    const message_row s = rows_of(p)[i];
    if (s.messages == 0 || !is_sound(s.kind) || (s.messages != 1 && s.kind.units() > max_am_units))
      return packet_fault::bad_table;
    if (s.sink >= expect.n_sinks || (expect.sink != transit_sink && s.sink != expect.sink))
      return packet_fault::bad_sink;
    units += s.units();
    messages += s.messages;
  }
  return units == p->n_units && messages == p->n_messages ? packet_fault::fine : packet_fault::bad_total;
}

/// A copy of the header and the table of a packet.
struct packet_table {
  packet_header header;
  message_row rows[max_packet_rows];
};
static_assert(sizeof(packet_table) == packet_payload_offset);

/// Reads a packet on the host, at any address, where others may write at the same time: copies header and table once,
/// and checks the copy. The caller must use only the copy from then on. `available` and result: as for check_packet.
/// The payload needs no check here: code that moves whole rows does not depend on it, and code that applies a message
/// copies that message before it checks it.
packet_fault read_packet(const void* packet, uint64_t available, const packet_expectation&, packet_table& to);

/// Appends messages to an open packet. Others may write where the packet lies, so the writer never reads it.
class packet_writer {
 public:
  void open(void* at, uint64_t packet_size) {
    packet_ = static_cast<packet_header*>(at);
    capacity_ = packet_capacity_units(packet_size);
    n_rows_ = n_units_ = n_messages_ = 0;
  }
  bool is_open() const { return packet_ != nullptr; }
  bool empty() const { return n_messages_ == 0; }
  uint32_t messages() const { return n_messages_; }
  /// True if the last message is a bulk message, and at least a quarter of the packet is used.
  bool has_large() const { return last_is_bulk_ && 4 * n_units_ >= capacity_; }
  packet_header* packet() const { return packet_; }
  uint32_t rows() const { return n_rows_; }
  /// The bytes of header, table and payload, as they are now.
  uint32_t bytes() const { return packet_payload_offset + n_units_ * static_cast<uint32_t>(sizeof(unit)); }

  /// Where the caller shall write messages, and how many.
  struct place {
    uint32_t* at;
    uint32_t messages;
  };
  /// Adds as many of `messages` messages of this kind as fit. The caller must write their words to their place before
  /// the packet is sent. `first`: the first of them.
  place reserve(uint32_t sink, const row_kind& kind, const uint32_t* first, uint32_t messages);
  /// Writes the header, which completes the packet. The next open() begins another packet.
  packet_header* close(uint64_t sequence, uint32_t sink, uint32_t source_node, uint32_t plane, bool flush);

 private:
  packet_header* packet_ = nullptr;
  /// n_units_ includes the unused rest of the last row's last unit.
  uint32_t capacity_ = 0, n_rows_ = 0, n_units_ = 0, n_messages_ = 0;
  message_row last_{};  ///< the last row
  bool last_is_bulk_ = false;
  uint32_t last_begin_ = 0;  ///< unit at which the last row begins
};

}  // namespace gravel::detail
