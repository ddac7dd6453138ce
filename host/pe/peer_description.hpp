// What PEs of a node tell each other at the start, for the route peer (host/pe/peers.hpp).
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/wire.hpp"

namespace gravel {

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
};

/// Then, which of them it has mapped: a bit for each local rank.
struct reached_peers {
  static constexpr wire_kind kind = wire_kind::reached_peers;
  uint32_t ranks;
  static auto fields(auto& m) { return std::tie(m.ranks); }
};

/// On the CPU backend: where exported memory is, for processes of the same machine.
struct memory_description {
  static constexpr wire_kind kind = wire_kind::exported_memory;
  uint64_t process, descriptor, bytes;
  uint64_t inode;  ///< that process may be another one where PEs have process numbers of their own (containers)
  static auto fields(auto& m) { return std::tie(m.process, m.descriptor, m.bytes, m.inode); }
};

}  // namespace gravel
