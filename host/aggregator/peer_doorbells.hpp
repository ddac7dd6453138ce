// Passes on doorbells between the PEs of a domain.
//
// Problem. A PE whose resolver sleeps does not see that its peers push chunks into its memory.
//
// Solution. The peers' kernels ring a doorbell in their own PE segments, and their aggregator passes it on to the PE.
// If the PE is on another node, it sends a message to the aggregator there. A kernel stores the time in the doorbell,
// so any change of the word means new chunks.
//
// A kernel that waits rings again and again, also while its peer is awake. So an aggregator sends at most one message
// in `pause_us` for each PE of another node. A word that changes meanwhile counts as not seen until then.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/aggregator/node_setup.hpp"
#include "lib/base/error.hpp"

namespace gravel::detail {

class peer_doorbells {
 public:
  static constexpr uint64_t pause_us = 20;

  /// `links[n]`: to plane 0 of node n.
  peer_doorbells(const node_setup& setup, std::vector<remote_link*> links)
      : setup_(setup), links_(std::move(links)), seen_(setup.local.size() * max_peers), next_us_(setup.nodes.n_pes()) {}
  /// Passes on all doorbells that have changed. True if there was any. Thread of plane 0. Throws gravel::error if a PE
  /// names peers that it cannot have.
  bool pass_on(uint64_t now_us) {
    bool rang = false;
    for (size_t from = 0; from < setup_.local.size(); ++from) {
      const pe_control& control = *setup_.local[from]->control();
      const uint64_t n = load_acquire(&control.domain_size);  // [N1]
      if (n > max_peers) fail("PE {} says that it has {} peers", pes()[from], n);
      for (uint32_t rank = 0; rank < n; ++rank) {
        const uint64_t word = load_acquire(&control.peer_doorbells[rank]);
        uint64_t& seen = seen_[from * max_peers + rank];
        if (word == seen) continue;
        const uint32_t pe = load_relaxed(&control.domain[rank]);
        if (pe >= setup_.nodes.n_pes()) fail("PE {} says that PE {} is its peer", pes()[from], pe);
        if (!pass_on(pe, now_us)) continue;
        seen = word;
        rang = true;
      }
    }
    return rang;
  }
  /// A doorbell from another node.
  void receive(const plane_header& header) {
    const auto at = std::lower_bound(pes().begin(), pes().end(), header.sequence);
    if (at == pes().end() || *at != header.sequence)
      fail("node {} rang the doorbell of PE {}, which is not here", header.source_node, header.sequence);
    ring(static_cast<size_t>(at - pes().begin()));
  }

 private:
  const std::vector<uint32_t>& pes() const { return setup_.nodes.pes_of(setup_.node); }
  void ring(size_t local) {
    uint64_t& doorbell = setup_.local[local]->control()->peer_doorbell;
    store_release(&doorbell, doorbell + 1);
  }
  /// False: it is too early.
  bool pass_on(uint32_t pe, uint64_t now_us) {
    const uint32_t node = setup_.nodes.node_of(pe);
    if (node == setup_.node) {
      ring(static_cast<size_t>(std::lower_bound(pes().begin(), pes().end(), pe) - pes().begin()));
      return true;
    }
    if (now_us < next_us_[pe]) return false;
    next_us_[pe] = now_us + pause_us;
    links_[node]->send({plane_message::doorbell, setup_.node, 0, 0, pe, 0, 0}, {});
    return true;
  }

  const node_setup& setup_;
  std::vector<remote_link*> links_;
  std::vector<uint64_t> seen_;     ///< [local PE][rank]
  std::vector<uint64_t> next_us_;  ///< [PE of another node]: when the next message may go
};

}  // namespace gravel::detail
