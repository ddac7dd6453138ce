// One record of each kind that processes send each other, as a process of a small job sends it: for wire_test and
// wire_fuzz.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "host/aggregator/collective.hpp"
#include "host/node/hello.hpp"
#include "host/node/sample.hpp"
#include "host/pe/extent.hpp"
#include "host/pe/peer_description.hpp"
#include "host/pe/program.hpp"
#include "transport/bootstrap.hpp"
#include "transport/ucx_wire.hpp"

namespace gravel::detail::wire_samples {

using bytes = std::vector<std::byte>;

inline bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// The job: four PEs on two nodes; small segments.
inline const settings& values() {
  static const settings small = [] {
    settings s = read_settings([](const char*) { return nullptr; });
    s.packet_size = 4096;
    s.slots = 8;
    s.warp_slots = 16;
    s.aggregator_threads = 1;
    return s;
  }();
  return small;
}
inline const topology& nodes() {
  static const topology two({0, 0, 1, 1}, 32);
  return two;
}

struct kind_of_message {
  wire_kind kind;
  bytes sample;
  std::function<bytes(std::span<const std::byte>)> read;  ///< and written again
};

template <class T>
kind_of_message row(const T& sample) {
  return {T::kind, to_wire(sample), [](std::span<const std::byte> raw) { return to_wire(from_wire<T>(raw, "PE 3")); }};
}

inline ucx_memory_key sample_key() {
  return {ucx_release(), 0x7f0000, 2 * make_segment_shape(values(), nodes(), 1).landing_bytes(), bytes_of("UCX's")};
}
/// Node 1 with one of its PEs.
inline node_sample sample_node() {
  pe_sample pe;
  pe.pe = 3;
  pe.process = 77;
  pe.queues.resize(n_queue_kinds);
  pe.landing.resize(2);
  pe.claimed.resize(n_queue_kinds);
  pe.messages_to = {1, 2, 3, 4};
  pe.call_text = "gravel_barrier_all";
  pe.rings = {{2, 9, 8}};
  plane_sample plane;
  plane.stats.resize(n_stats);
  return {1, 2, 4, 76, 1, {plane}, {pe}};
}
/// The records of node 1.
inline wiring sample_wiring() {
  return {{bytes_of("address of plane 0")}, {to_wire(sample_key()), to_wire(sample_key()), {}}};
}

inline const std::vector<kind_of_message>& all_kinds() {
  static const auto table = [] {
    hello h;
    h.pe = 3;
    h.node = 1;
    h.shape = make_segment_shape(values(), nodes(), 1);
    h.bus_id = "0000:3B:00.0";
    h.node_of_pe = {0, 0, 1, 1};
    h.handlers = {{0xdeadbeef, "visit"}, {7, ""}};
    collective_words words{};
    words.sequence = 1;
    words.bytes = 3;
    words.call = {1, collective_kind::gather, 2, {3, 0}};
    const process_identity process{1, 2, 3, 4};
    return std::vector<kind_of_message>{
        row(h),
        row(sample_wiring()),
        row(all_wirings{{to_wire(sample_wiring()), to_wire(sample_wiring())}}),
        row(ready_word{}),
        row(goodbye_message{}),
        row(abort_message{"why"}),
        row(staged_values{{{"gravel.socket", bytes_of("/tmp/s")}, {"", {}}}}),
        row(program_description{"0.1", "cpu", {1, 2, 3, 4, 5, 6, 7}, {{"visit", 16, true}, {"", 0, false}}}),
        row(peer_description{"heap", "", "gravel-node-1", {}, 1 << 21, 4, 256, 99, "0000:3B:00.0", true, false}),
        row(reached_peers{{0, 5, max_peers - 1}}),
        row(extent_message{1, 2, 3, 4, 5}),
        row(collective::contribution{words, {1, 2}, bytes_of("abc")}),
        row(collective::result{words, bytes_of("abc")}),
        row(ucx_address{ucx_release(), process, bytes_of("UCX's")}),
        row(sample_key()),
        row(fabric_extents{{{0, 4096, std::string(64, 'f')}, {8192, 1, std::string(64, 'g')}}}),
        row(sample_node())};
  }();
  return table;
}

inline bytes body_of(const kind_of_message& k) { return {k.sample.begin() + sizeof(wire_header), k.sample.end()}; }

/// With a header that fits.
inline bytes sealed(wire_kind kind, const bytes& body) {
  wire_writer out(kind);
  for (std::byte b : body) out.put(b);
  return std::move(out).finish();
}

}  // namespace gravel::detail::wire_samples
