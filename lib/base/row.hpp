// A row: messages of one size for one sink, one behind the other. Producers hand over rows in slots (queue.hpp), aggregators move
// them into packets (packet.hpp), receivers apply them; nobody on the way looks at a single message.
#pragma once
#include <cstdint>

namespace gravel {

/// What the table in front of a slot's or a packet's messages says of each row.
struct message_row {
  uint32_t sink;
  uint16_t messages;
  uint16_t units;  ///< of each message
};
static_assert(sizeof(message_row) == 8);

}  // namespace gravel
