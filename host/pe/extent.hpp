// Extents: the parts of a range of device addresses that have memory behind them.
#pragma once
#include <cstdint>

#include "host/pe/memory_handle.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

struct extent {
  uint64_t begin, bytes;  ///< offset in the range; multiples of backend::granule(), or of pages for registered memory
  bool operator==(const extent&) const = default;
};

/// An extent that has just been committed, with the handle by which other processes map its memory.
struct new_extent {
  extent place;
  memory_handle memory;
};

/// Message to another PE of the node, which comes with the handle of an extent: a descriptor, or in it a fabric handle.
struct extent_message {
  static constexpr wire_kind kind = wire_kind::extent;
  uint32_t pe;        ///< whose memory it is
  uint64_t exchange;  ///< number of the exchange, from 1
  uint64_t begin, bytes;
  uint64_t left;       ///< extents of this PE that follow in this exchange
  std::string fabric;  ///< memory_handle::fabric
  static auto fields(auto& m) { return std::tie(m.pe, m.exchange, m.begin, m.bytes, m.left, m.fabric); }
  void check(const wire_check& c) const {
    c.range("begin", begin, 0, 1ull << 48);
    c.range("bytes", bytes, 1, 1ull << 48);
    c.range("left", left, 0, 1ull << 20);
    c.holds(fabric.empty() || fabric.size() == memory_handle::fabric_bytes, "fabric", "a fabric handle has 64 bytes");
  }
};

}  // namespace gravel::detail
