// Messages that the PEs of a domain exchange at the start, for the route `peer` (host/pe/peers.hpp).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host/pe/extent.hpp"
#include "lib/base/peer_ring.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

/// First exchange: the PE's memory, and what decides which kernels may wait for each other.
struct peer_description {
  static constexpr wire_kind kind = wire_kind::peer;
  std::string heap, area;  ///< exported; empty: no PE maps them, or they have extents
  std::string socket;      ///< for the descriptors of extents; empty: no PE maps this one's memory by descriptors
  fabric_extents fabric;   ///< the extents that there are now, if they have fabric handles; else none
  uint64_t heap_bytes;     ///< addresses for a heap in extents
  uint32_t chunks, chunk_units;
  uint64_t boot;       ///< of the machine (process_identity), where `bus_id` means something
  std::string bus_id;  ///< of the device
  bool runs_beside_others, stays_resident;
  static auto fields(auto& m) {
    return std::tie(m.heap, m.area, m.socket, m.fabric, m.heap_bytes, m.chunks, m.chunk_units, m.boot, m.bus_id,
                    m.runs_beside_others, m.stays_resident);
  }
  /// How this PE shares memory with others. PEs that share it in different ways do not map each other's.
  enum class sharing { not_at_all, whole, descriptors, fabric };
  sharing shares_by() const {
    if (!fabric.all.empty()) return sharing::fabric;
    if (!socket.empty()) return sharing::descriptors;
    return heap.empty() ? sharing::not_at_all : sharing::whole;
  }
  /// True if both PEs use one device.
  bool is_on_device_of(const peer_description& other) const {
    return !bus_id.empty() && bus_id == other.bus_id && boot == other.boot;
  }
  /// The reader compares the chunks with its own.
  void check(const wire_check& c) const {
    c.range("the length of heap", heap.size(), 0, 1 << 16);
    c.range("the length of area", area.size(), 0, 1 << 16);
    c.range("the length of socket", socket.size(), 0, 100);
    c.range("heap_bytes", heap_bytes, 0, 1ull << 48);
    c.range("the length of bus_id", bus_id.size(), 0, 64);
  }
};

/// Second exchange: the PEs whose memory this PE has mapped, by their ranks in the domain.
struct reached_peers {
  static constexpr wire_kind kind = wire_kind::reached_peers;
  std::vector<uint32_t> ranks;
  static auto fields(auto& m) { return std::tie(m.ranks); }
  void check(const wire_check& c) const {
    c.range("the number of ranks", ranks.size(), 0, max_peers);
    for (const uint32_t rank : ranks) c.range("rank", rank, 0, max_peers - 1);
  }
};

}  // namespace gravel::detail
