#include "lib/base/packet.hpp"

#include <algorithm>
#include <cstring>

namespace gravel {

uint32_t packet_writer::append(uint32_t sink, const unit* from, uint32_t messages, uint32_t units) {
  uint32_t taken = std::min(messages, (capacity_ - n_units_) / units);
  if (taken == 0) return 0;
  message_row* table = rows_of(packet_);
  message_row* last = n_rows_ ? &table[n_rows_ - 1] : nullptr;
  // A bulk message is a row of its own: receivers move it with a whole block.
  const bool bulk = units > max_am_units || (units > max_small_units && is_bulk(op_of(from->word[0])));
  const bool extends = last && last->sink == sink && last->units == units && !bulk && !last_is_bulk_ && last->messages + taken <= 0xffff;
  if (extends) {
    last->messages += static_cast<uint16_t>(taken);
  } else {
    if (n_rows_ == max_packet_rows) return 0;
    table[n_rows_++] = {sink, static_cast<uint16_t>(taken), static_cast<uint16_t>(units)};
    last_is_bulk_ = bulk;
  }
  std::memcpy(payload_of(packet_) + n_units_, from, uint64_t{taken} * units * sizeof(unit));
  n_units_ += taken * units;
  n_messages_ += taken;
  return taken;
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
