// A PE whose resolver sleeps does not see what its peers push into its memory: their kernels say so in their segments, and the
// aggregator tells it. What a kernel stores is the time, so any change means new chunks.
#pragma once
#include <cstdint>
#include <vector>

#include "host/node/segment.hpp"

namespace gravel {

class peer_bells {
 public:
  /// Of the PEs of a node, in order of PE.
  explicit peer_bells(std::vector<pe_segment*> local);
  /// Passes on what has rung since. True if anything did. Thread scope: one thread.
  bool pass_on();

 private:
  std::vector<pe_segment*> local_;  ///< max_peers at most
  std::vector<uint64_t> seen_;      ///< [from][to]
};

}  // namespace gravel
