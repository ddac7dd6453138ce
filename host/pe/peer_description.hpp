// What PEs of a node tell each other at the start, for the route peer (host/pe/peers.hpp).
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/wire.hpp"

namespace gravel::detail {

/// First: the PE's memory, and what decides who waits for whom.
struct peer_description {
  static constexpr wire_kind kind = wire_kind::peer;
  std::string heap, area;  ///< exported; empty: nobody maps them
  uint32_t chunks, chunk_units;
  std::string bus_id;
  bool runs_beside_others, stays_resident;
  static auto fields(auto& m) {
    return std::tie(m.heap, m.area, m.chunks, m.chunk_units, m.bus_id, m.runs_beside_others, m.stays_resident);
  }
  /// The chunks are compared with the reader's own.
  void check(const wire_check& c) const {
    c.range("the length of heap", heap.size(), 0, 1 << 16);
    c.range("the length of area", area.size(), 0, 1 << 16);
    c.range("the length of bus_id", bus_id.size(), 0, 64);
  }
};

/// Then, which of them it has mapped: a bit for each local rank.
struct reached_peers {
  static constexpr wire_kind kind = wire_kind::reached_peers;
  static constexpr bool any_values_will_do = true;  // only bits of PEs that there are are looked at
  uint32_t ranks;
  static auto fields(auto& m) { return std::tie(m.ranks); }
};

/// On the CPU backend: where exported memory is, for processes of the same machine.
struct memory_description {
  static constexpr wire_kind kind = wire_kind::exported_memory;
  uint64_t process, descriptor, bytes;
  uint64_t inode;  ///< that process may be another one where PEs have process numbers of their own (containers)
  static auto fields(auto& m) { return std::tie(m.process, m.descriptor, m.bytes, m.inode); }
  void check(const wire_check& c) const {
    c.range("process", process, 1, INT32_MAX);
    c.range("descriptor", descriptor, 0, INT32_MAX);
    c.range("bytes", bytes, 1, 1ull << 48);
  }
};

}  // namespace gravel::detail
