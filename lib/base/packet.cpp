#include "lib/base/packet.hpp"

#include <algorithm>

namespace gravel {

packet_writer::place packet_writer::reserve(uint32_t sink, const row_kind& kind, const uint32_t* first, uint32_t messages) {
  message_row* const table = rows_of(packet_);
  message_row* const last = n_rows_ ? &table[n_rows_ - 1] : nullptr;
  // A bulk message is a row of its own: receivers move it with a whole block.
  const bool bulk = is_bulk_message(kind, first);
  const bool extends = last && last->sink == sink && last->kind == kind && !bulk && !last_is_bulk_;
  if (!extends && n_rows_ == max_packet_rows) return {};
  const uint32_t begin = extends ? last_begin_ : n_units_, before = extends ? last->messages : 0;
  const uint32_t room = (capacity_ - begin) * row_kind::words_of_unit / kind.words - before;
  const uint32_t taken = std::min(messages, room);
  if (taken == 0) return {};
  if (!extends) {
    table[n_rows_++] = {kind, sink, 0};
    last_begin_ = begin;
    last_is_bulk_ = bulk;
  }
  message_row& row = table[n_rows_ - 1];
  row.messages += taken;
  n_units_ = begin + static_cast<uint32_t>(row.units());
  n_messages_ += taken;
  return {words_at(payload_of(packet_) + begin) + uint64_t{before} * kind.words, taken};
}

packet_header* packet_writer::close(uint64_t sequence, uint32_t sink, uint32_t source_node, uint32_t plane, bool flush) {
  packet_header* p = packet_;
  *p = {};
  p->magic = packet_magic;
  p->bytes = static_cast<uint32_t>(packet_payload_offset + uint64_t{n_units_} * sizeof(unit));
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

}  // namespace gravel
