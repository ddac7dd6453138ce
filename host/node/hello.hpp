// The words between a PE and its node's aggregator (host/node/node_channel.hpp), and what aggregators tell each other through their
// first PEs.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/node/segment.hpp"
#include "lib/base/wire.hpp"

namespace gravel {

/// PE -> aggregator, with the segment's descriptor.
struct hello {
  static constexpr wire_kind kind = wire_kind::hello;
  uint32_t pe = 0;
  uint32_t node = 0;
  bool one_host = false;  ///< all PEs of the job run on one host: its aggregators need no network
  segment_shape shape{};
  std::string bus_id;  ///< of its device, see backend::bus_id
  std::vector<uint32_t> node_of_pe;
  std::vector<std::pair<uint32_t, std::string>> handlers;  ///< id, name
  static auto fields(auto& m) { return std::tie(m.pe, m.node, m.one_host, m.shape, m.bus_id, m.node_of_pe, m.handlers); }
};

/// One node's addresses and keys, for all others. Aggregator -> first PE of its node.
struct wiring {
  static constexpr wire_kind kind = wire_kind::wiring;
  std::vector<std::vector<std::byte>> worker;  ///< by plane
  std::vector<std::vector<std::byte>> keys;    ///< landing memory of each PE, then transit memory (may be empty)
  static auto fields(auto& m) { return std::tie(m.worker, m.keys); }
};

/// Those of all nodes, as their aggregators wrote them. First PE -> aggregator.
struct all_wirings {
  static constexpr wire_kind kind = wire_kind::all_wirings;
  std::vector<std::vector<std::byte>> by_node;
  static auto fields(auto& m) { return std::tie(m.by_node); }
};

/// Aggregator -> all its PEs: messages may flow.
struct ready_word {
  static constexpr wire_kind kind = wire_kind::ready;
  static auto fields(auto&) { return std::tie(); }
};

/// PE -> aggregator, the last word.
struct goodbye_word {
  static constexpr wire_kind kind = wire_kind::goodbye;
  static auto fields(auto&) { return std::tie(); }
};

/// The job ends. Both ways, and between aggregators.
struct abort_word {
  static constexpr wire_kind kind = wire_kind::abort;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.why); }
};

}  // namespace gravel
