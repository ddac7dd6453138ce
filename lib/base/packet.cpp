#include "lib/base/packet.hpp"

#include <algorithm>

#include "lib/base/atomic.hpp"

namespace gravel::detail {

packet_fault read_packet(const void* packet, uint64_t available, const packet_expectation& expect, packet_table& to) {
  if (available < packet_payload_offset) return packet_fault::bad_magic;
  copy_once(&to.header, packet, sizeof(to.header));
  const uint32_t n_rows = std::min(to.header.n_rows, max_packet_rows);  // check_packet refuses more
  copy_once(to.rows, static_cast<const char*>(packet) + sizeof(packet_header), n_rows * sizeof(message_row));
  return check_packet(reinterpret_cast<const packet_header*>(&to), available, expect);
}

packet_writer::place packet_writer::reserve(uint32_t sink, const row_kind& kind, const uint32_t* first,
                                            uint32_t messages) {
  // A bulk message is a row of its own: receivers move it with a whole block. A message of that size whose payload
  // claims to be something else is a row of its own, too: receivers refuse rows of several such messages
  // (check_packet).
  const bool bulk = kind.units() > max_am_units || is_bulk_message(kind, first);
  const bool extends = n_rows_ != 0 && last_.sink == sink && last_.kind == kind && !bulk && !last_is_bulk_;
  if (!extends && n_rows_ == max_packet_rows) return {};
  const uint32_t begin = extends ? last_begin_ : n_units_, before = extends ? last_.messages : 0;
  const uint32_t room = (capacity_ - begin) * row_kind::words_of_unit / kind.words - before;
  const uint32_t taken = std::min(messages, room);
  if (taken == 0) return {};
  if (!extends) {
    ++n_rows_;
    last_ = {kind, sink, 0};
    last_begin_ = begin;
    last_is_bulk_ = bulk;
  }
  last_.messages += taken;
  rows_of(packet_)[n_rows_ - 1] = last_;
  n_units_ = begin + static_cast<uint32_t>(last_.units());
  n_messages_ += taken;
  return {words_at(payload_of(packet_) + begin) + uint64_t{before} * kind.words, taken};
}

packet_header* packet_writer::close(uint64_t sequence, uint32_t sink, uint32_t source_node, uint32_t plane,
                                    bool flush) {
  packet_header* p = packet_;
  *p = {};
  p->magic = packet_magic;
  p->bytes = bytes();
  p->sequence = sequence;
  p->sink = sink;
  p->source_node = source_node;
  p->n_rows = n_rows_;
  p->n_units = n_units_;
  p->n_messages = n_messages_;
  p->plane = plane;
  p->flush = flush;
  packet_ = nullptr;
  return p;
}

const char* name_of(packet_fault fault) {
  static constexpr const char* names[] = {"no fault",
                                          "no packet header",
                                          "a length that does not fit",
                                          "a wrong sequence number",
                                          "a wrong destination",
                                          "a bad table of rows",
                                          "totals that differ from the table"};
  return names[static_cast<int>(fault)];
}

}  // namespace gravel::detail
