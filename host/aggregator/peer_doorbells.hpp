// Passes on doorbells between the PEs of a node.
//
// Problem. A PE whose resolver sleeps does not see that its peers push chunks into its memory.
//
// Solution. The peers' kernels ring a doorbell in their own PE segments, and the aggregator passes it on to the PE. A
// kernel stores the time in the doorbell, so any change of the word means new chunks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/node/segment.hpp"

namespace gravel::detail {

class peer_doorbells {
 public:
  /// `local`: segments of the PEs of a node, in order of PE.
  explicit peer_doorbells(std::vector<pe_segment*> local) : local_(std::move(local)) {
    local_.resize(std::min<size_t>(local_.size(), max_peers));
    seen_.resize(local_.size() * local_.size());
  }
  /// Passes on all doorbells that have changed. True if there was any. Only one thread calls it.
  bool pass_on() {
    bool rang = false;
    for (size_t from = 0, n = local_.size(); from < n; ++from)
      for (size_t to = 0; to < n; ++to) {
        const uint64_t word = load_acquire(&local_[from]->control()->peer_doorbells[to]);
        if (word == seen_[from * n + to]) continue;
        seen_[from * n + to] = word;
        uint64_t& doorbell = local_[to]->control()->peer_doorbell;
        store_release(&doorbell, doorbell + 1);
        rang = true;
      }
    return rang;
  }

 private:
  std::vector<pe_segment*> local_;  ///< max_peers at most
  std::vector<uint64_t> seen_;      ///< [from][to]
};

}  // namespace gravel::detail
