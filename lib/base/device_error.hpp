// The report of an error that a kernel, a handler or a host thread made, in memory that a PE and its devices share.
#pragma once
#include <cstdint>

namespace gravel::detail {

/// The first error that a kernel reports; later ones are ignored. The device writes it, the PE's receiver thread reads
/// it.
struct alignas(64) device_error {
  uint64_t code;  ///< 0: none; else message_fault + 1, written last, release [E1]
  uint64_t operation, pe;
  uint64_t offset;  ///< bad_handler: its id; corrupt_packet: the packet_fault
  uint64_t bytes;
  /// 0: the caller's own mistake; node + 1: in a message from that node; `from_peer`: in a message over the route
  /// `peer`.
  uint64_t arrived;
  uint64_t name[8];  ///< unknown_handler: its name, cut off at 63 characters
  uint64_t spare[2];
  static constexpr uint64_t from_peer = ~0ull;
};
static_assert(sizeof(device_error) == 128);

}  // namespace gravel::detail
