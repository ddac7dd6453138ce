// A PE whose resolver sleeps does not see what its peers push into its memory: their kernels say so in their segments,
// and the aggregator tells it. What a kernel stores is the time, so any change means new chunks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/node/segment.hpp"

namespace gravel::detail {

class peer_doorbells {
 public:
  /// Of the PEs of a node, in order of PE.
  explicit peer_doorbells(std::vector<pe_segment*> local) : local_(std::move(local)) {
    local_.resize(std::min<size_t>(local_.size(), max_peers));
    seen_.resize(local_.size() * local_.size());
  }
  /// Passes on what has rung since. True if anything did. Thread scope: one thread.
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
