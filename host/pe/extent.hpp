// Extents: the parts of a range of device addresses that have memory behind them.
#pragma once
#include <cstdint>

#include "lib/base/descriptor.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

struct extent {
  uint64_t begin, bytes;  ///< offset in the range; multiples of backend::granule(), or of pages for registered memory
  bool operator==(const extent&) const = default;
};

/// An extent that has just been committed, with the descriptor by which other processes map its memory. No descriptor:
/// they cannot.
struct new_extent {
  extent place;
  owned_descriptor memory;
};

/// Message to another PE of the node, which comes with the descriptor of an extent.
struct extent_message {
  static constexpr wire_kind kind = wire_kind::extent;
  uint32_t pe;        ///< whose memory it is
  uint64_t exchange;  ///< number of the exchange, from 1
  uint64_t begin, bytes;
  uint64_t left;  ///< extents of this PE that follow in this exchange
  static auto fields(auto& m) { return std::tie(m.pe, m.exchange, m.begin, m.bytes, m.left); }
  void check(const wire_check& c) const {
    c.range("begin", begin, 0, 1ull << 48);
    c.range("bytes", bytes, 1, 1ull << 48);
    c.range("left", left, 0, 1ull << 20);
  }
};

}  // namespace gravel::detail
