// The rings of links that are opened together: which rings there are, their memory in the symmetric heap, and the check
// that all PEs open the same.
#pragma once
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <gravel/gravel.cuh>
#include "host/pe/backend.hpp"
#include "host/pe/libgravel.hpp"
#include "lib/base/error.hpp"
#include "lib/base/mix.hpp"
#include "lib/link/endpoint.hpp"
#include "lib/link/event.cuh"
#include "lib/link/send_segment.cuh"

namespace gravel::detail {

struct link_edge {
  gravel_endpoint source, destination;
};

/// The shape of all links of a set.
struct ring_shape {
  uint32_t packet_bytes, buffers;
  uint32_t lanes;  ///< rings of each link; one block drives each
};

/// The rings of several links. Memory at each PE, in this order: words of events, states of inputs, the table of rings,
/// memory of sources, memory of destinations. At a destination only links that end there have places, so the number of
/// all links does not count. Rings of links that were made before keep their own memory of sources and destinations.
class ring_set {
 public:
  static constexpr uint32_t most_buffers = 1024, most_lanes = 512;
  using rings_before = std::vector<std::shared_ptr<const ring_set>>;

  /// Collective. Throws gravel::error, on all PEs, for invalid arguments, or if PEs differ. `what`: the caller's name,
  /// for messages.
  ring_set(const std::string& what, std::vector<link_edge> edges, const ring_shape& shape)
      : edges_(std::move(edges)), shape_(shape), exceptions_(std::uncaught_exceptions()) {
    agree(what);
    check(what);
    shape_.packet_bytes = (shape_.packet_bytes + 15) / 16 * 16;
    std::vector<uint32_t> incoming(static_cast<size_t>(gravel_n_pes()));
    std::vector<uint32_t> place;
    for (const link_edge& e : edges_) place.push_back(incoming[static_cast<size_t>(e.destination.pe)]++);
    const uint32_t most_incoming = edges_.empty() ? 0 : *std::max_element(incoming.begin(), incoming.end());
    const auto n_edges = static_cast<uint32_t>(edges_.size());
    const uint64_t credits_at = table_end(), credits_each = packet_ring::credits_bytes(shape_.buffers),
                   arrivals_at = credits_at + uint64_t{n_edges} * shape_.lanes * credits_each,
                   arrivals_each =
                       packet_ring::padded(packet_ring::arrivals_bytes(shape_.buffers, shape_.packet_bytes));
    take_memory(arrivals_at + uint64_t{most_incoming} * shape_.lanes * arrivals_each);
    for (uint32_t i = 0; i < n_edges; ++i)
      for (uint32_t c = 0; c < shape_.lanes; ++c)
        rings_.push_back({memory_ + arrivals_at + (uint64_t{place[i]} * shape_.lanes + c) * arrivals_each,
                          memory_ + credits_at + (uint64_t{i} * shape_.lanes + c) * credits_each, shape_.packet_bytes,
                          shape_.buffers, static_cast<uint32_t>(edges_[i].source.pe),
                          static_cast<uint32_t>(edges_[i].destination.pe)});
    open();
  }
  /// Uses links that were made before, each of one edge, alike at all PEs: `edges` and rings are theirs, in this order.
  /// All have packets of one size, since segments are cut for all outputs together. `lanes`: so many lanes of each link
  /// are used.
  ring_set(const std::string& what, const rings_before& links, uint32_t lanes)
      : links_(links), exceptions_(std::uncaught_exceptions()) {
    for (const auto& link : links_) edges_.push_back(link->edges()[0]);
    shape_ = links_[0]->shape();
    shape_.lanes = lanes;
    agree(what);
    for (const auto& link : links_) {
      if (link->shape().packet_bytes != shape_.packet_bytes)
        fail_text(what + ": " + text_of(edges_[0].source, edges_[0].destination) + " has packets of " +
                  std::to_string(shape_.packet_bytes) + " bytes, " +
                  text_of(link->edges()[0].source, link->edges()[0].destination) + " of " +
                  std::to_string(link->shape().packet_bytes) + ": those of one router have one size");
      for (uint32_t c = 0; c < lanes; ++c) rings_.push_back(link->ring(0, c));
    }
    take_memory(table_end());
    open();
  }
  /// Frees the memory, unless an exception passes. No kernel that uses the memory may run.
  ~ring_set() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) gravel_free(memory_);
  }
  ring_set(const ring_set&) = delete;
  ring_set& operator=(const ring_set&) = delete;

  const std::vector<link_edge>& edges() const { return edges_; }
  const ring_shape& shape() const { return shape_; }
  uint64_t bytes() const { return bytes_; }
  const packet_ring& ring(size_t edge, uint32_t lane = 0) const { return rings_[edge * shape_.lanes + lane]; }
  /// The ring in device memory.
  const packet_ring* device_ring(size_t edge, uint32_t lane = 0) const { return table_ + edge * shape_.lanes + lane; }
  send_state* state(size_t edge) const { return states_ + edge; }
  /// Events of the sender on `edge`, and of its receiver. After the last edge: events of a path, which does both.
  event_pool sender_events(size_t edge) const { return pool(2 * edge); }
  event_pool receiver_events(size_t edge) const { return pool(2 * edge + 1); }

  /// Returns whether the memory of `pe` is mapped for kernels of this PE. If not, data for it goes through the
  /// aggregator.
  bool reaches(int pe) const { return heaps_[static_cast<size_t>(pe)] != nullptr; }
  /// Returns where `symmetric` lies in the memory of such a PE, for kernels and copies of this PE.
  char* at(int pe, const char* symmetric) const {
    return heaps_[static_cast<size_t>(pe)] + (symmetric - gravel_handle().heap);
  }

 private:
  /// A summary of the links that a PE opens. All PEs compare their summaries.
  struct saying {
    uint64_t edges, n_edges;
    ring_shape shape;
    uint32_t unused;
  };
  uint64_t states_at() const {
    return packet_ring::padded((2 * edges_.size() + 1) * event_pool::words * sizeof(uint64_t));
  }
  uint64_t table_at() const { return states_at() + (edges_.size() + 1) * sizeof(send_state); }
  uint64_t table_end() const {
    return packet_ring::padded(table_at() + edges_.size() * shape_.lanes * sizeof(packet_ring));
  }
  void take_memory(uint64_t bytes) {
    bytes_ = bytes;
    memory_ = gravel_malloc<char>(bytes);
    states_ = reinterpret_cast<send_state*>(memory_ + states_at());
    table_ = reinterpret_cast<packet_ring*>(memory_ + table_at());
  }
  void open() {
    if (!rings_.empty()) gravel_copy(table_, rings_.data(), rings_.size() * sizeof(packet_ring));
    read_routes();
    gravel_barrier_all();  // no PE writes before all memory is ready
  }
  event_pool pool(size_t number) const {
    return event_pool(reinterpret_cast<uint64_t*>(memory_) + number * event_pool::words);
  }
  void agree(const std::string& what) const {
    saying mine{0, edges_.size(), shape_, 0};
    for (const link_edge& e : edges_)
      for (const gravel_endpoint& end : {e.source, e.destination})
        mine.edges = mix(
            mine.edges ^
            mix(static_cast<uint64_t>(static_cast<uint32_t>(end.pe)) << 33 | uint64_t{end.kind} << 32 | end.number) ^
            uint64_t{end.router} << 32);
    std::vector<saying> all(static_cast<size_t>(gravel_n_pes()));
    gravel_allgather(all.data(), &mine, 1);
    for (size_t pe = 1; pe < all.size(); ++pe) {
      if (all[pe].edges != all[0].edges || all[pe].n_edges != all[0].n_edges)
        fail_text(what + ": the PEs open different links: PE 0 " + std::to_string(all[0].n_edges) + ", PE " +
                  std::to_string(pe) + " " + std::to_string(all[pe].n_edges) +
                  (all[pe].n_edges == all[0].n_edges ? " with other ends" : ""));
    }
    // First the two ends of each link: they must fit.
    for (const link_edge& e : edges_) {
      if (!is_pe(e.source.pe) || !is_pe(e.destination.pe)) continue;
      const auto from = static_cast<size_t>(e.source.pe), to = static_cast<size_t>(e.destination.pe);
      if (describe(all[from].shape) != describe(all[to].shape))
        fail_text(what + ": the two ends of " + text_of(e.source, e.destination) + " do not fit: PE " +
                  std::to_string(from) + " has " + describe(all[from].shape) + ", PE " + std::to_string(to) + " " +
                  describe(all[to].shape));
    }
    for (size_t pe = 1; pe < all.size(); ++pe)
      if (describe(all[pe].shape) != describe(all[0].shape))
        fail_text(what + ": the PEs open links that differ: PE 0 has " + describe(all[0].shape) + ", PE " +
                  std::to_string(pe) + " " + describe(all[pe].shape));
  }
  static std::string describe(const ring_shape& s) {
    return std::to_string(s.buffers) + " buffers of " + std::to_string(s.packet_bytes) + " bytes" +
           (s.lanes > 1 ? " in each of " + std::to_string(s.lanes) + " lanes" : "");
  }
  static bool is_pe(int pe) { return pe >= 0 && pe < gravel_n_pes(); }

  void check(const std::string& what) const {
    for (size_t i = 0; i < edges_.size(); ++i) {
      const link_edge& e = edges_[i];
      for (const gravel_endpoint& end : {e.source, e.destination})
        if (!is_pe(end.pe))
          fail_text(what + ": " + text_of(e.source, e.destination) + " has an end at PE " + std::to_string(end.pe) +
                    ": the job has PEs 0 to " + std::to_string(gravel_n_pes() - 1));
      if (e.source == e.destination)
        fail_text(what + ": " + text_of(e.source, e.destination) + " ends where it begins");
      for (size_t k = 0; k < i; ++k)
        if (e.source == edges_[k].source && e.destination == edges_[k].destination)
          fail_text(what + ": " + text_of(e.source, e.destination) + " is listed twice");
    }
    const std::string which = edges_.empty() ? what : what + ": " + text_of(edges_[0].source, edges_[0].destination);
    if (shape_.packet_bytes < 1 || shape_.packet_bytes > packet_word::most_bytes)
      fail_text(which + " has packets of " + std::to_string(shape_.packet_bytes) + " bytes; there may be 1 to " +
                std::to_string(packet_word::most_bytes));
    if (shape_.buffers < 1 || shape_.buffers > most_buffers)
      fail_text(which + " has " + std::to_string(shape_.buffers) + " buffers; there may be 1 to " +
                std::to_string(most_buffers));
    if (shape_.lanes < 1 || shape_.lanes > most_lanes)
      fail_text(which + " has " + std::to_string(shape_.lanes) + " lanes; there may be 1 to " +
                std::to_string(most_lanes));
  }
  void read_routes() {
    const gravel_t g = gravel_handle();
    std::vector<peer_link> links(static_cast<size_t>(gravel_n_pes()));
    if (g.peers) gravel_copy(links.data(), g.peers, links.size() * sizeof(links[0]));
    for (size_t pe = 0; pe < links.size(); ++pe)
      heaps_.push_back(static_cast<int>(pe) == gravel_my_pe() && g.self_in_place ? g.heap : links[pe].heap);
  }

  std::vector<link_edge> edges_;
  ring_shape shape_;
  rings_before links_;
  std::vector<packet_ring> rings_;
  std::vector<char*> heaps_;  ///< [PEs] where the heap is mapped here; nullptr: it is not
  char* memory_ = nullptr;
  uint64_t bytes_ = 0;
  send_state* states_ = nullptr;
  packet_ring* table_ = nullptr;
  int exceptions_;
};

}  // namespace gravel::detail
