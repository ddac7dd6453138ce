// The word with which a source notifies a destination of one packet. It names the packet, so the word alone says
// whether the packet has arrived.
#pragma once
#include <cstdint>

#include "lib/base/platform.hpp"

namespace gravel::detail {

///   bits 0-27   bytes
///   bit  28     always set
///   bit  29     the packet has metadata, too
///   bit  30     counted: the packet's bytes are added to a counter of their own
///   bit  31     the last packet of its segment
///   bits 32-63  low half of the packet's number + 1
struct packet_word {
  static constexpr uint64_t most_bytes = 1u << 27;
  uint64_t value = 0;

  GRAVEL_BOTH static packet_word make(uint64_t number, uint64_t bytes, bool is_last, bool has_metadata,
                                      bool is_counted) {
    return {(number + 1) << 32 | uint64_t{is_last} << 31 | uint64_t{is_counted} << 30 | uint64_t{has_metadata} << 29 |
            1u << 28 | bytes};
  }
  /// Returns whether this is the word of packet `number`. A buffer holds at most one packet at a time, so 32 bits
  /// distinguish the packets that use it one after the other.
  GRAVEL_BOTH bool is_of(uint64_t number) const {
    return (value >> 28 & 1) && static_cast<uint32_t>(value >> 32) == static_cast<uint32_t>(number + 1);
  }
  GRAVEL_BOTH uint64_t bytes() const { return value & ((1u << 28) - 1); }
  GRAVEL_BOTH bool has_metadata() const { return value >> 29 & 1; }
  GRAVEL_BOTH bool is_counted() const { return value >> 30 & 1; }
  GRAVEL_BOTH bool is_last() const { return value >> 31 & 1; }
  /// The number of bytes by which the counter rises.
  GRAVEL_BOTH uint64_t counted_bytes() const {
    if (!is_counted()) return 0;
    return bytes() + (has_metadata() ? sizeof(uint64_t) : 0);
  }
};

}  // namespace gravel::detail
