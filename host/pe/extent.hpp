// Extents: the parts of a range of device addresses that have memory behind them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

/// Message to another PE of the host, which comes with the descriptor of an extent.
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

/// Extents with fabric handles, which any message carries.
struct fabric_extents {
  static constexpr wire_kind kind = wire_kind::fabric_extents;
  struct one {
    uint64_t begin, bytes;
    std::string handle;  ///< memory_handle::fabric
    static auto fields(auto& m) { return std::tie(m.begin, m.bytes, m.handle); }
    void check(const wire_check& c) const {
      c.range("begin", begin, 0, 1ull << 48);
      c.range("bytes", bytes, 1, 1ull << 48);
      c.range("the length of handle", handle.size(), memory_handle::fabric_bytes, memory_handle::fabric_bytes);
    }
  };
  std::vector<one> all;
  static auto fields(auto& m) { return std::tie(m.all); }
  void check(const wire_check& c) const { c.range("the number of extents", all.size(), 0, 1ull << 20); }

  static fabric_extents of(std::span<const new_extent> extents) {
    fabric_extents list;
    for (const new_extent& e : extents) list.all.push_back({e.place.begin, e.place.bytes, e.memory.fabric});
    return list;
  }
  std::vector<new_extent> extents() const {
    std::vector<new_extent> list;
    for (const one& e : all) {
      list.push_back({{e.begin, e.bytes}, {}});
      list.back().memory.fabric = e.handle;
    }
    return list;
  }
};

/// Throws gravel::error that names the PE unless its extents cover the same places as `mine`. They may be divided in
/// another way.
void check_places(uint32_t pe, std::span<const new_extent> theirs, std::span<const new_extent> mine);

}  // namespace gravel::detail
