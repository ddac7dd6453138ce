// Messages between a PE and its node's aggregator (host/node/node_socket.hpp), and messages between aggregators that
// pass through their first PEs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/node/segment.hpp"
#include "lib/base/wire.hpp"

namespace gravel::detail {

/// PE -> aggregator: what the PE is. The descriptor of its segment comes with it.
struct hello {
  static constexpr wire_kind kind = wire_kind::hello;
  uint32_t pe = 0;
  uint32_t node = 0;
  bool one_host = false;  ///< all PEs of the job run on one host, so aggregators need no network
  segment_shape shape{};
  std::string bus_id;  ///< bus id of its device, see backend::bus_id
  std::vector<uint32_t> node_of_pe;
  std::vector<std::pair<uint32_t, std::string>> handlers;  ///< id, name
  static auto fields(auto& m) {
    return std::tie(m.pe, m.node, m.one_host, m.shape, m.bus_id, m.node_of_pe, m.handlers);
  }
  /// The shape is compared with the aggregator's own (check_hello in host/aggregator/gathering.hpp).
  void check(const wire_check& c) const {
    const uint64_t n = node_of_pe.size();
    c.range("the number of PEs", n, 1, max_pes);
    c.range("pe", pe, 0, n - 1);
    std::vector<char> is_there(n);
    for (uint32_t other : node_of_pe) {
      c.range("the node of a PE", other, 0, n - 1);
      is_there[other] = 1;
    }
    c.holds(std::is_sorted(is_there.rbegin(), is_there.rend()), "node_of_pe", "leaves out a number of a node");
    c.holds(node_of_pe[pe] == node, "node", "is not that of its PE");
    c.range("the length of bus_id", bus_id.size(), 0, 64);
    for (const auto& [id, name] : handlers) c.range("the length of a handler's name", name.size(), 0, 1 << 16);
  }
};

/// UCX addresses and memory keys of a node, for all other nodes. Aggregator -> first PE of its node.
struct wiring {
  static constexpr wire_kind kind = wire_kind::wiring;
  std::vector<std::vector<std::byte>> worker;  ///< by plane
  std::vector<std::vector<std::byte>> keys;    ///< landing memory of each PE, then transit memory (may be empty)
  static auto fields(auto& m) { return std::tie(m.worker, m.keys); }
  void check(const wire_check& c) const {
    c.range("the number of planes", worker.size(), 1, max_planes);
    c.range("the number of keys", keys.size(), 2, max_pes + 1);
    for (const auto& address : worker) c.range("the length of an address", address.size(), 1, 1 << 20);
    for (const auto& key : keys) c.range("the length of a key", key.size(), 0, 1 << 20);
  }
};

/// The wirings of all nodes, as their aggregators wrote them. First PE -> aggregator.
struct all_wirings {
  static constexpr wire_kind kind = wire_kind::all_wirings;
  std::vector<std::vector<std::byte>> by_node;
  static auto fields(auto& m) { return std::tie(m.by_node); }
  void check(const wire_check& c) const { c.range("the number of nodes", by_node.size(), 2, max_pes); }
};

/// Aggregator -> all its PEs: messages may flow.
struct ready_word {
  static constexpr wire_kind kind = wire_kind::ready;
  static constexpr bool any_values_will_do = true;  // there are no values
  static auto fields(auto&) { return std::tie(); }
};

/// PE -> aggregator: its last message.
struct goodbye_message {
  static constexpr wire_kind kind = wire_kind::goodbye;
  static constexpr bool any_values_will_do = true;  // there are no values
  static auto fields(auto&) { return std::tie(); }
};

/// The job ends. Sent in both directions, and between aggregators.
struct abort_message {
  static constexpr wire_kind kind = wire_kind::abort;
  static constexpr bool any_values_will_do = true;  // a text, which is only printed
  std::string why;
  static auto fields(auto& m) { return std::tie(m.why); }
};

}  // namespace gravel::detail
